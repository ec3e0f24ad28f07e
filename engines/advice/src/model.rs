//! What is known of the sampled requests.

use crate::advice::{Advice, Family, LongSet, OfPolicy, SCALES, WINDOW, WorkingSet};
use crate::families::{Families, OTHERS, Uses};
use crate::keys::{Id, Keys, Known};
use crate::miniatures::{Miniatures, Stored};
use crate::observed::{Observed, Pulse, What};
use crate::pool::PoolAdvice;
use crate::sketch::{ALL_HASHES, SKETCH_BYTES, Sketch};
use crate::span::{SPAN_BYTES, Shown, Span};
use crate::tally::{PARTS, Tally};
use guira_contract::Spec;
use guira_slab::Policy;
use guira_sync::clock::Seconds;
use std::time::Duration;

/// What a sampled key takes of memory if all the miniatures hold it, and all of their arrays have just grown: about 200
/// bytes for each policy.
const KEY_BYTES: usize = 200 * Policy::COUNT;
/// With fewer keys there is nothing to be learnt, and with more there is hardly more.
const KEYS_RANGE: std::ops::RangeInclusive<usize> = 224..=16_384;
/// The longer spans of time of which working sets are known, in seconds.
const SPANS: [(&str, u32); 2] = [("day", 24 * WINDOW), ("week", 7 * 24 * WINDOW)];
/// What working sets take, in bytes.
const SETS_BYTES: usize = 2 * SKETCH_BYTES + SPANS.len() * SPAN_BYTES;
/// The memory for the fewest keys, in bytes.
pub(crate) const LEAST_BUDGET: usize = SETS_BYTES + *KEYS_RANGE.start() * KEY_BYTES;

/// Sampled requests in a second of processor time: each costs some two microseconds.
const PER_CPU_SECOND: f64 = 5_000.0;
/// Sampled requests between two pulses, after which fewer keys are sampled at once …
const PER_PULSE: u64 = 5_000;
/// … and, if that was not enough, again after this many more each time.
const PER_PULSE_MORE: u64 = 500;

/// The share of keys that a server begins with.
const FIRST_RATE: f64 = 1.0 / 16.0;

/// The model.
#[derive(Debug)]
pub(crate) struct Model {
    /// Hashes below are sampled.
    threshold: u64,
    /// Bytes of items that there is room for.
    capacity: f64,
    keys: Keys,
    sets: Vec<Miniatures>,
    served: usize,
    families: Families,
    now: Tally,
    before: Tally,
    sketch: Sketch,
    sketch_before: Option<Sketch>,
    spans: [Span; SPANS.len()],
    window_ends: Seconds,
    /// Requests looked at since the last pulse, and in this window.
    looked_at: u64,
    looked_at_in_window: u64,
    /// Beyond this many since the last pulse fewer keys are sampled.
    allowed: u64,
    last: Option<Pulse>,
    /// The pulse since which requests are counted in `looked_at`: one in a second, however often advice is asked for.
    counted_since: Option<Pulse>,
    window_began: Option<Pulse>,
}

