//! For how long items of each size should stay, so that reads hit most.
//!
//! A page of small items has many of them in it: kept for the same time, they bring more hits. How many keys of each size come back after about as long as
//! items stay is counted in a sample of the requests. It is the marginal gain of memory that Hu and others ("LAMA: optimized locality-aware memory
//! allocation", USENIX ATC 2015) and Cidon and others ("Cliffhanger", NSDI 2016) equalize among classes, here as a factor of ages
//! (docs/decisions/0056-memory-by-hits.md).

use crate::observed::{Observed, Pulse, What};
use crate::reuse::{Returns, Reuse};
use guira_contract::SizeWeight;
use guira_sync::clock::Seconds;
use std::time::Duration;

/// The largest items of a band are longer than its smallest by this factor at least.
const BAND_RATIO: f64 = 1.3;
/// Slots of the table of keys that a key may be in.
const WAYS: usize = 4;
/// Sampled requests in a second of processor time: each costs some tenth of a microsecond.
const PER_CPU_SECOND: f64 = 10_000.0;
const BUSY_LEAST: Duration = Duration::from_millis(50);
/// Keys that are known for each that there is room for: loops that are longer than that are not seen.
const KNOWN_PER_HELD: f64 = 4.0;
/// Sizes whose keys would be read so many times, were they read as often as others, count by half as they are and by half as the others.
const PRIOR_READS: f64 = 8.0;
/// More fills from one pulse to the next are counted as so many: nothing is left of what was before.
const FILLS_MOST: f64 = 32.0;
/// Items of one size stay at most this many times as long as their length alone would make them.
const FACTOR_MOST: f64 = 16.0;

/// A key that was used.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The upper part of its hash, and a bit more; 0 for none.
    tag: u32,
    /// The second in which it expires, `u32::MAX` for never.
    expires: u32,
    /// The time of its band when it was used.
    used: u64,
    band: u8,
    /// Whether the server did not have it when it was last asked for it.
    missed: bool,
}

/// The model.
#[derive(Debug)]
pub(crate) struct Division {
    /// The upper bounds of the bands, in bytes of items.
    bounds: Vec<usize>,
    bands: Vec<Reuse>,
    slots: Vec<[Slot; WAYS]>,
    /// One key of two to the power of this is sampled.
    sparse: u32,
    /// Bytes that were stored, for all keys, since everything known was halved.
    stored: f64,
    capacity: f64,
    /// Requests looked at since the last pulse.
    looked_at: u64,
    last: Option<Pulse>,
}

impl Division {
    /// Bytes of memory below which there is no use of it.
    pub(crate) const LEAST_BUDGET: usize = 48 << 10;

    /// A model that takes about `budget` bytes, of items in chunks of these sizes.
    pub(crate) fn new(budget: usize, chunks: &[usize]) -> Self {
        let bounds = bands_of(chunks);
        let spare = budget.saturating_sub(bounds.len() * size_of::<Reuse>());
        let rows = (spare / size_of::<[Slot; WAYS]>()).max(64);
        // A power of two is found by the low bits of a hash.
        let rows = 1 << rows.ilog2();
        Division {
            bands: bounds.iter().map(|_| Reuse::default()).collect(),
            bounds,
            slots: vec![[Slot::default(); WAYS]; rows],
            sparse: 0,
            stored: 0.0,
            capacity: 0.0,
            looked_at: 0,
            last: None,
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        u64::MAX >> self.sparse
    }

    /// How many keys a sampled one stands for.
    fn keys(&self) -> u64 {
        1 << self.sparse
    }

    fn band_of(&self, weight: u32) -> u8 {
        let band = self.bounds.partition_point(|bound| *bound < weight as usize);
        band.min(self.bounds.len() - 1) as u8
    }

    /// A request was made for a key whose hash is below the threshold.
    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        self.looked_at += 1;
        let found = self.find(observed.hash, now);
        match observed.what {
            What::Hit { weight, expires } => self.read(observed.hash, found, (weight, expires)),
            What::Miss => {
                let Some((row, way)) = found else { return };
                let (slot, keys) = (self.slots[row][way], self.keys());
                self.bands[usize::from(slot.band)].read_again(slot.used, keys);
                let used = self.bands[usize::from(slot.band)].now();
                self.slots[row][way] = Slot { used, missed: true, ..slot };
            }
            What::Stored { weight, expires } => self.store(observed.hash, found, (weight, expires)),
            What::Deleted => {
                if let Some(place) = found {
                    self.drop_slot(place);
                }
            }
        }
    }

