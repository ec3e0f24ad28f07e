//! Segmented LRU, memcached's policy since version 1.5 (memcached, `items.c` and `doc/new_lru.txt`; *Memcached with KLRU*, section 2.2).
//! Reads set the recency bit and move nothing. Items are in one of four lists, each in the order in which they came into it:
//!
//! * HOT: what was stored lately. When it is at the end of the list it goes to WARM if it was read, and to COLD otherwise.
//! * WARM: what was read. At the end of the list it goes to the front if it was read again, and to COLD otherwise.
//! * COLD: what may go. At the end of the list it goes to WARM if it was read, and otherwise it is the victim.
//! * TEMP: what expires so soon that moving it is not worth the while; off by default.
//!
//! What was not read leaves HOT and WARM only if they have more than their shares of the class, or if it is older than a multiple of
//! the age of the next victim. As in memcached, what is in TEMP waits for its expiry: it is a victim if it is dead, or if there is
//! nothing else.
//!
//! Flat, there is only COLD, in which what was read at the end of the list goes to the front.
//!
//! What differs: memcached's reads count twice before an item is active, and move what they find in COLD; here one read says enough, and
//! takes effect when the item is at the end of its list. There a thread moves items between the lists; here every store does a bounded
//! share of that. There shares are of bytes and ages in seconds, here they are of chunks, which are all of a size, and in ticks.
//!
//! Notes: the links of a list. Which list an item is in are two bits a chunk beside the notes. Of a list it is known about when its parts were stored,
//! or last seen to have been read; what goes to COLD counts as no older than what came there before.

use super::bits::Bits;
use super::list::{self, List, PATIENCE};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
const TEMP: usize = 3;
/// The order in which victims are looked for.
const ORDER: [usize; 4] = [COLD, HOT, WARM, TEMP];

/// How many items a store moves out of HOT, and out of WARM: more than the one that it brings, so that lists that are too long, since
/// their limits were lowered or many items were read, get shorter.
const MOVES: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segments {
    /// HOT, WARM and COLD.
    #[default]
    Segmented,
    /// Only COLD.
    Flat,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegLruOptions {
    pub segments: Segments,
    /// How much of the class HOT may have, in percent.
    pub hot_percent: u32,
    /// How much of the class WARM may have, in percent.
    pub warm_percent: u32,
    /// How old the end of HOT may be, in ages of the end of COLD.
    pub hot_max_factor: f32,
    /// How old the end of WARM may be, in ages of the end of COLD.
    pub warm_max_factor: f32,
    /// What expires within this many seconds goes to TEMP. memcached proposes 61.
    pub temp_ttl: Option<u32>,
}

impl Default for SegLruOptions {
    fn default() -> Self {
        SegLruOptions {
            segments: Segments::Segmented,
            hot_percent: 20,
            warm_percent: 40,
            hot_max_factor: 0.2,
            warm_max_factor: 2.0,
            temp_ttl: None,
        }
    }
}

impl PolicyOptions for SegLruOptions {
    type Order = SegLru;
    const NAME: &'static str = "seg-lru";
    const ABOUT: &'static str = "as in memcached 1.5 and later: HOT, WARM and COLD; hot_pct=PERCENT, 20, \
        warm_pct=PERCENT, 40, hot_factor=FACTOR, 0.2, warm_factor=FACTOR, 2; a separate list for items \
        that expire within temp_ttl=SECONDS, none; mode=segmented or flat";
    const KEYS: &'static [&'static str] =
        &["hot_pct", "warm_pct", "hot_factor", "warm_factor", "temp_ttl", "mode"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let default = Self::default();
        let percent =
            |name, usual: u32| Ok(spec.number(name, 0..=80)?.map_or(usual, |percent| percent as u32));
        let factor = |name, usual: f32| match spec.value(name) {
            None => Ok(usual),
            Some(value) => match value.parse::<f32>() {
                Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(factor),
                _ => Err(spec.not(name, value, "a number above 0")),
            },
        };
        let options = SegLruOptions {
            segments: match spec.value("mode") {
                None | Some("segmented") => Segments::Segmented,
                Some("flat") => Segments::Flat,
                Some(value) => return Err(spec.not("mode", value, "flat or segmented")),
            },
            hot_percent: percent("hot_pct", default.hot_percent)?,
            warm_percent: percent("warm_pct", default.warm_percent)?,
            hot_max_factor: factor("hot_factor", default.hot_max_factor)?,
            warm_max_factor: factor("warm_factor", default.warm_max_factor)?,
            temp_ttl: spec.number("temp_ttl", 0..=u64::from(u32::MAX - 1))?.map(|seconds| seconds as u32),
        };
        if options.hot_percent + options.warm_percent > 80 {
            let both = format!("{} and {}", options.hot_percent, options.warm_percent);
            return Err(spec.not("hot_pct and warm_pct", &both, "80 or less together"));
        }
        Ok(options)
    }

    fn write(self) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("hot_pct", self.hot_percent.to_string()),
            ("warm_pct", self.warm_percent.to_string()),
            ("hot_factor", self.hot_max_factor.to_string()),
            ("warm_factor", self.warm_max_factor.to_string()),
        ];
        options.extend(self.temp_ttl.map(|seconds| ("temp_ttl", seconds.to_string())));
        if self.segments == Segments::Flat {
            options.push(("mode", "flat".to_owned()));
        }
        options
    }

    fn order(self, _seed: u64) -> SegLru {
        SegLru::new(self)
    }

    fn tune(self, order: &mut SegLru) -> bool {
        order.tune(self);
        true
    }
}

