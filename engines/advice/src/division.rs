//! How memory should be divided among sizes of items, learnt from a sample of the keys ([`crate::retention`]).
//!
//! Keys are sampled in proportion to their length, so that each stands for as many bytes: a few long items are seen as well as many short ones. Time is counted
//! in fills of the cache, that is in bytes stored, about as the engine counts the ages of its classes. Keys that wait are counted while they wait.

use crate::conclusions::SizeAge;
use crate::fill_clock::FillClock;
use crate::observed::{Observed, Pulse, What};
use crate::retention::{self, COUNTED_BY, Observations, Rates, STEPS, Waits};
use crate::worth::Worth;
use guira_contract::SizeWeight;
use guira_sync::clock::Seconds;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::time::Duration;

/// The largest items of a band of sizes are longer than its smallest by this factor at least.
const BAND_RATIO: f64 = 1.3;
/// Slots of the table of keys that a key may be in.
const WAYS: usize = 4;
/// Slots in use, of all: more, and fewer keys are sampled; fewer, and more are.
const USED: (f64, f64) = (0.3, 0.75);
/// Sampled requests in a second of processor time: each costs some tenth of a microsecond.
const PER_CPU_SECOND: f64 = 10_000.0;
const BUSY_LEAST: Duration = Duration::from_millis(50);
const FILL_TICKS: f64 = 4096.0;
/// Waiting keys are counted so many times in a fill.
const COUNTED_IN_FILL: f64 = 32.0;
/// After so many fills what was seen counts half …
const HALF_LIFE: f64 = 3.0;
/// … and what is of late is seen in about so many. (Less, and loads that swing within a fill make memory swing.)
const TREND_HALF_LIFE: f64 = 1.0;
/// A trend is taken from this many hits more, and as many that were expected.
const TREND_PRIOR: f64 = 4.0 * COUNTED_BY;
/// How much less and more often keys are hit by a trend, at the most.
const TREND: (f64, f64) = (1.0 / 64.0, 2.0);
/// After so many fills the ages have gone half of the way to what was learnt.
const FOLLOWED_IN: f64 = 0.25;
/// The least and most that items stay, in fills: what an engine can do.
const AGES: (f64, f64) = (1.0 / 64.0, 64.0);
/// Nothing is concluded from fewer sampled hits, or in fewer fills.
const HITS_LEAST: f64 = 64.0;
const FILLS_LEAST: f64 = 1.0;

/// Items in chunks of one size.
#[derive(Clone, Copy, Debug)]
pub struct ChunkUse {
    /// The size, in bytes.
    pub chunk: usize,
    pub items: u64,
    /// Commands that needed one and found it, since the start.
    pub hits: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Bits of its hash by which it is found, the lowest of them set; 0 for none.
    tag: u32,
    /// The upper half of its hash, by which it is sampled.
    upper: u32,
    /// The second in which it expires, `u32::MAX` for never.
    expires: u32,
    /// The tick when it was used.
    used: u32,
    /// The tick up to which its wait was counted.
    counted: u32,
    band: u8,
    /// Whether the server did not have it when it was last asked for it.
    missed: bool,
}

type Place = (usize, usize);

#[derive(Debug)]
struct Band {
    /// The largest chunk that they lie in, in bytes.
    upto: usize,
    /// Whether there were any at the last pulse, or have been stored since.
    is_used: bool,
    /// Keys that a sampled one stands for.
    unit: f64,
    /// The mean of their bytes.
    bytes: f64,
    waits: Waits,
    /// Hits and those that were expected: as long as waits count, and of late.
    hits: f64,
    expected: f64,
    late_hits: f64,
    late_expected: f64,
    /// For how long they should stay, in fills, once something is known.
    age: Option<f64>,
    /// For how long they do stay by now, at the most.
    kept: f64,
}

impl Band {
    fn new(upto: usize) -> Self {
        Band {
            upto,
            is_used: false,
            unit: 1.0,
            bytes: upto as f64,
            waits: Waits::default(),
            hits: 0.0,
            expected: 0.0,
            late_hits: 0.0,
            late_expected: 0.0,
            age: None,
            kept: 1.0,
        }
    }

