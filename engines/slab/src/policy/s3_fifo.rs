//! S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023, section 4): two FIFO queues and a memory of what was evicted. A new item comes
//! into the *small* queue, which has a tenth of the class; at its end it goes to the *main* queue if it was read more than once, and is
//! evicted otherwise. The *ghost* remembers as many of those as main has place for: what is stored again meanwhile comes into main at
//! once. At the end of main an item goes to the front again as often as it was read, twice at most. Most items are asked for only
//! once, and are gone soon.
//!
//! The paper's search for a victim goes on for as long as it finds items that were read. Here it takes what it is at after [`PATIENCE`]
//! items, since others wait for the lock meanwhile. Until there is a victim for the first time, what does not fit into small comes into main, as in libCacheSim
//! (Yang and others): all would be in small otherwise, and the first of them be evicted one after the other though they were read once.
//!
//! S4-FIFO (Xia and others, OSDI 2026) makes five numbers of this options: the share of small, the entries of the ghost, the
//! reads that an item needs to go to main, the newest part of small in which reads do not count, and how often the ghost must
//! have had the key before, so that a loop over too many keys does not pass through main.
//!
//! In a class of few items, as of long values, a tenth of them are the ones that were just stored: the small queue may always have
//! [`SMALL_LEAST`], and a search evicts nothing from main that it has just promoted, as long as small has items.
//!
//! The paper counts three reads. Here they are counted by the two recency bits of a chunk, as CLOCK does it, so that a read has nothing else to write.
//!
//! Notes: the links of a list. Which queue an item is in is one bit a chunk beside the notes.

use super::bits::Bits;
use super::ghost::{GHOST_HITS_MAX, Ghost};
use super::list::{self, List, Newest, PATIENCE};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// The most reads that are counted.
const READS_MAX: u32 = 2;
/// The small queue may always have so many items: four clients have each stored one and not read it yet.
const SMALL_LEAST: u32 = 5;

/// How S3-FIFO divides a class, and what items have to prove.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct S3FifoOptions {
    /// The share of the class that the small queue may have, in percent: 1 to 99.
    pub small_percent: u32,
    /// The entries of the ghost, in percent of the items of the class: up to 400. `None`: as many as main has place for.
    pub ghost_percent: Option<u32>,
    /// The newest part of the small queue in which reads do not count, in percent: 0 to 90.
    pub skip_percent: u32,
    /// Reads after which an item goes from small to main: 1 or 2.
    pub promote_reads: u32,
    /// How often a key must have come back while the ghost remembered it before it comes into main at once: 0 to 3.
    pub ghost_hits: u32,
}

impl S3FifoOptions {
    /// The paper's numbers, with this share for the small queue.
    pub const fn with_small(small_percent: u32) -> Self {
        S3FifoOptions { small_percent, ghost_percent: None, skip_percent: 0, promote_reads: 2, ghost_hits: 0 }
    }

    /// Entries of the ghost of a class with so many items.
    fn ghost_entries(self, items: u64) -> u64 {
        let percent = self.ghost_percent.unwrap_or(100 - self.small_percent);
        items * u64::from(percent) / 100
    }
}

impl Default for S3FifoOptions {
    fn default() -> Self {
        S3FifoOptions::with_small(10)
    }
}

impl PolicyOptions for S3FifoOptions {
    type Order = S3Fifo;
    const NAME: &'static str = "s3-fifo";
    const ABOUT: &'static str = "small_pct=PERCENT on probation, 10, main, and a ghost (Yang and others 2023); as S4-FIFO (Xia and others 2026): \
         ghost_pct=PERCENT of entries, 100 - small_pct; skip_pct=PERCENT of probation in which reads do not count, 0; \
         promote=READS into main, 2; ghost_hits=NUMBER before a key comes into main at once, 0";
    const KEYS: &'static [&'static str] = &["small_pct", "ghost_pct", "skip_pct", "promote", "ghost_hits"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let default = Self::default();
        let number = |key, range| Ok(spec.number(key, range)?.map(|number| number as u32));
        Ok(S3FifoOptions {
            small_percent: number("small_pct", 1..=99)?.unwrap_or(default.small_percent),
            ghost_percent: number("ghost_pct", 1..=400)?,
            skip_percent: number("skip_pct", 0..=90)?.unwrap_or(default.skip_percent),
            promote_reads: number("promote", 1..=u64::from(READS_MAX))?.unwrap_or(default.promote_reads),
            ghost_hits: number("ghost_hits", 0..=u64::from(GHOST_HITS_MAX))?.unwrap_or(default.ghost_hits),
        })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        let default = S3FifoOptions::with_small(self.small_percent);
        let others = [
            ("ghost_pct", self.ghost_percent.unwrap_or_default(), 0),
            ("skip_pct", self.skip_percent, default.skip_percent),
            ("promote", self.promote_reads, default.promote_reads),
            ("ghost_hits", self.ghost_hits, default.ghost_hits),
        ];
        let changed = others.into_iter().filter(|(_, value, default)| value != default);
        let changed = changed.map(|(key, value, _)| (key, value.to_string()));
        [("small_pct", self.small_percent.to_string())].into_iter().chain(changed).collect()
    }

    /// A table takes 6 to 7 bytes an entry.
    fn ghost_bytes(self) -> u32 {
        (self.ghost_entries(100) * 7 / 100) as u32
    }

    fn tune(self, order: &mut S3Fifo) -> bool {
        if self.skip_percent != order.options.skip_percent {
            order.newest.clear();
        }
        order.options = self;
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
    /// The part of `small` in which reads do not count.
    newest: Newest,
    ghost: Ghost,
    options: S3FifoOptions,
    /// Whether it has given a victim since it was empty. Before that nothing has to prove itself: there is room for all.
    has_evicted: bool,
}

