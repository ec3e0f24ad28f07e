//! S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023, section 4): two FIFO queues and a memory of what was evicted. A new item comes
//! into the *small* queue, which has a tenth of the class; at its end it goes to the *main* queue if it was read more than once, and is
//! evicted otherwise. The *ghost* remembers as many of those as main has place for: what is stored again meanwhile comes into main at
//! once. At the end of main an item goes to the front again as often as it was read, three times at most. Most items are asked for only
//! once, and are gone soon.
//!
//! The paper's search for a victim goes on for as long as it finds items that were read. Here it takes what it is at after [`PATIENCE`]
//! items, since others wait for the lock meanwhile. Until there is a victim for the first time, what does not fit into small comes into main, as in libCacheSim
//! (Yang and others): all would be in small otherwise, and the first of them be evicted one after the other though they were read once.
//!
//! In a class of few items, as of long values, a tenth of them are the ones that were just stored: the small queue may always have
//! [`SMALL_LEAST`], and a search evicts nothing from main that it has just promoted, as long as small has items.
//!
//! Notes: a link, and one word with the tick of the store or of the last read that was counted, and the count; three words. Readers
//! write that word without the lock, and may lose each other's counts. Which queue an item is in must not be lost: that is one bit a
//! chunk beside the notes.

use super::bits::Bits;
use super::ghost::Ghost;
use super::list::{self, LINKS, List, PATIENCE};
use super::{Arrival, Chunk, Chunks, Moment, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// After the links: the tick, with the count in its lowest bits.
const TICK_AND_READS: usize = LINKS;
/// The bits of the count, and the most that is counted.
const READS_MAX: u32 = 3;
/// At this many reads an item goes from small to main.
const PROMOTED: u32 = 2;

/// The small queue may always have so many items: four clients have each stored one and not read it yet.
const SMALL_LEAST: u32 = 5;

/// How S3-FIFO divides a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct S3FifoOptions {
    /// The share of the class that the small queue may have, in percent: 1 to 99.
    pub small_percent: u32,
}

impl Default for S3FifoOptions {
    fn default() -> Self {
        S3FifoOptions { small_percent: 10 }
    }
}

impl PolicyOptions for S3FifoOptions {
    type Order = S3Fifo;
    const NAME: &'static str = "s3-fifo";
    const ABOUT: &'static str =
        "small_pct=PERCENT on probation, 10, main, and a ghost (Yang and others 2023)";
    const KEYS: &'static [&'static str] = &["small_pct"];
    const GHOST_BYTES: u32 = 8;

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let default = Self::default();
        let percent = spec.number("small_pct", 1..=99)?;
        Ok(S3FifoOptions { small_percent: percent.map_or(default.small_percent, |percent| percent as u32) })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        vec![("small_pct", self.small_percent.to_string())]
    }

    fn tune(self, order: &mut S3Fifo) -> bool {
        order.small_percent = self.small_percent;
        true
    }

    fn order(self, _seed: u64) -> S3Fifo {
        S3Fifo::new(self)
    }
}

#[derive(Clone, Debug)]
pub struct S3Fifo {
    small: List,
    main: List,
    /// What is in `main`, of all that is in a list.
    is_main: Bits,
    ghost: Ghost,
    small_percent: u32,
    /// Whether it has given a victim since it was empty. Before that nothing has to prove itself: there is room for all.
    has_evicted: bool,
}

enum Queue {
    Small,
    Main,
}

fn reads(chunks: &impl Chunks, chunk: Chunk) -> u32 {
    chunks.note(chunk, TICK_AND_READS) & READS_MAX
}

fn set(chunks: &impl Chunks, chunk: Chunk, tick: u32, reads: u32) {
    chunks.set_note(chunk, TICK_AND_READS, tick & !READS_MAX | reads);
}

impl S3Fifo {
    /// An empty order.
    pub fn new(options: S3FifoOptions) -> Self {
        let (small, main, is_main) = (List::default(), List::default(), Bits::default());
        let small_percent = options.small_percent.clamp(1, 99);
        S3Fifo { small, main, is_main, ghost: Ghost::default(), small_percent, has_evicted: false }
    }

    /// Items in the small queue and in main.
    pub fn lengths(&self) -> [u32; 2] {
        [self.small.len(), self.main.len()]
    }

    fn total(&self) -> u64 {
        u64::from(self.small.len()) + u64::from(self.main.len())
    }

    fn push_main(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        self.is_main.insert(chunk);
        self.main.push(chunks, chunk);
    }