    /// A key is gone: whether it would have been used again is not seen.
    fn drop_slot(&mut self, (row, way): (usize, usize)) {
        let (slot, keys) = (std::mem::take(&mut self.slots[row][way]), self.keys());
        self.bands[usize::from(slot.band)].forget(slot.used, keys);
    }

    fn read(&mut self, hash: u64, found: Option<(usize, usize)>, (weight, expires): (u32, u32)) {
        let Some((row, way)) = found else {
            // It was used before, but it is not known when.
            self.put(hash, self.band_of(weight), expires);
            return;
        };
        let (slot, keys) = (self.slots[row][way], self.keys());
        let band = &mut self.bands[usize::from(slot.band)];
        band.read_again(slot.used, keys);
        self.slots[row][way] = Slot { used: band.now(), missed: false, expires, ..slot };
    }

    fn store(&mut self, hash: u64, found: Option<(usize, usize)>, (weight, expires): (u32, u32)) {
        let (band, keys) = (self.band_of(weight), self.keys());
        self.stored += f64::from(weight) * self.keys() as f64;
        let reuse = &mut self.bands[usize::from(band)];
        reuse.weigh(weight);
        match found {
            Some((row, way)) if self.slots[row][way].band == band => {
                let slot = self.slots[row][way];
                // What follows a miss is the same use.
                if !slot.missed {
                    reuse.stored_again(slot.used, keys);
                }
                self.slots[row][way] = Slot { used: reuse.now(), missed: false, expires, ..slot };
            }
            found => {
                if let Some(place) = found {
                    self.drop_slot(place);
                }
                let reuse = &mut self.bands[usize::from(band)];
                reuse.used_first(keys);
                self.put(hash, band, expires);
            }
        }
    }

    fn row(&self, hash: u64) -> (usize, u32) {
        // The upper bits of sampled hashes are zeros.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed as usize >> 8 & (self.slots.len() - 1), (mixed >> 32) as u32 | 1)
    }

    /// The place of a key that is known and has not expired.
    fn find(&mut self, hash: u64, now: Seconds) -> Option<(usize, usize)> {
        let (row, tag) = self.row(hash);
        let way = self.slots[row].iter().position(|slot| slot.tag == tag)?;
        if self.slots[row][way].expires <= now.0 {
            self.drop_slot((row, way));
            return None;
        }
        Some((row, way))
    }

    /// Remembers a key, in the place of the one of its row that is the oldest for its band.
    fn put(&mut self, hash: u64, band: u8, expires: u32) {
        let ((row, tag), keys) = (self.row(hash), self.keys());
        let Division { slots, bands, .. } = self;
        let age = |slot: &Slot, bands: &[Reuse]| match slot.tag {
            0 => u64::MAX,
            _ => bands[usize::from(slot.band)].relative_age(slot.used),
        };
        let used = bands[usize::from(band)].now();
        if let Some(place) = slots[row].iter_mut().max_by_key(|slot| age(slot, bands)) {
            if place.tag != 0 {
                bands[usize::from(place.band)].forget(place.used, keys);
            }
            *place = Slot { tag, expires, used, band, missed: false };
        }
    }

    /// Some time has passed.
    pub(crate) fn pulse(&mut self, pulse: Pulse) {
        self.capacity = pulse.capacity;
        if self.stored >= self.capacity && self.capacity > 0.0 {
            let times = (self.stored / self.capacity).min(FILLS_MOST) as u32;
            self.stored = 0.0;
            self.bands.iter_mut().for_each(|band| band.filled(times));
        }
        let last = *self.last.get_or_insert(pulse);
        if pulse.now != last.now {
            let busy = pulse.busy.saturating_sub(last.busy).max(BUSY_LEAST);
            let looked_at = std::mem::take(&mut self.looked_at);
            self.adapt(looked_at as f64, busy);
            self.last = Some(pulse);
        }
    }