enum Queue {
    Small,
    Main,
}

impl S3Fifo {
    /// An empty order.
    pub fn new(options: S3FifoOptions) -> Self {
        let (small, main, is_main) = (List::default(), List::default(), Bits::default());
        let (newest, ghost) = (Newest::default(), Ghost::default());
        S3Fifo { small, main, is_main, newest, ghost, options, has_evicted: false }
    }

    /// Items in the small queue and in main.
    pub fn lengths(&self) -> [u32; 2] {
        [self.small.len(), self.main.len()]
    }

    fn total(&self) -> u64 {
        u64::from(self.small.len()) + u64::from(self.main.len())
    }

    fn push_small(&mut self, chunks: &impl Chunks, chunk: Chunk, tick: u32) {
        self.small.push(chunks, chunk, tick);
        let skipped = self.options.skip_percent;
        if skipped > 0 {
            self.newest.pushed(chunks, &self.small, chunk, skipped, |older| chunks.forget(older));
        }
    }

    fn remove_small(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        self.newest.removed(chunks, &self.small, chunk);
        self.small.remove(chunks, chunk);
    }

    fn push_main(&mut self, chunks: &impl Chunks, chunk: Chunk, tick: u32) {
        self.is_main.insert(chunk);
        self.main.push(chunks, chunk, tick);
    }

