//! What is known of the sampled requests.

use crate::advice::{Advice, Family, LongSet, OfPolicy, PRESENT, SCALES, SampleSize, WINDOW, WorkingSet};
use crate::families::{Families, OTHERS, Uses};
use crate::miniatures::Miniatures;
use crate::observed::{Observed, Pulse, What};
use crate::pool::PoolAdvice;
use crate::sampled::{Extent, KEYS_RANGE, Sampled};
use crate::sketch::{SKETCH_BYTES, Sketch};
use crate::span::{SPAN_BYTES, Shown, Span};
use crate::tally::{PARTS, Tally};
use guira_slab::Policy;
use guira_sync::clock::Seconds;

/// What a sampled key takes of memory if all the miniatures hold it.
const KEY_BYTES: usize = 150 * Policy::COUNT;
/// The longer spans of time of which working sets are known, in seconds.
const SPANS: [(&str, u32); 2] = [("day", 24 * WINDOW), ("week", 7 * 24 * WINDOW)];
/// What working sets take, in bytes.
const SETS_BYTES: usize = 2 * SKETCH_BYTES + SPANS.len() * SPAN_BYTES;
/// The memory for the fewest keys, in bytes.
pub(crate) const LEAST_BUDGET: usize = SETS_BYTES + *KEYS_RANGE.start() * KEY_BYTES;

/// Sampled requests in a second of processor time: each costs some two microseconds.
const PER_CPU_SECOND: f64 = 2_500.0;
/// The share of keys that a server begins with.
const FIRST_RATE: f64 = 1.0 / 16.0;

#[derive(Debug)]
pub(crate) struct Model {
    sample: Sampled,
    families: Families,
    now: Tally,
    before: Tally,
    sketch: Sketch,
    sketch_before: Option<Sketch>,
    spans: [Span; SPANS.len()],
    window_ends: Seconds,
    last: Option<Pulse>,
    window_began: Option<Pulse>,
}

impl Model {
    /// A model that takes about `budget` bytes.
    pub(crate) fn new(budget: usize, delimiter: u8) -> Self {
        let spare = budget.saturating_sub(SETS_BYTES);
        let most = (spare / KEY_BYTES).clamp(*KEYS_RANGE.start(), *KEYS_RANGE.end());
        let extent = Extent { first_rate: FIRST_RATE, keys: most, per_cpu_second: PER_CPU_SECOND };
        let sample = Sampled::new(Policy::all().map(|(policy, _)| policy), &SCALES, extent);
        Model {
            families: Families::new(delimiter),
            now: Tally::new(Policy::COUNT),
            before: Tally::new(Policy::COUNT),
            sketch: Sketch::new(sample.threshold(), None),
            sketch_before: None,
            spans: SPANS.map(|(_, seconds)| Span::of(seconds)),
            window_ends: Seconds(0),
            last: None,
            window_began: None,
            sample,
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.sample.threshold()
    }

    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        self.sample.look(observed.hash, now);
        if observed.hash < self.threshold() {
            match observed.what {
                What::Hit { weight, expires } => self.read(observed, Some((weight, expires))),
                What::Miss => self.read(observed, None),
                What::Stored { weight, expires } | What::Updated { weight, expires } => {
                    self.stored(observed, weight, expires)
                }
                What::Deleted => self.sample.forget(observed.hash),
            }
        }
        self.lower_sketches();
    }