impl Model {
    /// A model that takes about `budget` bytes.
    pub(crate) fn new(budget: usize, delimiter: u8) -> Self {
        let spare = budget.saturating_sub(SETS_BYTES);
        let most = (spare / KEY_BYTES).clamp(*KEYS_RANGE.start(), *KEYS_RANGE.end());
        let sets: Vec<Miniatures> = Policy::all().map(|(policy, _)| Miniatures::new(policy, most)).collect();
        let threshold = (FIRST_RATE * ALL_HASHES) as u64;
        Model {
            threshold,
            capacity: 0.0,
            keys: Keys::new(most),
            families: Families::new(delimiter),
            now: Tally::new(sets.len()),
            before: Tally::new(sets.len()),
            sets,
            served: 0,
            sketch: Sketch::new(threshold, None),
            sketch_before: None,
            spans: SPANS.map(|(_, seconds)| Span::of(seconds)),
            window_ends: Seconds(0),
            looked_at: 0,
            looked_at_in_window: 0,
            allowed: PER_PULSE,
            last: None,
            counted_since: None,
            window_began: None,
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    fn rate(&self) -> f64 {
        self.threshold as f64 / ALL_HASHES
    }

    /// A request was made. True if fewer keys are sampled from now on.
    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) -> bool {
        let threshold = self.threshold;
        self.looked_at += 1;
        self.looked_at_in_window += 1;
        if observed.hash < threshold {
            self.drop_if_expired(observed.hash, now);
            match observed.what {
                What::Hit { weight, expires } => self.read(observed, Some((weight, expires)), now),
                What::Miss => self.read(observed, None, now),
                What::Stored { weight, expires } => self.stored(observed, weight, expires, now),
                What::Deleted => self.forget(observed.hash),
            }
        }
        if self.looked_at >= self.allowed {
            self.allowed = self.looked_at + PER_PULSE_MORE;
            self.lower(now);
        }
        self.threshold != threshold
    }

    fn drop_if_expired(&mut self, hash: u64, now: Seconds) {
        if let Some(id) = self.keys.find(hash)
            && self.keys.get(id).is_some_and(|known| known.expires <= now.0)
        {
            self.remove(id);
        }
    }

    fn forget(&mut self, hash: u64) {
        if let Some(id) = self.keys.find(hash) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: Id) {
        self.sets.iter_mut().for_each(|set| set.remove(id));
        self.keys.remove(id);
    }

    /// The number of a key's family. What was known of one that had it before is known of the others.
    fn family(&mut self, key: &[u8]) -> u16 {
        let family = self.families.of(key);
        if let Some(gone) = self.families.take_replaced() {
            self.sketch.rename(gone, OTHERS);
            self.sketch_before.iter_mut().for_each(|sketch| sketch.rename(gone, OTHERS));
            self.spans.iter_mut().for_each(|span| span.rename(gone, OTHERS));
        }
        family
    }

    /// A key was read, and the server has the item, or not.
    fn read(&mut self, observed: Observed<'_>, item: Option<(u32, u32)>, now: Seconds) {
        let family = self.family(observed.key);
        self.now.seen += 1;
        let id = self.keys.find(observed.hash);
        let mut missed = [0.0; SCALES.len()];
        let one = 1.0 / self.rate();
        match (id, item) {
            // Nothing was known of it, but the server has it: so would a miniature, if it had been there from the beginning.
            (None, Some(_)) => {}
            (None, None) => {
                missed = [one; SCALES.len()];
                self.now.misses.iter_mut().flatten().for_each(|misses| *misses += one);
            }
            (Some(id), _) => {
                for (number, set) in self.sets.iter_mut().enumerate() {
                    for (scale, cache) in set.caches.iter_mut().enumerate() {
                        if !cache.read(id, now.0) {
                            self.now.misses[number][scale] += one;
                            if number == self.served {
                                missed[scale] = one;
                            }
                        }
                    }
                }
            }
        }
        self.count_served(observed.hash, family, one, missed);
        let weight = item.map(|(weight, _)| weight).or_else(|| self.keys.get(id?).map(|known| known.weight));
        self.sketch.see(observed.hash, weight.unwrap_or(0), family, self.sketch_before.as_ref());
        match item {
            Some((weight, expires)) => self.hold(observed.hash, weight, expires, Stored::AfterMiss, now),
            None => {
                if let Some(known) = id.and_then(|id| self.keys.get_mut(id)) {
                    known.missed = true;
                }
            }
        }
    }

    /// Counts a read, which stands for this many, for the policy that is served.
    fn count_served(&mut self, hash: u64, family: u16, reads: f64, missed: [f64; SCALES.len()]) {
        let part = &mut self.now.by_part[(hash % PARTS as u64) as usize];
        part.iter_mut().zip(missed).for_each(|(misses, missed)| *misses += missed);
        if let Some(uses) = self.families.uses(family) {
            uses.reads += reads;
            uses.misses.iter_mut().zip(missed).for_each(|(misses, missed)| *misses += missed);
        }
    }

    fn stored(&mut self, observed: Observed<'_>, weight: u32, expires: u32, now: Seconds) {
        let family = self.family(observed.key);
        self.sketch.see(observed.hash, weight, family, self.sketch_before.as_ref());
        let missed =
            self.keys.find(observed.hash).and_then(|id| self.keys.get(id)).is_some_and(|known| known.missed);
        let stored = if missed { Stored::AfterMiss } else { Stored::Anew };
        self.hold(observed.hash, weight, expires, stored, now);
    }

    /// Stores a key in the miniatures.
    fn hold(&mut self, hash: u64, weight: u32, expires: u32, stored: Stored, now: Seconds) {
        let known = Known { hash, weight, expires, missed: false };
        let id = match self.keys.find(hash) {
            Some(id) => id,
            None => {
                if self.keys.is_full() {
                    self.make_room(now);
                }
                if hash >= self.threshold || self.keys.is_full() {
                    return;
                }
                self.keys.add(known)
            }
        };
        if let Some(place) = self.keys.get_mut(id) {
            *place = known;
        }
        self.sets.iter_mut().for_each(|set| set.store(id, &known, stored, now.0));
    }

    /// Forgets keys that no miniature holds; if these are few, fewer are sampled.
    fn make_room(&mut self, now: Seconds) {
        let held = |id| self.sets.iter().any(|set| set.holds(id));
        let gone: Vec<Id> = self.keys.all().map(|(id, _)| id).filter(|id| !held(*id)).collect();
        gone.iter().for_each(|id| self.keys.remove(*id));
        if gone.len() < self.keys.most() / 8 {
            self.lower(now);
        }
    }

    /// Samples half as many keys as before.
    fn lower(&mut self, now: Seconds) {
        self.threshold /= 2;
        let threshold = self.threshold;
        let gone: Vec<Id> =
            self.keys.all().filter(|(_, known)| known.hash >= threshold).map(|(id, _)| id).collect();
        gone.into_iter().for_each(|id| self.remove(id));
        self.sketch.lower(threshold);
        if let Some(before) = &mut self.sketch_before {
            before.lower(threshold);
        }
        self.fit(now);
    }

    /// Gives the miniatures the room that they should have.
    fn fit(&mut self, now: Seconds) {
        let limit = self.capacity * self.rate();
        self.sets.iter_mut().for_each(|set| set.resize(limit, now.0));
    }

    /// Everything was flushed.
    pub(crate) fn flush(&mut self) {
        let all: Vec<Id> = self.keys.all().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.remove(id));
    }