    /// In a class of few items, as of long values, a tenth of them are the ones that were just stored.
    fn is_small_full(&self) -> bool {
        self.small.len() > SMALL_LEAST
            && u64::from(self.small.len()) * 100 >= self.total() * u64::from(self.options.small_percent)
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
        let entries = self.options.ghost_entries(self.total());
        let mut promoted = None;
        for passed in 0..=PATIENCE {
            let (chunk, queue) = self.end_after(promoted)?;
            self.has_evicted = true;
            let read = if passed == PATIENCE { 0 } else { chunks.reads(chunk) };
            match queue {
                Queue::Small => {
                    self.remove_small(chunks, chunk);
                    if read < self.options.promote_reads {
                        self.remember(chunks, chunk, entries);
                        return Some(chunk);
                    }
                    chunks.forget(chunk);
                    self.push_main(chunks, chunk, now.tick);
                    promoted = promoted.or(Some(chunk));
                }
                Queue::Main => {
                    self.main.remove(chunks, chunk);
                    if read == 0 {
                        self.is_main.remove(chunk);
                        return Some(chunk);
                    }
                    chunks.fade(chunk);
                    self.main.push(chunks, chunk, now.tick);
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
    const READS: Reads = Reads::Bit;
    const CLEARS_BITS: bool = true;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        chunks.forget(chunk);
        let comes_back = self.ghost.recall(arrival.hash, self.options.ghost_hits);
        if comes_back || (!self.has_evicted && self.is_small_full()) {
            self.push_main(chunks, chunk, now.tick);
        } else {
            self.push_small(chunks, chunk, now.tick);
        }
    }

    /// Into main: in the small queue, in which all of them would be, what nobody reads twice at once would go before it is read again.
    fn adopted(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.removed(chunks, chunk);
        self.push_main(chunks, chunk, now.tick);
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if !list::is_linked(chunks, chunk) {
            return;
        }
        if self.is_main.remove(chunk) {
            self.main.remove(chunks, chunk);
        } else {
            self.remove_small(chunks, chunk);
        }
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

    fn since(&self, _chunks: &impl Chunks, chunk: Chunk) -> u32 {
        let list = if self.is_main.contains(chunk) { &self.main } else { &self.small };
        list.since().unwrap_or_default()
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        list::newest([&self.small, &self.main], chunks, among, lately)
    }

    fn bytes(&self) -> usize {
        self.ghost.bytes() + self.is_main.bytes() + self.newest.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    fn filled(count: usize, small_percent: u32) -> (Plain, S3Fifo) {
        let (chunks, mut order) =
            (Plain::new(count, Notes::LIST), S3Fifo::new(S3FifoOptions::with_small(small_percent)));
        order.has_evicted = true;
        (0..count as Chunk).for_each(|chunk| plain::store(&mut order, &chunks, chunk, chunk * 4));
        (chunks, order)
    }

    fn read(chunks: &Plain, read: &[Chunk]) {
        read.iter().for_each(|chunk| chunks.read(*chunk));
    }

    #[test]
    fn what_was_read_twice_gets_into_main_and_so_does_what_comes_back_soon() {
        let (chunks, mut order) = filled(20, 10);
        read(&chunks, &[0, 0, 1, 2, 2, 2, 2]);
        assert_eq!(plain::victims(&mut order, &chunks, 1), [1], "0 was read twice");
        assert_eq!(order.lengths(), [18, 1]);
        plain::store(&mut order, &chunks, 1, 80);
        assert_eq!(order.lengths(), [18, 2], "1 is remembered");
        assert_eq!(plain::victims(&mut order, &chunks, 1), [3], "2 was read twice and more");
        assert_eq!(plain::victims(&mut order, &chunks, 11), (4..15).collect::<Vec<_>>());
        // Main from the end: 0, 1, 2. Reads of 0 are two times around, and what was stored last goes when there is nothing else.
        read(&chunks, &[0, 0, 0, 0, 1]);
        assert_eq!(plain::victims(&mut order, &chunks, 3), [2, 1, 0]);
        assert_eq!(plain::victims(&mut order, &chunks, 99), (15..20).collect::<Vec<_>>());
        assert_eq!((order.next(&chunks), order.lengths()), (None, [0, 0]));
    }

    #[test]
    fn until_something_is_evicted_small_gets_no_more_than_its_share() {
        let (chunks, mut order) = (Plain::new(201, Notes::LIST), S3Fifo::default());
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

    fn order(spec: &str, count: usize) -> (Plain, S3Fifo) {
        let options = S3FifoOptions::read(&Spec::parse(spec).unwrap()).unwrap();
        let (chunks, mut order) = (Plain::new(count, Notes::LIST), options.order(0));
        order.has_evicted = true;
        (0..count as Chunk).for_each(|chunk| plain::store(&mut order, &chunks, chunk, chunk * 4));
        (chunks, order)
    }

    /// Another key takes the place of a victim.
    fn replace_one(order: &mut S3Fifo, chunks: &Plain, key: u32) -> Chunk {
        let victim = plain::victims(order, chunks, 1)[0];
        order.stored(chunks, victim, Arrival { hash: key, lives: u32::MAX }, plain::at(100));
        victim
    }

    #[test]
    fn reads_in_the_newest_part_of_probation_do_not_count() {
        let (chunks, mut order) = order("s3-fifo:skip_pct=50,promote=1", 20);
        // 0 to 9 have left the newest part.
        read(&chunks, &[1, 12]);
        order.removed(&chunks, 11);
        let victims: Vec<Chunk> = (0..8).map(|key| replace_one(&mut order, &chunks, key | 1 << 20)).collect();
        assert_eq!(victims, [0, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(order.lengths(), [18, 1], "1 was read late enough");
        assert_eq!(plain::victims(&mut order, &chunks, 3), [9, 10, 12], "12 was read too early");
    }

    #[test]
    fn as_many_reads_as_are_wanted_promote() {
        for (promote, expected) in [(1, [3, 4]), (2, [0, 3])] {
            let (chunks, mut order) = order(&format!("s3-fifo:promote={promote}"), 20);
            read(&chunks, &[0, 1, 1, 2, 2, 2]);
            assert_eq!(plain::victims(&mut order, &chunks, 2), expected, "{promote}");
        }
    }

    #[test]
    fn a_key_comes_into_main_after_it_came_back_as_often_as_is_wanted() {
        let (chunks, mut order) = order("s3-fifo:ghost_hits=1,ghost_pct=400", 20);
        for (round, lengths) in [(1, [20, 0]), (2, [19, 1])] {
            // The last victim is the chunk that the last round stored.
            let mut victims = (0..19).map(|key| replace_one(&mut order, &chunks, key | round << 22));
            assert_eq!(victims.find(|victim| *victim == 19), None);
            drop(victims);
            let key = plain::victims(&mut order, &chunks, 1)[0];
            assert_eq!(key, 19);
            plain::store(&mut order, &chunks, key, 100);
            assert_eq!(order.lengths(), lengths, "round {round}");
        }
    }

    #[test]
    fn only_numbers_that_were_changed_are_written() {
        for spec in
            ["s3-fifo:small_pct=10", "s3-fifo:small_pct=3,ghost_pct=200,skip_pct=20,promote=1,ghost_hits=3"]
        {
            let options = S3FifoOptions::read(&Spec::parse(spec).unwrap()).unwrap();
            let written: Vec<String> =
                options.write().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            assert_eq!(format!("s3-fifo:{}", written.join(",")), spec);
        }
        for wrong in ["skip_pct=91", "promote=0", "promote=3", "ghost_hits=4", "ghost_pct=0", "ghost_pct=401"]
        {
            let spec = Spec::parse(&format!("s3-fifo:{wrong}")).unwrap();
            assert!(S3FifoOptions::read(&spec).is_err(), "{wrong}");
        }
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