/// When what was not read has to leave HOT or WARM.
#[derive(Clone, Copy)]
struct Limit {
    /// When there are more than this many in the list …
    length: u64,
    /// … or when it is older.
    age: f32,
}

impl Limit {
    /// At once.
    const NOTHING: Limit = Limit { length: 0, age: 0.0 };
}

#[derive(Clone, Debug, Default)]
pub struct SegLru {
    segments: [List; 4],
    /// The two bits of the number of each chunk's list.
    segment_bits: [Bits; 2],
    options: SegLruOptions,
}

impl SegLru {
    pub fn new(options: SegLruOptions) -> Self {
        SegLru { options, ..SegLru::default() }
    }

    /// From now on with these limits. What is in the wrong list then is moved by and by.
    pub fn tune(&mut self, options: SegLruOptions) {
        self.options = options;
    }

    /// How many items HOT, WARM, COLD and TEMP have.
    pub fn lengths(&self) -> [u32; 4] {
        self.segments.each_ref().map(List::len)
    }

    fn is_flat(&self) -> bool {
        self.options.segments == Segments::Flat
    }

    fn segment_of(&self, chunk: Chunk) -> usize {
        (0..2).map(|bit| usize::from(self.segment_bits[bit].contains(chunk)) << bit).sum()
    }

    /// Puts `chunk`, which is in no list, in front of one.
    fn push(&mut self, chunks: &impl Chunks, chunk: Chunk, segment: usize, tick: u32) {
        for (bit, bits) in self.segment_bits.iter_mut().enumerate() {
            if segment >> bit & 1 == 1 {
                bits.insert(chunk);
            }
        }
        self.segments[segment].push(chunks, chunk, tick);
    }

    /// Takes the end of a list out of it, with the tick since when it was left alone.
    fn pop(&mut self, chunks: &impl Chunks, segment: usize) -> Option<(Chunk, u32)> {
        let since = self.segments[segment].since()?;
        let chunk = self.segments[segment].oldest()?;
        self.removed(chunks, chunk);
        Some((chunk, since))
    }

    /// How long the end of a list was left alone.
    fn age(&self, segment: usize, now: Moment) -> Option<u32> {
        self.segments[segment].since().map(|tick| now.ticks_since(tick))
    }

    /// Moves what is at the end of `from`. Its age goes on.
    fn sink(&mut self, chunks: &impl Chunks, from: usize, to: usize) {
        if let Some((chunk, since)) = self.pop(chunks, from) {
            self.push(chunks, chunk, to, since);
        }
    }

    /// Moves what is at the end of `from`, and was read. Its age begins anew.
    fn rescue(&mut self, chunks: &impl Chunks, from: usize, now: Moment) {
        let to = if self.is_flat() { COLD } else { WARM };
        if let Some((chunk, _)) = self.pop(chunks, from) {
            chunks.forget(chunk);
            self.push(chunks, chunk, to, now.tick);
        }
    }