    fn threshold(&self) -> u64 {
        (u64::MAX as f64 / self.unit) as u64
    }

    fn observations(&self, worth: Worth) -> Observations<'_> {
        let usual = (self.hits + TREND_PRIOR) / (self.expected + TREND_PRIOR);
        let trend = (self.late_hits + TREND_PRIOR) / (self.late_expected * usual + TREND_PRIOR);
        Observations {
            waits: &self.waits,
            unit: self.unit,
            bytes: self.bytes,
            hits: self.hits,
            expected: self.expected,
            trend: trend.clamp(TREND.0, TREND.1),
            worth: worth.of(self.bytes, 1.0),
        }
    }

    /// The age goes part of the way to another. `passed` fills have passed: no item can have waited for longer than it could before, and that.
    fn follow(&mut self, age: f64, part: f64, passed: f64) {
        let before = self.age.unwrap_or(1.0);
        let age = before * (age.clamp(AGES.0, AGES.1) / before).powf(part);
        self.age = Some(age);
        self.kept = age.min(self.kept + passed);
    }

    fn weigh(&mut self, bytes: u32) {
        self.bytes += (f64::from(bytes) - self.bytes) / WEIGHED_OF;
    }

    fn fade(&mut self, fills: f64) {
        let (long, late) = (0.5f64.powf(fills / HALF_LIFE), 0.5f64.powf(fills / TREND_HALF_LIFE));
        self.waits.fade(long);
        (self.hits, self.expected) = (self.hits * long, self.expected * long);
        (self.late_hits, self.late_expected) = (self.late_hits * late, self.late_expected * late);
    }
}

/// The mean length is of about so many items.
const WEIGHED_OF: f64 = 64.0;

/// The fills and the sampled hits that waits count for.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    fills: f64,
    hits: f64,
}

/// What is learnt of bands of sizes.
#[derive(Debug)]
pub(crate) struct Division {
    worth: Worth,
    /// The sizes of chunks, and what the server has counted of each.
    totals: Vec<(usize, u64)>,
    bands: Vec<Band>,
    slots: Vec<[Slot; WAYS]>,
    /// A sampled key stands for so many bytes, unless it is longer.
    bytes_per_key: f64,
    /// But of all keys at most one of two to the power of this is sampled.
    sparse: u32,
    capacity: f64,
    clock: FillClock,
    seen: Seen,
    /// How often keys are hit; zeros as long as nothing is known.
    rates: Rates,
    /// Requests looked at since the last pulse.
    looked_at: u64,
    last: Option<Pulse>,
}

impl Division {
    /// Bytes of memory below which there is no use of it.
    pub(crate) const LEAST_BUDGET: usize = 48 << 10;
    /// Bytes of memory above which more would cost more time than it tells: a pulse goes through the whole table, with the models locked.
    pub(crate) const MOST_BUDGET: usize = 448 << 10;

    /// A model that takes about `budget` bytes, of items in chunks of these sizes.
    pub(crate) fn new(budget: usize, chunks: &[usize]) -> Self {
        let bands: Vec<Band> = bands_of(chunks).into_iter().map(Band::new).collect();
        let spare = budget.saturating_sub(bands.len() * size_of::<Band>() + size_of_val(chunks) * 2);
        let rows = (spare / size_of::<[Slot; WAYS]>()).max(64);
        // A power of two is found by the low bits of a hash.
        let rows = 1 << rows.ilog2();
        Division {
            worth: Worth::Objects,
            totals: chunks.iter().map(|chunk| (*chunk, 0)).collect(),
            bands,
            slots: vec![[Slot::default(); WAYS]; rows],
            bytes_per_key: 1.0,
            sparse: 0,
            capacity: 0.0,
            clock: FillClock::default(),
            seen: Seen::default(),
            rates: [0.0; STEPS],
            looked_at: 0,
            last: None,
        }
    }

    /// The same with another aim.
    pub(crate) fn aiming_at(self, worth: Worth) -> Self {
        Division { worth, ..self }
    }

    /// Requests for keys whose hash is below are of use.
    pub(crate) fn threshold(&self) -> u64 {
        let used = self.bands.iter().filter(|band| band.is_used).map(Band::threshold).max();
        used.or_else(|| self.bands.iter().map(Band::threshold).min()).unwrap_or(0)
    }

