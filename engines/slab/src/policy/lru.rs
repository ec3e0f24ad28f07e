//! LRU: what was read or stored the longest ago goes. Strict: every access moves the item to the front of its class's list, as
//! memcached did it until version 1.5 (*Memcached with KLRU*, section 2.1), except that the moves of a batch are done together.

use super::list::{self, List};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};

#[derive(Clone, Debug, Default)]
pub struct Lru {
    list: List,
}

impl Lru {
    fn put_first(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.removed(chunks, chunk);
        self.list.push(chunks, chunk, now.tick);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LruOptions;

impl PolicyOptions for LruOptions {
    type Order = Lru;
    const NAME: &'static str = "lru";
    const ABOUT: &'static str = "each access moves the item to the front";

    fn order(self, _seed: u64) -> Lru {
        Lru::default()
    }
}

impl Order for Lru {
    const READS: Reads = Reads::Queue;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.put_first(chunks, chunk, now);
    }

    fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        // What was evicted meanwhile is not there to be moved.
        if list::is_linked(chunks, chunk) {
            self.put_first(chunks, chunk, now);
        }
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
    fn what_was_not_used_for_longest_goes() {
        let (chunks, mut lru) = (Plain::new(8, Notes::LIST), Lru::default());
        (0..4).for_each(|chunk| plain::store(&mut lru, &chunks, chunk, chunk));
        lru.was_read(&chunks, 0, Moment { tick: 7, seconds: 0 });
        plain::store(&mut lru, &chunks, 2, 8);
        assert_eq!(plain::next_since(&lru, &chunks), Some(1));
        assert_eq!(plain::victims(&mut lru, &chunks, 3), [1, 3, 0]);
        assert_eq!(plain::next_since(&lru, &chunks), Some(8));
        lru.was_read(&chunks, 1, Moment::default());
        assert_eq!(plain::victims(&mut lru, &chunks, 9), [2], "what has gone is not brought back by a read");
    }
}