    /// Counts from zero; what is held stays.
    pub(crate) fn reset(&mut self) {
        (self.now, self.before) = (Tally::new(self.sets.len()), Tally::new(self.sets.len()));
        self.families.reset();
    }

    /// Some time has passed.
    pub(crate) fn pulse(&mut self, pulse: Pulse) {
        if (pulse.capacity - self.capacity).abs() > self.capacity / 100.0 {
            self.capacity = pulse.capacity;
            self.fit(pulse.now);
        }
        if let Some(last) = self.last.replace(pulse) {
            let reads = pulse.reads.saturating_sub(last.reads);
            self.now.reads += reads;
            self.now.hits += pulse.hits.saturating_sub(last.hits);
            self.now.seconds += pulse.now.0.saturating_sub(last.now.0);
        }
        self.bound_time(pulse);
        if pulse.now >= self.window_ends {
            self.turn(pulse);
        }
    }

    /// Samples fewer keys if too many requests were looked at for the time that the server has worked.
    fn bound_time(&mut self, pulse: Pulse) {
        if let Some(since) = self.counted_since {
            if pulse.now == since.now {
                return;
            }
            let busy = pulse.busy.saturating_sub(since.busy);
            if self.looked_at as f64 > PER_CPU_SECOND * busy.as_secs_f64().max(0.05) {
                self.lower(pulse.now);
            }
        }
        self.counted_since = Some(pulse);
        (self.looked_at, self.allowed) = (0, PER_PULSE);
    }

    /// A window is over.
    fn turn(&mut self, pulse: Pulse) {
        self.window_ends = Seconds(pulse.now.0.saturating_add(WINDOW));
        let Some(began) = self.window_began.replace(pulse) else {
            return;
        };
        self.before = std::mem::replace(&mut self.now, Tally::new(self.sets.len()));
        let busy = pulse.busy.saturating_sub(began.busy).max(Duration::from_millis(50));
        let looked_at = std::mem::take(&mut self.looked_at_in_window) as f64;
        // If few keys are sampled, though there is memory and time for four times as many, it may be twice as many.
        let is_cheap = looked_at < PER_CPU_SECOND / 4.0 * busy.as_secs_f64();
        if is_cheap && self.keys.len() < self.keys.most() / 4 && self.rate() < FIRST_RATE {
            self.threshold *= 2;
            self.fit(pulse.now);
        }
        self.spans.iter_mut().for_each(|span| span.absorb(&self.sketch, began.now, pulse.now));
        let sketch = Sketch::new(self.threshold, Some(&self.sketch));
        self.sketch_before = Some(std::mem::replace(&mut self.sketch, sketch));
        self.families.turn();
    }