    /// Samples as many keys as there is memory and time for.
    fn adapt(&mut self, looked_at: f64, busy: Duration) {
        let allowed = PER_CPU_SECOND * busy.as_secs_f64();
        let (bytes, uses) = self.bands.iter().fold((0.0, 0.0), |(bytes, uses), band| {
            (bytes + band.uses() * band.weight(), uses + band.uses())
        });
        let held = if uses > 0.0 { self.capacity / (bytes / uses).max(1.0) } else { 0.0 };
        let known = held * KNOWN_PER_HELD / self.keys() as f64;
        let room = (self.slots.len() * WAYS) as f64;
        if looked_at > allowed || known > room {
            self.sparse = (self.sparse + 1).min(40);
        } else if self.sparse > 0 && looked_at < allowed / 4.0 && known < room / 4.0 {
            self.sparse -= 1;
        }
    }

    /// Everything was flushed.
    pub(crate) fn flush(&mut self) {
        self.slots.iter_mut().for_each(|row| *row = Default::default());
        self.bands.iter_mut().for_each(Reuse::forget_all);
    }

    /// How much an item's age counts.
    ///
    /// If a share c of the keys that have not been used for a time t are read before 2 t, whatever t is, then a byte of items that are kept for t brings
    /// hits in proportion to c / (length × t). For all sizes it brings the same if ages count by length / c.
    pub(crate) fn weights(&self) -> Vec<SizeWeight> {
        let returns: Vec<Returns> = self.bands.iter().map(Reuse::returns).collect();
        let sum = |of: fn(&Returns) -> f64| returns.iter().map(of).sum::<f64>();
        let usual = sum(|returns| returns.read) / sum(|returns| returns.waited).max(1.0);
        let prior = PRIOR_READS * self.keys() as f64;
        let weigh = |band: usize| {
            let Returns { waited, read } = returns[band];
            let factor = ((read + prior) / (waited * usual + prior)).clamp(1.0 / FACTOR_MOST, FACTOR_MOST);
            let upto = self.bounds[band];
            let known = self.bands[band].weight();
            let length = if known > 0.0 { known } else { upto as f64 };
            SizeWeight { upto, weight: length / factor }
        };
        (0..self.bands.len()).map(weigh).collect()
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.slots.len() * size_of::<[Slot; WAYS]>() + self.bands.len() * size_of::<Reuse>()
    }
}