    /// Lets what is at the end of HOT or WARM go where it belongs. False if it is to stay, or if there is nothing.
    fn pull(&mut self, chunks: &impl Chunks, from: usize, limit: Limit, now: Moment) -> bool {
        let Some(chunk) = self.segments[from].oldest() else {
            return false;
        };
        if chunks.is_recent(chunk) {
            self.rescue(chunks, from, now);
            return true;
        }
        let age = self.age(from, now).unwrap_or_default();
        let leaves = u64::from(self.segments[from].len()) > limit.length || age as f32 > limit.age;
        if leaves {
            self.sink(chunks, from, COLD);
        }
        leaves
    }

    /// Moves a few items where they belong.
    fn settle(&mut self, chunks: &impl Chunks, now: Moment) {
        let [hot, warm] = self.limits(now);
        for (segment, limit) in [(HOT, hot), (WARM, warm)] {
            for _ in 0..MOVES {
                if !self.pull(chunks, segment, limit, now) {
                    break;
                }
            }
        }
    }

    fn limits(&self, now: Moment) -> [Limit; 2] {
        if self.is_flat() {
            return [Limit::NOTHING; 2];
        }
        let total =
            [HOT, WARM, COLD].map(|segment| u64::from(self.segments[segment].len())).iter().sum::<u64>();
        // As long as COLD is empty nothing is too old.
        let cold_age = self.age(COLD, now).map_or(f32::INFINITY, |age| age as f32);
        let limit = |percent: u32, factor: f32| Limit {
            length: total * u64::from(percent) / 100,
            age: cold_age * factor,
        };
        let options = &self.options;
        [
            limit(options.hot_percent, options.hot_max_factor),
            limit(options.warm_percent, options.warm_max_factor),
        ]
    }

    /// The end of the first list that has one, in the order in which victims are looked for.
    fn end(&self) -> Option<Chunk> {
        ORDER.into_iter().find_map(|segment| self.segments[segment].oldest())
    }

    fn victim(&mut self, chunks: &impl Chunks, now: Moment) -> Option<Chunk> {
        let temporary = self.segments[TEMP].oldest();
        if let Some(dead) = temporary.filter(|chunk| chunks.is_dead(*chunk)) {
            self.removed(chunks, dead);
            return Some(dead);
        }
        for _ in 0..PATIENCE {
            match self.segments[COLD].oldest() {
                Some(chunk) if chunks.is_recent(chunk) => self.rescue(chunks, COLD, now),
                Some(_) => break,
                None => {
                    let moved =
                        [HOT, WARM].into_iter().any(|from| self.pull(chunks, from, Limit::NOTHING, now));
                    if !moved {
                        break;
                    }
                }
            }
        }
        let chunk = self.end()?;
        self.removed(chunks, chunk);
        Some(chunk)
    }
}

