//! 2Q (Johnson and Shasha, VLDB 1994, section 3, the full version): a new item comes into a FIFO queue, *in*, which a read
//! does not change; what was evicted from it is remembered for a while (*out*), and what is stored again meanwhile comes
//! into *main*, which is LRU. An item that is stored over, or moved out of a page that another class gets,
//! comes in as new. A scan passes through *in* and does not touch main.
//!
//! The paper's *in* may have a quarter of the memory, and *out* remembers as many keys as half of the memory has items; so
//! here, of the class.
//!
//! Notes: the links of a list. Which queue an item is in is one bit a chunk beside the notes.

use super::bits::Bits;
use super::ghost::Ghost;
use super::list::{self, List};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// *Out* remembers one key for this many items of the class.
const OUT_PART: u64 = 2;

/// How 2Q divides a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoQOptions {
    /// The share of the class that *in* may have, in percent: 1 to 99.
    pub in_percent: u32,
}

impl Default for TwoQOptions {
    fn default() -> Self {
        TwoQOptions { in_percent: 25 }
    }
}

impl PolicyOptions for TwoQOptions {
    type Order = TwoQ;
    const NAME: &'static str = "2q";
    const ABOUT: &'static str = "new items pass a FIFO queue of in_pct=PERCENT, 25; items stored again soon \
        after enter an LRU list (Johnson and Shasha 1994)";
    const KEYS: &'static [&'static str] = &["in_pct"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let percent = spec.number("in_pct", 1..=99)?;
        let in_percent = percent.map_or(Self::default().in_percent, |percent| percent as u32);
        Ok(TwoQOptions { in_percent })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        vec![("in_pct", self.in_percent.to_string())]
    }

    fn order(self, _seed: u64) -> TwoQ {
        TwoQ { options: self, ..TwoQ::default() }
    }

    fn ghost_bytes(self) -> u32 {
        4
    }

    fn tune(self, order: &mut TwoQ) -> bool {
        order.options = self;
        true
    }
}

/// 2Q.
#[derive(Clone, Debug, Default)]
pub struct TwoQ {
    incoming: List,
    main: List,
    /// What is in `main`, of all that is in a list.
    is_main: Bits,
    out: Ghost,
    options: TwoQOptions,
}

impl TwoQ {
    /// Items in the queue of new items and in main.
    pub fn lengths(&self) -> [u32; 2] {
        [self.incoming.len(), self.main.len()]
    }

    fn total(&self) -> u64 {
        u64::from(self.incoming.len()) + u64::from(self.main.len())
    }

    fn push(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        let list = if self.is_main.contains(chunk) { &mut self.main } else { &mut self.incoming };
        list.push(chunks, chunk, now.tick);
    }

    /// *In* and main, first the one that gives the next victim: *in* if that has more than its share.
    fn ends(&self) -> impl Iterator<Item = &List> {
        let has_more =
            u64::from(self.incoming.len()) * 100 > self.total() * u64::from(self.options.in_percent);
        let (first, second) =
            if has_more { (&self.incoming, &self.main) } else { (&self.main, &self.incoming) };
        [first, second].into_iter()
    }

    fn end(&self) -> Option<Chunk> {
        self.ends().find_map(List::oldest)
    }
}

impl Order for TwoQ {
    const READS: Reads = Reads::Queue;
    const HEEDS_EVERY_READ: bool = false;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        if self.out.recall(arrival.hash, 0) {
            self.is_main.insert(chunk);
        }
        self.push(chunks, chunk, now);
    }

    /// Into main: reads are not heeded in the other queue.
    fn adopted(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.removed(chunks, chunk);
        self.is_main.insert(chunk);
        self.push(chunks, chunk, now);
    }

    fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        if list::is_linked(chunks, chunk) && self.is_main.contains(chunk) {
            self.main.remove(chunks, chunk);
            self.push(chunks, chunk, now);
        }
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if list::is_linked(chunks, chunk) {
            let list = if self.is_main.remove(chunk) { &mut self.main } else { &mut self.incoming };
            list.remove(chunks, chunk);
        }
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, _now: Moment, mut take: impl FnMut(Chunk)) {
        for _ in 0..want {
            let Some(chunk) = self.end() else {
                return;
            };
            let (is_new, entries) = (!self.is_main.contains(chunk), self.total() / OUT_PART);
            self.removed(chunks, chunk);
            // What was removed before it was evicted has no key.
            let hash = chunks.hash(chunk);
            if is_new && hash != 0 {
                self.out.remember(hash, entries);
            }
            take(chunk);
        }
    }

    fn next(&self, _chunks: &impl Chunks) -> Option<Chunk> {
        self.end()
    }

    fn since(&self, _chunks: &impl Chunks, _chunk: Chunk) -> u32 {
        self.ends().find_map(List::since).unwrap_or_default()
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        list::newest([&self.incoming, &self.main], chunks, among, lately)
    }

    fn bytes(&self) -> usize {
        self.out.bytes() + self.is_main.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    fn filled(count: usize) -> (Plain, TwoQ) {
        let (chunks, mut order) = (Plain::new(count, Notes::LIST), TwoQ::default());
        (0..count as Chunk).for_each(|chunk| plain::store(&mut order, &chunks, chunk, chunk));
        (chunks, order)
    }

    #[test]
    fn new_items_go_in_turn_whatever_was_read_and_what_comes_back_soon_is_in_main() {
        let (chunks, mut order) = filled(8);
        order.was_read(&chunks, 0, plain::at(9));
        assert_eq!(plain::victims(&mut order, &chunks, 2), [0, 1]);
        plain::store(&mut order, &chunks, 0, 10);
        plain::store(&mut order, &chunks, 1, 11);
        assert_eq!(order.lengths(), [6, 2], "both are remembered");
        order.was_read(&chunks, 0, plain::at(12));
        // In has 6 of 8, then 5 of 7, and so on, until it has no more than a quarter.
        assert_eq!(plain::victims(&mut order, &chunks, 6), [2, 3, 4, 5, 6, 7]);
        assert_eq!(plain::victims(&mut order, &chunks, 9), [1, 0], "0 was read later");
        assert_eq!((order.next(&chunks), order.lengths()), (None, [0, 0]));
    }

    #[test]
    fn main_gives_when_in_has_no_more_than_its_share() {
        let (chunks, mut order) = filled(8);
        assert_eq!(plain::victims(&mut order, &chunks, 3), [0, 1, 2]);
        (0..3).for_each(|chunk| plain::store(&mut order, &chunks, chunk, 20 + chunk));
        assert_eq!(order.lengths(), [5, 3]);
        assert_eq!(plain::victims(&mut order, &chunks, 4), [3, 4, 5, 6]);
        assert_eq!(order.lengths(), [1, 3]);
        assert_eq!(
            (order.next(&chunks), plain::next_since(&order, &chunks)),
            (Some(0), Some(20)),
            "a quarter is not more than a quarter"
        );
    }
}