/// The upper bounds of bands of chunks of these sizes, the smallest first.
fn bands_of(chunks: &[usize]) -> Vec<usize> {
    let mut bounds = Vec::new();
    let mut first = None;
    for chunk in chunks {
        let from = *first.get_or_insert(*chunk);
        if *chunk as f64 >= from as f64 * BAND_RATIO {
            bounds.push(*chunk);
            first = None;
        }
    }
    match (bounds.last_mut(), chunks.last()) {
        (Some(bound), Some(last)) if first.is_some() => *bound = *last,
        (None, Some(last)) => bounds.push(*last),
        _ => {}
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: [usize; 6] = [64, 100, 128, 1000, 1200, 4096];

    fn division() -> Division {
        Division::new(1 << 20, &CHUNKS)
    }

    /// The hash of a key: they are spread over all.
    fn hash(key: u64) -> u64 {
        (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn see(division: &mut Division, key: u64, what: What) {
        if hash(key) < division.threshold() {
            division.see(Observed { key: b"", hash: hash(key), what }, Seconds(1));
        }
    }

    fn pulse(division: &mut Division, second: u32, capacity: f64) {
        let busy = Duration::from_secs(1000 * u64::from(second));
        division.pulse(Pulse { now: Seconds(second), reads: 0, hits: 0, busy, capacity });
    }

    fn stored(weight: u32) -> What {
        What::Stored { weight, expires: u32::MAX }
    }

    fn weights(division: &Division) -> Vec<f64> {
        division.weights().into_iter().map(|one| one.weight).collect()
    }

    #[test]
    fn bands_are_of_chunks_that_differ_by_less_than_a_third_or_follow_each_other() {
        assert_eq!(bands_of(&CHUNKS), [100, 1000, 4096]);
        assert_eq!(bands_of(&[64]), [64]);
        assert_eq!(bands_of(&[64, 65, 66]), [66]);
    }

    #[test]
    fn where_nothing_is_known_ages_count_by_length() {
        let mut division = division();
        assert_eq!(weights(&division), [100.0, 1000.0, 4096.0]);
        see(&mut division, 1, stored(80));
        assert_eq!(weights(&division), [80.0, 1000.0, 4096.0]);
        // The last has everything that is longer.
        see(&mut division, 2, stored(1 << 20));
        assert_eq!(weights(&division)[2], f64::from(1 << 20));
    }

    /// Two sizes, of which as much is stored; only the longer one is read again, after about as long as the cache is filled once.
    fn longer_is_read(division: &mut Division, rounds: u64) {
        const LENGTHS: [(u64, u32); 2] = [(90, 90), (900, 900)];
        for round in 0..rounds {
            for number in 0..10_000u64 {
                let short = round * 10_000 + number;
                see(division, short, stored(LENGTHS[0].1));
                if number % 10 == 0 {
                    let long = 1 << 40 | (number / 10);
                    see(division, long, What::Miss);
                    see(division, long, stored(LENGTHS[1].1));
                }
            }
            pulse(division, round as u32 + 1, 1.2e6);
        }
    }

    #[test]
    fn what_is_never_read_again_stays_less_long_than_by_its_length() {
        let mut division = division();
        longer_is_read(&mut division, 20);
        let found = weights(&division);
        // By length it would be a tenth.
        assert!(found[0] > found[1], "{found:?}");
    }

    #[test]
    fn a_band_of_few_keys_is_taken_to_be_as_the_others() {
        let mut division = division();
        longer_is_read(&mut division, 20);
        for key in 0..10 {
            see(&mut division, 1 << 50 | key, stored(4000));
        }
        let found = weights(&division);
        // Keys of other bands that were not read count, too.
        assert!((2000.0..8000.0).contains(&found[2]), "{found:?}");
    }

    #[test]
    fn what_has_expired_or_was_deleted_is_not_known_any_more() {
        let mut division = division();
        see(&mut division, 1, What::Stored { weight: 90, expires: 10 });
        see(&mut division, 2, stored(90));
        see(&mut division, 2, What::Deleted);
        let mut finds = |key, second| division.find(hash(key), Seconds(second)).is_some();
        assert!(finds(1, 9) && !finds(1, 10) && !finds(2, 9));
    }

    #[test]
    fn fewer_keys_are_sampled_where_there_is_no_memory_or_time_for_more() {
        let mut tight = Division::new(Division::LEAST_BUDGET, &CHUNKS);
        for second in 1..10 {
            (0..50_000).for_each(|key| see(&mut tight, key, stored(90)));
            pulse(&mut tight, second, 1e7);
        }
        assert!(tight.threshold() <= u64::MAX >> 5, "{:x}", tight.threshold());
        let mut busy = division();
        for second in 1..10 {
            (0..50_000).for_each(|key| see(&mut busy, key % 100, stored(90)));
            let busy_for = Duration::from_millis(100 * u64::from(second));
            let now = Seconds(second);
            busy.pulse(Pulse { now, reads: 0, hits: 0, busy: busy_for, capacity: 9000.0 });
        }
        assert!(busy.threshold() <= u64::MAX >> 4, "{:x}", busy.threshold());
        // And more again where there is.
        for second in 10..40 {
            (0..50).for_each(|key| see(&mut busy, key, stored(90)));
            pulse(&mut busy, second, 9000.0);
        }
        assert_eq!(busy.threshold(), u64::MAX);
    }

    #[test]
    fn it_keeps_to_its_memory() {
        for budget in [Division::LEAST_BUDGET, 1 << 20, 3 << 20] {
            assert!(Division::new(budget, &CHUNKS).bytes() <= budget, "{budget}");
        }
    }
}