    /// In a class of few items, as of long values, a tenth of them are the ones that were just stored.
    fn is_small_full(&self) -> bool {
        self.small.len() > SMALL_LEAST
            && u64::from(self.small.len()) * 100 >= self.total() * u64::from(self.small_percent)
    }

    /// The queue that the next victim is looked for in has something at its end; None if both are empty.
    fn end(&self) -> Option<(Chunk, Queue)> {
        let small = self.small.oldest().map(|chunk| (chunk, Queue::Small));
        let main = self.main.oldest().map(|chunk| (chunk, Queue::Main));
        if self.is_small_full() { small.or(main) } else { main.or(small) }
    }

    /// The next victim of a search that has promoted `promoted` first. If all of main was promoted by this search, the next
    /// one of small goes: what was just promoted was read, and a class of few items would be a FIFO queue otherwise.
    fn end_after(&self, promoted: Option<Chunk>) -> Option<(Chunk, Queue)> {
        match self.end()? {
            (chunk, Queue::Main) if Some(chunk) == promoted => {
                Some(self.small.oldest().map_or((chunk, Queue::Main), |small| (small, Queue::Small)))
            }
            end => Some(end),
        }
    }

    fn remember(&mut self, chunks: &impl Chunks, chunk: Chunk, entries: u64) {
        // What was removed before it was evicted has no key, and nothing is learnt from it.
        match chunks.hash(chunk) {
            0 => (),
            hash => self.ghost.remember(hash, entries),
        }
    }

    fn victim(&mut self, chunks: &impl Chunks, now: Moment) -> Option<Chunk> {
        let entries = self.total() * u64::from(100 - self.small_percent) / 100;
        let mut promoted = None;
        for passed in 0..=PATIENCE {
            let (chunk, queue) = self.end_after(promoted)?;
            self.has_evicted = true;
            let read = if passed == PATIENCE { 0 } else { reads(chunks, chunk) };
            match queue {
                Queue::Small => {
                    self.small.remove(chunks, chunk);
                    if read < PROMOTED {
                        self.remember(chunks, chunk, entries);
                        return Some(chunk);
                    }
                    set(chunks, chunk, now.tick, 0);
                    self.push_main(chunks, chunk);
                    promoted = promoted.or(Some(chunk));
                }
                Queue::Main => {
                    self.main.remove(chunks, chunk);
                    if read == 0 {
                        self.is_main.remove(chunk);
                        return Some(chunk);
                    }
                    set(chunks, chunk, now.tick, read - 1);
                    self.main.push(chunks, chunk);
                }
            }
        }
        None
    }
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self::new(S3FifoOptions::default())
    }
}

impl Order for S3Fifo {
    const READS: Reads = Reads::Touch;

    fn words(&self) -> usize {
        LINKS + 1
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        set(chunks, chunk, now.tick, 0);
        if self.ghost.recall(arrival.hash) || (!self.has_evicted && self.is_small_full()) {
            self.push_main(chunks, chunk);
        } else {
            self.small.push(chunks, chunk);
        }
    }

    /// Into main: in the small queue, in which all of them would be, what nobody reads twice at once would go before it is read again.
    fn adopted(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.removed(chunks, chunk);
        set(chunks, chunk, now.tick, 0);
        self.push_main(chunks, chunk);
    }

    fn touch(_variant: u8, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        let reads = reads(chunks, chunk);
        // A popular item soon has all that is counted, and its reads write nothing more.
        if reads < READS_MAX {
            set(chunks, chunk, now.tick, reads + 1);
        }
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if !list::is_linked(chunks, chunk) {
            return;
        }
        let queue = if self.is_main.remove(chunk) { &mut self.main } else { &mut self.small };
        queue.remove(chunks, chunk);
        // An empty class fills anew.
        self.has_evicted &= self.total() > 0;
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, mut take: impl FnMut(Chunk)) {
        for _ in 0..want {
            let Some(chunk) = self.victim(chunks, now) else {
                return;
            };
            take(chunk);
        }
    }

    fn next(&self, _chunks: &impl Chunks) -> Option<Chunk> {
        self.end().map(|(chunk, _)| chunk)
    }

    fn since(&self, chunks: &impl Chunks, chunk: Chunk) -> u32 {
        chunks.note(chunk, TICK_AND_READS) & !READS_MAX
    }