    fn tick(&self) -> u32 {
        (self.clock.now() * FILL_TICKS) as u64 as u32
    }

    fn band_of(&self, bytes: usize) -> u8 {
        let band = self.bands.partition_point(|band| band.upto < bytes);
        band.min(self.bands.len() - 1) as u8
    }

    fn slot(&mut self, (row, way): Place) -> &mut Slot {
        &mut self.slots[row][way]
    }

    /// A request was made for a key whose hash is below the threshold.
    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        self.looked_at += 1;
        let found = self.find(observed.hash, now);
        match observed.what {
            What::Hit { weight, expires } => self.read(observed.hash, found, (weight, expires)),
            What::Miss => {
                // Whoever asks again before it is stored would have been spared by the same item.
                if let Some(place) = found
                    && !std::mem::replace(&mut self.slot(place).missed, true)
                {
                    self.hit(place);
                }
            }
            What::Stored { weight, expires } => self.store(observed.hash, found, (weight, expires)),
            What::Updated { weight, expires } => self.read(observed.hash, found, (weight, expires)),
            What::Deleted => {
                if let Some(place) = found {
                    self.drop_slot(place);
                }
            }
        }
    }

    /// The wait of a key goes on up to now.
    fn count_wait(&mut self, place: Place) {
        let tick = self.tick();
        let slot = self.slot(place);
        let ages = (slot.counted.wrapping_sub(slot.used), tick.wrapping_sub(slot.used));
        let ages = (f64::from(ages.0) / FILL_TICKS, f64::from(ages.1) / FILL_TICKS);
        slot.counted = tick;
        let band = usize::from(slot.band);
        let band = &mut self.bands[band];
        let expected = band.waits.wait(ages, band.unit, (&self.rates, band.kept));
        band.expected += expected;
        band.late_expected += expected;
    }

    /// A key that is known was read.
    fn hit(&mut self, place: Place) {
        self.count_wait(place);
        let tick = self.tick();
        let slot = self.slot(place);
        let age = f64::from(tick.wrapping_sub(slot.used)) / FILL_TICKS;
        slot.used = tick;
        let band = usize::from(slot.band);
        let band = &mut self.bands[band];
        band.waits.hit(age, band.unit);
        self.seen.hits += 1.0;
    }

    /// A key is gone: whether it would have been used again is not seen.
    fn drop_slot(&mut self, place: Place) {
        self.count_wait(place);
        *self.slot(place) = Slot::default();
    }

    fn read(&mut self, hash: u64, found: Option<Place>, (weight, expires): (u32, u32)) {
        let Some(place) = found else {
            // It was used before, but it is not known when.
            self.put(hash, self.band_of(weight as usize), expires);
            return;
        };
        self.hit(place);
        let band = self.band_of(weight as usize);
        if self.slot(place).band == band {
            let slot = self.slot(place);
            (slot.missed, slot.expires) = (false, expires);
        } else {
            // It has become longer or shorter.
            self.drop_slot(place);
            self.put(hash, band, expires);
        }
    }

    fn store(&mut self, hash: u64, found: Option<Place>, (weight, expires): (u32, u32)) {
        let number = self.band_of(weight as usize);
        let band = &mut self.bands[usize::from(number)];
        band.is_used = true;
        if hash < band.threshold() && self.capacity > 0.0 {
            band.weigh(weight);
            let bytes = f64::from(weight) * band.unit;
            self.clock.store(bytes, self.capacity);
        }
        match found {
            Some(place) if self.slot(place).band == number => {
                // What follows a miss is the same use.
                if !self.slot(place).missed {
                    self.count_wait(place);
                }
                let tick = self.tick();
                let slot = self.slot(place);
                *slot = Slot { used: tick, counted: tick, missed: false, expires, ..*slot };
            }
            found => {
                if let Some(place) = found {
                    self.drop_slot(place);
                }
                self.put(hash, number, expires);
            }
        }
    }

    fn row(&self, hash: u64) -> (usize, u32) {
        // The upper bits of sampled hashes are zeros.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed as usize >> 8 & (self.slots.len() - 1), (mixed >> 32) as u32 | 1)
    }

    /// The place of a key that is known and has not expired.
    fn find(&mut self, hash: u64, now: Seconds) -> Option<Place> {
        let (row, tag) = self.row(hash);
        let way = self.slots[row].iter().position(|slot| slot.tag == tag)?;
        if self.slots[row][way].expires <= now.0 {
            self.drop_slot((row, way));
            return None;
        }
        Some((row, way))
    }

    /// Remembers a key if it is in the sample, in the place of the one of its row that was not used for longest.
    fn put(&mut self, hash: u64, band: u8, expires: u32) {
        if hash >= self.bands[usize::from(band)].threshold() {
            return;
        }
        let ((row, tag), tick) = (self.row(hash), self.tick());
        let age = |slot: &Slot| if slot.tag == 0 { u32::MAX } else { tick.wrapping_sub(slot.used) };
        let Some(way) = (0..WAYS).max_by_key(|way| age(&self.slots[row][*way])) else { return };
        if self.slots[row][way].tag != 0 {
            self.count_wait((row, way));
        }
        let upper = (hash >> 32) as u32;
        self.slots[row][way] = Slot { tag, upper, expires, used: tick, counted: tick, band, missed: false };
    }

    /// Has `each` see the places of all keys that are known. Returns how many are left.
    fn each_place(&mut self, mut each: impl FnMut(&mut Self, Place)) -> usize {
        let mut left = 0;
        for row in 0..self.slots.len() {
            for way in 0..WAYS {
                if self.slots[row][way].tag != 0 {
                    each(self, (row, way));
                    left += usize::from(self.slots[row][way].tag != 0);
                }
            }
        }
        left
    }

    /// What the server has counted. A class without items may be missing, and a thread may come late with its counts: totals never go back.
    pub(crate) fn count_uses(&mut self, uses: &[ChunkUse]) {
        self.bands.iter_mut().for_each(|band| band.is_used = false);
        for one in uses {
            let index = self.totals.partition_point(|(chunk, _)| *chunk < one.chunk);
            let Some((_, total)) = self.totals.get_mut(index) else { continue };
            let hits = one.hits.saturating_sub(*total) as f64;
            *total = one.hits.max(*total);
            let band = usize::from(self.band_of(one.chunk));
            let band = &mut self.bands[band];
            band.is_used |= one.items > 0;
            if self.rates[0] > 0.0 {
                band.hits += hits;
                band.late_hits += hits;
            }
        }
    }

    pub(crate) fn pulse(&mut self, pulse: Pulse) {
        if self.capacity == 0.0 && pulse.capacity > 0.0 {
            let room = (self.slots.len() * WAYS) as f64 * USED.1;
            self.bytes_per_key = (pulse.capacity * retention::observed() / room).max(1.0);
            self.sample();
        }
        self.capacity = pulse.capacity;
        if self.clock.since_count() >= 1.0 / COUNTED_IN_FILL {
            self.count(pulse.now);
        }
        let last = *self.last.get_or_insert(pulse);
        if pulse.now != last.now {
            self.adapt(pulse.busy.saturating_sub(last.busy).max(BUSY_LEAST));
            self.clock.keep_pace(pulse.stored.saturating_sub(last.stored) as f64);
            self.last = Some(pulse);
        }
    }

    /// Which keys are sampled has changed: those that no longer are go.
    fn sample(&mut self) {
        self.each_place(Self::count_wait);
        let least = (1u64 << self.sparse) as f64;
        for band in &mut self.bands {
            band.unit = (self.bytes_per_key / band.upto as f64).max(least);
        }
        self.each_place(|division, place| {
            let slot = *division.slot(place);
            if u64::from(slot.upper) << 32 >= division.bands[usize::from(slot.band)].threshold() {
                division.drop_slot(place);
            }
        });
    }

    /// Samples as many requests as there is time for.
    fn adapt(&mut self, busy: Duration) {
        let allowed = PER_CPU_SECOND * busy.as_secs_f64();
        let looked_at = std::mem::take(&mut self.looked_at) as f64;
        if looked_at > allowed {
            self.sparse = (self.sparse + 1).min(40);
        } else if self.sparse > 0 && looked_at < allowed / 4.0 {
            self.sparse -= 1;
        } else {
            return;
        }
        self.sample();
    }

    /// Samples as many keys as there is memory for.
    fn fit(&mut self, known: usize) {
        let used = known as f64 / (self.slots.len() * WAYS) as f64;
        let is_settled = self.clock.now() > 2.0 * retention::observed();
        // Where keys are few for want of time, it would change nothing.
        let least = (1u64 << self.sparse) as f64;
        let decides = self.bands.iter().any(|band| band.is_used && band.unit > least);
        if used > USED.1 {
            self.bytes_per_key *= SQRT_2;
        } else if is_settled && used < USED.0 && decides {
            self.bytes_per_key *= FRAC_1_SQRT_2;
        } else {
            return;
        }
        self.sample();
    }

    /// Counts the keys that wait, and concludes from all that was seen.
    fn count(&mut self, now: Seconds) {
        let passed = self.clock.since_count();
        let (tick, oldest) = (self.tick(), (retention::observed() * FILL_TICKS) as u32);
        let known = self.each_place(|division, place| {
            let slot = *division.slot(place);
            if slot.expires <= now.0 || tick.wrapping_sub(slot.used) > oldest {
                division.drop_slot(place);
            } else {
                division.count_wait(place);
            }
        });
        self.clock.end_count();
        self.seen.fills += passed;
        self.conclude(passed);
        let factor = 0.5f64.powf(passed / HALF_LIFE);
        (self.seen.fills, self.seen.hits) = (self.seen.fills * factor, self.seen.hits * factor);
        self.bands.iter_mut().for_each(|band| band.fade(passed));
        self.fit(known);
    }

    fn conclude(&mut self, passed: f64) {
        let sizes: Vec<_> = self.bands.iter().map(|band| band.observations(self.worth)).collect();
        let is_known = self.seen.hits >= HITS_LEAST && self.clock.now() >= FILLS_LEAST;
        let Some(rates) = retention::rates(&sizes).filter(|_| is_known) else {
            // What is not seen any more is forgotten.
            let part = 1.0 - 0.5f64.powf(passed / HALF_LIFE);
            let known = self.bands.iter_mut().filter(|band| band.age.is_some());
            known.for_each(|band| band.follow(1.0, part, passed));
            return;
        };
        // Hits are compared with what was expected, and nothing was before.
        let is_first = self.rates[0] <= 0.0;
        let ages = (!is_first).then(|| retention::ages(&sizes, &rates, (self.seen.fills, self.capacity)));
        self.rates = rates;
        let Some(ages) = ages else { return };
        let part = 1.0 - 0.5f64.powf(passed / FOLLOWED_IN);
        for (index, band) in self.bands.iter_mut().enumerate() {
            band.follow(ages.as_ref().map_or(1.0, |ages| ages[index]), part, passed);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.slots.iter_mut().for_each(|row| *row = Default::default());
    }

    /// How long items of each size should stay; empty as long as not enough is known.
    pub(crate) fn ages(&self) -> Vec<SizeAge> {
        let age = |band: &Band| Some(SizeAge { upto: band.upto, age: band.age?, kept: band.kept });
        self.bands.iter().map(age).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Continues with the ages that another server has learnt for the same sizes.
    pub(crate) fn restore(&mut self, ages: &[SizeAge]) {
        let bounds = self.bands.iter().map(|band| band.upto);
        if !bounds.eq(ages.iter().map(|one| one.upto)) {
            return;
        }
        for (band, SizeAge { age, kept, .. }) in self.bands.iter_mut().zip(ages) {
            (band.age, band.kept) = (Some(age.clamp(AGES.0, AGES.1)), *kept);
        }
    }

    /// How much an item's age counts; nothing as long as not enough is known.
    pub(crate) fn weights(&self) -> Vec<SizeWeight> {
        let weight = |band: &Band| Some(SizeWeight { upto: band.upto, weight: 1.0 / band.age? });
        self.bands.iter().map(weight).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.slots.len() * size_of::<[Slot; WAYS]>()
            + self.bands.len() * size_of::<Band>()
            + self.totals.len() * size_of::<(usize, u64)>()
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
#[path = "division_tests.rs"]
mod tests;