impl Order for SegLru {
    const READS: Reads = Reads::Bit;
    const CLEARS_BITS: bool = true;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        chunks.forget(chunk);
        let segment = match self.options.temp_ttl {
            Some(temp_ttl) if arrival.lives <= temp_ttl => TEMP,
            _ if self.is_flat() => COLD,
            _ => HOT,
        };
        self.push(chunks, chunk, segment, now.tick);
        self.settle(chunks, now);
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if list::is_linked(chunks, chunk) {
            self.segments[self.segment_of(chunk)].remove(chunks, chunk);
            self.segment_bits.iter_mut().for_each(|bits| _ = bits.remove(chunk));
        }
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
        self.end()
    }

    fn since(&self, _chunks: &impl Chunks, _chunk: Chunk) -> u32 {
        ORDER.into_iter().find_map(|segment| self.segments[segment].since()).unwrap_or_default()
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        list::newest(&self.segments, chunks, among, lately)
    }

    fn bytes(&self) -> usize {
        self.segment_bits.iter().map(Bits::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    /// Stores chunks at ticks of four times their numbers.
    fn filled(count: usize, options: SegLruOptions) -> (Plain, SegLru) {
        let (chunks, mut lru) = (Plain::new(count, Notes::LIST), SegLru::new(options));
        (0..count as Chunk).for_each(|chunk| plain::store(&mut lru, &chunks, chunk, chunk * 4));
        (chunks, lru)
    }

    fn read(chunks: &Plain, read: &[usize]) {
        read.iter().for_each(|chunk| chunks.recent[*chunk].set(true));
    }

    fn store_for(lru: &mut SegLru, chunks: &Plain, chunk: Chunk, lives: u32) {
        lru.stored(chunks, chunk, Arrival { hash: 1, lives }, plain::at(100));
    }

    #[test]
    fn what_was_read_is_spared_and_what_was_not_sinks() {
        // Each store moves what is more than a fifth out of HOT: of ten items the last two are there, the others in COLD.
        let (chunks, mut lru) = filled(10, SegLruOptions::default());
        assert_eq!(lru.lengths(), [2, 0, 8, 0]);
        read(&chunks, &[0, 2, 8]);
        assert_eq!(plain::victims(&mut lru, &chunks, 1), [1], "0 was read and goes to WARM");
        assert_eq!(lru.lengths(), [2, 1, 6, 0]);
        // The store of 1 makes HOT too long: 8 was read and goes to WARM. Then 9 is at the end, 8 ticks old, and the end of COLD is 36
        // ticks old: more than a fifth of that.
        plain::store(&mut lru, &chunks, 1, 44);
        assert_eq!(lru.lengths(), [1, 2, 7, 0]);
        assert_eq!(plain::next_since(&lru, &chunks), Some(8));
        assert_eq!(plain::victims(&mut lru, &chunks, 6), [3, 4, 5, 6, 7, 9], "2 was read and goes to WARM");
        assert_eq!(
            plain::victims(&mut lru, &chunks, 9),
            [1, 0, 8, 2],
            "HOT and then WARM, if there is nothing else"
        );
        assert_eq!((lru.next(&chunks), lru.lengths()), (None, [0; 4]));
    }

    #[test]
    fn warm_keeps_what_is_read_again_and_has_a_limit() {
        let (chunks, mut lru) = filled(10, SegLruOptions { warm_percent: 20, ..SegLruOptions::default() });
        read(&chunks, &[0, 1, 2, 3]);
        assert_eq!(plain::victims(&mut lru, &chunks, 1), [4]);
        assert_eq!(lru.lengths(), [2, 4, 3, 0]);
        // Two may stay in WARM. 0 and 2 were read again and go to the front; 1 and 3 are at the end then and go to COLD.
        read(&chunks, &[0, 2]);
        plain::store(&mut lru, &chunks, 4, 40);
        assert_eq!(lru.lengths()[WARM], 2);
        assert_eq!(plain::victims(&mut lru, &chunks, 10), [5, 6, 7, 8, 1, 3, 9, 4, 0, 2]);
    }

    #[test]
    fn flat_it_is_one_list_and_the_others_run_dry() {
        let (chunks, mut lru) = filled(10, SegLruOptions::default());
        read(&chunks, &[0, 9]);
        assert_eq!(plain::victims(&mut lru, &chunks, 1), [1]);
        assert_eq!(lru.lengths(), [2, 1, 6, 0]);
        lru.tune(SegLruOptions { segments: Segments::Flat, ..SegLruOptions::default() });
        plain::store(&mut lru, &chunks, 1, 40);
        assert_eq!(lru.lengths(), [0, 0, 10, 0]);
        read(&chunks, &[2]);
        assert_eq!(plain::victims(&mut lru, &chunks, 10), [3, 4, 5, 6, 7, 1, 8, 9, 0, 2]);
    }

    #[test]
    fn what_lives_short_waits_in_temp_for_its_end() {
        let (chunks, mut lru) = (Plain::new(8, Notes::LIST), SegLru::default());
        (0..2).for_each(|chunk| store_for(&mut lru, &chunks, chunk, 5));
        assert_eq!(lru.lengths()[TEMP], 0, "off by default");
        lru.tune(SegLruOptions { temp_ttl: Some(61), ..SegLruOptions::default() });
        (2..5).for_each(|chunk| store_for(&mut lru, &chunks, chunk, 58 + chunk));
        assert_eq!(lru.lengths()[TEMP], 2, "61 seconds, and not 62");
        assert_eq!(plain::victims(&mut lru, &chunks, 1), [0]);
        chunks.dead[2].set(true);
        assert_eq!(plain::victims(&mut lru, &chunks, 2), [2, 1]);
        assert_eq!(plain::victims(&mut lru, &chunks, 9), [4, 3]);
    }

    #[test]
    fn when_everything_was_read_it_ends() {
        for segments in [Segments::Segmented, Segments::Flat] {
            let count = PATIENCE as usize * 3;
            let (chunks, mut lru) = filled(count, SegLruOptions { segments, ..SegLruOptions::default() });
            read(&chunks, &(0..count).collect::<Vec<_>>());
            assert_eq!(plain::victims(&mut lru, &chunks, 1), [PATIENCE]);
        }
    }
}
