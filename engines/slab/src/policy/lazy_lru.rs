//! Lazy LRU: an item that is read is moved to the front only if it was not moved for a while, a minute by default. What is read often
//! is near the front anyhow, so that little is lost, and most reads move nothing (*Memcached with KLRU*, section 2.1: memcached 1.4).
//!
//! memcached 1.4 looked, before each store, at a few items at the tail, and removed those that had expired. That costs a third of the
//! stores per second when there are many (section 5.2.1) and is off unless asked for ([`TailReclaim`]).
//!
//! Notes: the links of a list, and the second from which on a read moves the item again; rather than that of the last move, so that a reader can tell without the order whether its read matters.

use super::list::{self, List};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// The second in which the next move is due.
const DUE: usize = 0;

/// How many items at the tail are looked at for dead ones: as many as memcached looks at.
const TAIL: usize = 5;

/// Whether stores look for dead items at the tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailReclaim {
    /// They do not.
    #[default]
    Off,
    On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyLruOptions {
    /// An item is moved no sooner than this many seconds after it was moved last. With 0 it is LRU.
    pub interval: u32,
    /// Whether stores look for dead items at the tail.
    pub tail_reclaim: TailReclaim,
}

impl Default for LazyLruOptions {
    fn default() -> Self {
        LazyLruOptions { interval: 60, tail_reclaim: TailReclaim::Off }
    }
}

impl PolicyOptions for LazyLruOptions {
    type Order = LazyLru;
    const NAME: &'static str = "lazy-lru";
    const ABOUT: &'static str = "as in memcached 1.4: an access moves the item at most once per \
        interval=SECONDS, 60; tail_reclaim=on looks for expired items before each store";
    const KEYS: &'static [&'static str] = &["interval", "tail_reclaim"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let default = Self::default();
        let interval = spec.number("interval", 0..=86_400)?;
        let tail_reclaim = match spec.value("tail_reclaim") {
            None => default.tail_reclaim,
            Some("on") => TailReclaim::On,
            Some("off") => TailReclaim::Off,
            Some(value) => return Err(spec.not("tail_reclaim", value, "on or off")),
        };
        let interval = interval.map_or(default.interval, |seconds| seconds as u32);
        Ok(LazyLruOptions { interval, tail_reclaim })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        let reclaim = if self.tail_reclaim == TailReclaim::On { "on" } else { "off" };
        vec![("interval", self.interval.to_string()), ("tail_reclaim", reclaim.to_owned())]
    }

    fn order(self, _seed: u64) -> LazyLru {
        LazyLru::new(self)
    }
}

#[derive(Clone, Debug, Default)]
pub struct LazyLru {
    list: List,
    options: LazyLruOptions,
}

impl LazyLru {
    /// As lazy as `options` say.
    pub fn new(options: LazyLruOptions) -> Self {
        LazyLru { list: List::default(), options }
    }

    fn put_first(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.removed(chunks, chunk);
        self.list.push(chunks, chunk, now.tick);
        chunks.set_note(chunk, DUE, now.seconds.wrapping_add(self.options.interval));
    }
}

impl Order for LazyLru {
    const READS: Reads = Reads::Queue;
    const HEEDS_EVERY_READ: bool = false;

    fn notes(&self) -> Notes {
        Notes::LIST.and_word()
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.put_first(chunks, chunk, now);
    }

    fn is_due(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> bool {
        now.seconds.wrapping_sub(chunks.note(chunk, DUE)) <= u32::MAX / 2
    }

    fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        if list::is_linked(chunks, chunk) && Self::is_due(chunks, chunk, now) {
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

    fn reclaim(&mut self, chunks: &impl Chunks, _now: Moment, mut take: impl FnMut(Chunk)) {
        if self.options.tail_reclaim == TailReclaim::Off {
            return;
        }
        let mut next = self.list.oldest();
        for _ in 0..TAIL {
            let Some(chunk) = next else {
                return;
            };
            next = self.list.newer(chunks, chunk);
            if chunks.is_dead(chunk) {
                self.list.remove(chunks, chunk);
                take(chunk);
            }
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

    fn filled(options: LazyLruOptions) -> (Plain, LazyLru) {
        let (chunks, mut lru) = (Plain::new(8, Notes::LIST.and_word()), LazyLru::new(options));
        (0..8).for_each(|chunk| plain::store(&mut lru, &chunks, chunk, chunk));
        (chunks, lru)
    }

    #[test]
    fn a_read_moves_only_what_was_not_moved_for_the_interval() {
        let (chunks, mut lru) = filled(LazyLruOptions::default());
        // 1 was stored in second 1: in second 60 it stays where it is, in 61 it is moved, and then not until 121.
        lru.was_read(&chunks, 0, plain::at(59));
        lru.was_read(&chunks, 1, plain::at(60));
        lru.was_read(&chunks, 1, plain::at(61));
        lru.was_read(&chunks, 2, plain::at(62));
        lru.was_read(&chunks, 1, plain::at(120));
        assert_eq!(plain::next_since(&lru, &chunks), Some(0));
        assert_eq!(plain::victims(&mut lru, &chunks, 9), [0, 3, 4, 5, 6, 7, 1, 2]);
        lru.was_read(&chunks, 1, plain::at(900));
        assert_eq!(plain::next_since(&lru, &chunks), None, "what has gone is not brought back by a read");
    }

    #[test]
    fn with_no_interval_it_is_lru_and_seconds_may_wrap() {
        let (chunks, mut lru) = filled(LazyLruOptions { interval: 0, ..LazyLruOptions::default() });
        lru.was_read(&chunks, 0, plain::at(8));
        assert_eq!(plain::victims(&mut lru, &chunks, 9), [1, 2, 3, 4, 5, 6, 7, 0]);
        let (chunks, mut lru) = (Plain::new(2, Notes::LIST.and_word()), LazyLru::default());
        (0..2).for_each(|chunk| plain::store(&mut lru, &chunks, chunk, u32::MAX - 10));
        lru.was_read(&chunks, 0, plain::at(48));
        assert_eq!(plain::victims(&mut lru, &chunks, 1), [0], "59 seconds");
        lru.was_read(&chunks, 1, plain::at(49));
        assert_eq!(plain::next_since(&lru, &chunks), Some(49), "60 seconds");
    }

    #[test]
    fn the_dead_among_five_at_the_tail_are_reclaimed_if_asked_for() {
        for (tail_reclaim, expected) in [(TailReclaim::Off, vec![]), (TailReclaim::On, vec![1, 4])] {
            let (chunks, mut lru) = filled(LazyLruOptions { tail_reclaim, ..LazyLruOptions::default() });
            [1, 4, 5].iter().for_each(|chunk: &usize| chunks.dead[*chunk].set(true));
            let mut reclaimed = Vec::new();
            lru.reclaim(&chunks, plain::at(9), |chunk| reclaimed.push(chunk));
            assert_eq!(reclaimed, expected);
            assert_eq!(plain::victims(&mut lru, &chunks, 9).len(), 8 - expected.len());
        }
    }
}
