//! FIFO: items go in the order in which they were stored, and a read changes nothing (*Memcached with KLRU*, section 1: the policy of
//! caches on flash, and what LRU becomes when its moves get rare, section 5.1).
//!
//! Notes: the links of a list.

use super::list::{self, List};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    list: List,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FifoOptions;

impl PolicyOptions for FifoOptions {
    type Order = Fifo;
    const NAME: &'static str = "fifo";
    const ABOUT: &'static str = "evicts the item stored first";

    fn order(self, _seed: u64) -> Fifo {
        Fifo::default()
    }
}

impl Order for Fifo {
    const READS: Reads = Reads::Bit;
    const HEEDS_EVERY_READ: bool = false;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        self.list.push(chunks, chunk, now.tick);
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if list::is_linked(chunks, chunk) {
            self.list.remove(chunks, chunk);
        }
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, _now: Moment, mut take: impl FnMut(Chunk)) {
        for _ in 0..want {
            let Some(chunk) = self.list.pop(chunks) else {
                return;
            };
            take(chunk);
        }
    }

    fn next(&self, _chunks: &impl Chunks) -> Option<Chunk> {
        self.list.oldest()
    }

    fn since(&self, _chunks: &impl Chunks, _chunk: Chunk) -> u32 {
        self.list.since().unwrap_or_default()
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        list::newest([&self.list], chunks, among, lately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    #[test]
    fn what_was_stored_first_goes_whatever_was_read() {
        let (chunks, mut fifo) = (Plain::new(8, Notes::LIST), Fifo::default());
        (0..4).for_each(|chunk| plain::store(&mut fifo, &chunks, chunk, chunk));
        chunks.recent[0].set(true);
        fifo.was_read(&chunks, 0, plain::at(7));
        assert_eq!(plain::victims(&mut fifo, &chunks, 1), [0]);
        // Chunk 1 gets another item, and 2 is a chunk no more.
        plain::store(&mut fifo, &chunks, 1, 8);
        fifo.removed(&chunks, 2);
        fifo.removed(&chunks, 2);
        assert_eq!(plain::next_since(&fifo, &chunks), Some(3));
        assert_eq!(plain::victims(&mut fifo, &chunks, 9), [3, 1]);
        assert_eq!(plain::next_since(&fifo, &chunks), None);
    }
}