    fn bytes(&self) -> usize {
        self.ghost.bytes() + self.is_main.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    fn filled(count: usize, small_percent: u32) -> (Plain, S3Fifo) {
        let (chunks, mut order) =
            (Plain::new(count, LINKS + 1), S3Fifo::new(S3FifoOptions { small_percent }));
        order.has_evicted = true;
        (0..count as Chunk).for_each(|chunk| plain::store(&mut order, &chunks, chunk, chunk * 4));
        (chunks, order)
    }

    fn read(chunks: &Plain, read: &[Chunk]) {
        read.iter().for_each(|chunk| S3Fifo::touch(0, chunks, *chunk, plain::at(100)));
    }

    #[test]
    fn what_was_read_twice_gets_into_main_and_so_does_what_comes_back_soon() {
        let (chunks, mut order) = filled(20, 10);
        read(&chunks, &[0, 0, 1, 2, 2, 2, 2]);
        assert_eq!(plain::victims(&mut order, &chunks, 1), [1], "0 was read twice");
        assert_eq!(order.lengths(), [18, 1]);
        plain::store(&mut order, &chunks, 1, 80);
        assert_eq!(order.lengths(), [18, 2], "1 is remembered");
        assert_eq!(plain::victims(&mut order, &chunks, 1), [3], "2 was read more than twice");
        assert_eq!(plain::victims(&mut order, &chunks, 11), (4..15).collect::<Vec<_>>());
        // Main from the end: 0, 1, 2. Three reads of 0 are three times around, and what was stored last goes when there is nothing else.
        read(&chunks, &[0, 0, 0, 0]);
        assert_eq!(plain::victims(&mut order, &chunks, 3), [1, 2, 0]);
        assert_eq!(plain::victims(&mut order, &chunks, 99), (15..20).collect::<Vec<_>>());
        assert_eq!((order.next(&chunks), order.lengths()), (None, [0, 0]));
    }

    #[test]
    fn until_something_is_evicted_small_gets_no_more_than_its_share() {
        let (chunks, mut order) = (Plain::new(201, LINKS + 1), S3Fifo::default());
        (0..200).for_each(|chunk| plain::store(&mut order, &chunks, chunk, chunk));
        assert_eq!(order.lengths(), [20, 180]);
        plain::victims(&mut order, &chunks, 1);
        plain::store(&mut order, &chunks, 200, 200);
        assert_eq!(order.lengths(), [20, 180], "it is new");
    }

    #[test]
    fn main_gives_when_small_has_less_than_its_share() {
        let (chunks, mut order) = filled(40, 24);
        (0..30).for_each(|chunk| read(&chunks, &[chunk; 2]));
        assert_eq!(plain::victims(&mut order, &chunks, 1), [30]);
        assert_eq!(order.lengths(), [9, 30]);
        assert_eq!(plain::victims(&mut order, &chunks, 1), [0], "9 of 39 are less than 24 %");
        (1..30).for_each(|chunk| order.removed(&chunks, chunk));
        assert_eq!(plain::next_since(&order, &chunks), Some(31 * 4));
        assert_eq!(plain::victims(&mut order, &chunks, 99), (31..40).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_read_is_not_evicted_for_what_was_not_in_a_class_of_few_items() {
        let (chunks, mut order) = filled(6, 10);
        read(&chunks, &[0, 0]);
        assert_eq!(plain::victims(&mut order, &chunks, 1), [1]);
        assert_eq!(order.lengths(), [4, 1]);
    }

    #[test]
    fn in_a_class_of_few_items_those_that_were_just_stored_stay() {
        let (chunks, mut order) = filled(20, 10);
        (0..10).for_each(|chunk| read(&chunks, &[chunk; 2]));
        assert_eq!(plain::victims(&mut order, &chunks, 5), (10..15).collect::<Vec<_>>());
        assert_eq!(order.lengths(), [5, 10]);
        assert_eq!(plain::victims(&mut order, &chunks, 10), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn when_everything_was_read_it_ends() {
        let (chunks, mut order) = filled(PATIENCE as usize * 3, 10);
        (0..3 * PATIENCE).for_each(|chunk| read(&chunks, &[chunk; 3]));
        assert_eq!(plain::victims(&mut order, &chunks, 1), [PATIENCE]);
    }

    #[test]
    fn what_the_ghost_takes_is_bounded_by_the_entries_of_main() {
        let (chunks, mut order) = filled(10_000, 10);
        for round in 0..20_000 {
            let victim = plain::victims(&mut order, &chunks, 1)[0];
            let arrival = Arrival { hash: round | 1 << 20, lives: u32::MAX };
            order.stored(&chunks, victim, arrival, plain::at(round));
        }
        assert!((36_000..100_000).contains(&order.bytes()), "{}", order.bytes());
    }
}