    /// `policy` is served. What the miniatures of another of the same name hold goes over to those of this one.
    pub(crate) fn serve(&mut self, policy: &Spec) {
        let number = self.sets.iter().position(|set| set.policy.spec().name == policy.name);
        let (Some(number), Ok(policy)) = (number, Policy::read(policy)) else {
            return;
        };
        if number != self.served {
            self.served = number;
            self.reset();
        }
        if self.sets[number].policy == policy {
            return;
        }
        let mut heir = Miniatures::new(policy, self.keys.most());
        let (limit, now) = (self.capacity * self.rate(), self.last.map_or(Seconds(0), |last| last.now));
        heir.resize(limit, now.0);
        let before = std::mem::replace(&mut self.sets[number], heir);
        for (id, known) in self.keys.all() {
            if before.holds(id) {
                self.sets[number].store(id, known, Stored::AfterMiss, now.0);
            }
        }
        self.reset();
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.sets.iter().map(Miniatures::bytes).sum::<usize>() + SETS_BYTES
    }

    /// What follows from all this.
    pub(crate) fn advice(&self) -> Advice {
        let tally = self.now.with(&self.before);
        let of_policy = |(number, set): (usize, &Miniatures)| OfPolicy {
            policy: set.policy.spec(),
            is_served: number == self.served,
            hit_ratios: tally.misses[number].map(|misses| tally.hit_ratio(misses)),
        };
        let spans = self.shown_spans();
        Advice {
            rate: self.rate(),
            keys: self.keys.len() as u64,
            objects: self.sets[self.served].caches[1].len() as u64,
            bytes: self.bytes() as u64,
            seconds: tally.seconds,
            reads: tally.reads,
            sampled_reads: tally.seen,
            measured: (tally.reads > 0).then(|| tally.hits as f64 / tally.reads as f64),
            uncertainty: std::array::from_fn(|scale| tally.uncertainty(scale)),
            policies: self.sets.iter().enumerate().map(of_policy).collect(),
            working_set: self.working_set(None),
            long_sets: long_sets(&spans, None),
            families: self.families_of(&spans),
        }
    }

    /// The day and the week that are shown.
    fn shown_spans(&self) -> [Shown; SPANS.len()] {
        let began = self.window_began.map_or(Seconds(0), |began| began.now);
        let now = self.last.map_or(began, |last| last.now);
        self.spans.each_ref().map(|span| span.shown(&self.sketch, began, now))
    }

    fn families_of(&self, spans: &[Shown; SPANS.len()]) -> Vec<Family> {
        let all: f64 = self.families.all().map(|(_, _, uses)| uses.reads).sum();
        let families = self.families.all().map(|(number, prefix, uses)| {
            let hit_ratios = uses.misses.map(|misses| (uses.reads > 0.0).then(|| 1.0 - misses / uses.reads));
            Family {
                prefix: prefix.into(),
                share: if uses.reads > 0.0 { uses.reads / all } else { 0.0 },
                hit_ratios,
                working_set: self.working_set(Some(number)),
                long_sets: long_sets(spans, Some(number)),
                pool: self.pool_advice(spans, number, &uses),
            }
        });
        families
            .filter(|family| family.share > 0.0 || family.long_sets.iter().any(|set| set.keys > 0))
            .collect()
    }

    fn pool_advice(&self, spans: &[Shown; SPANS.len()], family: u16, uses: &Uses) -> PoolAdvice {
        let [day, week] = spans.each_ref().map(|span| span.extent(Some(family)));
        // Of the present size, and of the largest.
        let [_, now, .., most] = uses.misses;
        let gain = (uses.reads > 0.0).then(|| (now - most) / uses.reads);
        PoolAdvice::of(&day, &week, gain, self.capacity)
    }

    /// The working set of the last whole window, or of what there is of the first.
    fn working_set(&self, family: Option<u16>) -> WorkingSet {
        let extent = self.sketch_before.as_ref().unwrap_or(&self.sketch).extent(family);
        WorkingSet { keys: extent.keys as u64, bytes: extent.bytes as u64, churn: extent.churn }
    }
}

/// What is known of all keys, or of a family, in a day and in a week.
fn long_sets(spans: &[Shown; SPANS.len()], family: Option<u16>) -> [LongSet; SPANS.len()] {
    std::array::from_fn(|number| {
        let (span, extent) = (&spans[number], spans[number].extent(family));
        LongSet {
            name: SPANS[number].0,
            seconds: span.seconds,
            keys: extent.keys as u64,
            bytes: [extent.least_bytes, extent.mean_bytes, extent.bytes].map(|bytes| bytes as u64),
            churn: extent.churn,
        }
    })
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