    /// Has the sketches sample as few keys as the miniatures.
    fn lower_sketches(&mut self) {
        let threshold = self.threshold();
        self.sketch.lower(threshold);
        self.sketch_before.iter_mut().for_each(|sketch| sketch.lower(threshold));
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
    fn read(&mut self, observed: Observed<'_>, item: Option<(u32, u32)>) {
        let family = self.family(observed.key);
        self.now.seen += 1;
        let mut missed = [0.0; SCALES.len()];
        let one = 1.0 / self.sample.rate();
        let served = self.sample.served();
        let Model { sample, now, .. } = self;
        let id = sample.read(observed.hash, |number, scale, hit| {
            if !hit {
                now.misses[number][scale] += one;
                if number == served {
                    missed[scale] = one;
                }
            }
        });
        // If nothing was known of it, but the server has it, a miniature would, if it had been there from the beginning.
        if id.is_none() && item.is_none() {
            missed = [one; SCALES.len()];
            self.now.misses.iter_mut().flatten().for_each(|misses| *misses += one);
        }
        self.count_served(observed.hash, family, one, missed);
        let known = |id| self.sample.keys().get(id).map(|known| known.weight);
        let weight = item.map(|(weight, _)| weight).or_else(|| id.and_then(known));
        self.sketch.see(observed.hash, weight.unwrap_or(0), family, self.sketch_before.as_ref());
        match (item, id) {
            (Some((weight, expires)), _) => self.sample.hit(observed.hash, weight, expires),
            (None, Some(id)) => self.sample.missed(id),
            (None, None) => {}
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

    fn stored(&mut self, observed: Observed<'_>, weight: u32, expires: u32) {
        let family = self.family(observed.key);
        self.sketch.see(observed.hash, weight, family, self.sketch_before.as_ref());
        self.sample.stored(observed.hash, weight, expires);
    }

    pub(crate) fn flush(&mut self) {
        self.sample.flush();
    }

    /// Counts from zero; what is held stays.
    pub(crate) fn reset(&mut self) {
        (self.now, self.before) = (Tally::new(Policy::COUNT), Tally::new(Policy::COUNT));
        self.families.reset();
    }

    pub(crate) fn pulse(&mut self, pulse: Pulse) {
        if let Some(last) = self.last.replace(pulse) {
            let reads = pulse.reads.saturating_sub(last.reads);
            self.now.reads += reads;
            self.now.hits += pulse.hits.saturating_sub(last.hits);
            self.now.seconds += pulse.now.0.saturating_sub(last.now.0);
        }
        self.sample.pulse(pulse);
        self.lower_sketches();
        if pulse.now >= self.window_ends {
            self.turn(pulse);
        }
    }

    fn turn(&mut self, pulse: Pulse) {
        self.window_ends = Seconds(pulse.now.0.saturating_add(WINDOW));
        let Some(began) = self.window_began.replace(pulse) else {
            return;
        };
        self.before = std::mem::replace(&mut self.now, Tally::new(Policy::COUNT));
        self.sample.raise_if_cheap(pulse.busy.saturating_sub(began.busy));
        self.spans.iter_mut().for_each(|span| span.absorb(&self.sketch, began.now, pulse.now));
        let sketch = Sketch::new(self.threshold(), Some(&self.sketch));
        self.sketch_before = Some(std::mem::replace(&mut self.sketch, sketch));
        self.families.turn();
    }

    /// `policy` is served. What the miniatures of another of the same name hold goes over to those of this one.
    pub(crate) fn serve(&mut self, policy: Policy) {
        let number = self.sample.sets().iter().position(|set| set.policy.name() == policy.name());
        let Some(number) = number else { return };
        let is_other = self.sample.sets()[number].policy != policy;
        if is_other {
            self.sample.put(number, policy);
        }
        if is_other || number != self.sample.served() {
            self.sample.serve(number);
            self.reset();
        }
    }

    /// Sampled keys that the miniature of the served policy and the present size holds.
    fn objects(&self) -> usize {
        self.sample.sets()[self.sample.served()].caches[PRESENT].len()
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.sample.bytes() + SETS_BYTES
    }

    pub(crate) fn advice(&self) -> Advice {
        let tally = self.now.with(&self.before);
        let of_policy = |(number, set): (usize, &Miniatures)| OfPolicy {
            policy: set.policy,
            is_served: number == self.sample.served(),
            hit_ratios: tally.misses[number].map(|misses| tally.hit_ratio(misses)),
        };
        let spans = self.shown_spans();
        Advice {
            sample: SampleSize {
                rate: self.sample.rate(),
                keys: self.sample.keys().len() as u64,
                objects: self.objects() as u64,
                bytes: self.bytes() as u64,
            },
            seconds: tally.seconds,
            reads: tally.reads,
            sampled_reads: tally.seen,
            measured: (tally.reads > 0).then(|| tally.hits as f64 / tally.reads as f64),
            uncertainty: std::array::from_fn(|scale| tally.uncertainty(scale)),
            policies: self.sample.sets().iter().enumerate().map(of_policy).collect(),
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
        PoolAdvice::of(&day, &week, gain, self.sample.capacity())
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
