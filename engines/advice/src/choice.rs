//! Which policy would miss least, from a sample of keys in miniatures of the present size.
//!
//! It samples more keys than the model of other sizes does: policies are told apart by few reads.

use crate::chooser::Chooser;
use crate::keys::Id;
use crate::observed::{Observed, Pulse, What};
use crate::sampled::{Extent, KEYS_RANGE, Sampled};
use guira_contract::Spec;
use guira_slab::Policy;
use guira_sync::clock::Seconds;

/// Policies that are worth a change. Each is the best by far of some traces, and no other of the engine's is better than these by more than a
/// hundredth in any of them; so few also leave room for more keys (docs/decisions/0053-auto.md).
pub const CANDIDATES: [&str; 8] = [
    "clock",
    "lru",
    "sieve",
    "s3-fifo",
    "s3-fifo:small_pct=2",
    "s3-fifo:small_pct=25",
    "2q",
    "klru:samples=20,priority=hyperbolic",
];
/// What a sampled key takes of memory if all the miniatures hold it, with one of a policy that is no candidate, ghosts, and expiry.
const KEY_BYTES: usize = 420;
/// The memory for the fewest keys, in bytes.
pub(crate) const LEAST_BUDGET: usize = *KEYS_RANGE.start() * KEY_BYTES;
/// Sampled requests in a second of processor time: each costs about a microsecond.
const PER_CPU_SECOND: f64 = 5_000.0;
/// So many seconds after more keys were sampled it may be more again: what the miniatures hold of these has to be what they would hold.
const RAISE_AFTER: u32 = 15;
/// What policies miss is told of so many reads for each key that fits into the cache.
const READS_OF_LATE: u64 = 16;
const OBJECTS_LEAST: u64 = 64;
/// The present size alone.
const SCALE: [f64; 1] = [1.0];

#[derive(Debug)]
pub(crate) struct Choice {
    sample: Sampled,
    chooser: Chooser,
    /// Whether the policies' miniatures had the key that was read.
    had: Vec<bool>,
    /// Sampled reads of late, and how many of them each policy's miniature has missed.
    reads: u64,
    misses: Vec<u64>,
    raised: Option<Pulse>,
}

/// What the policies miss at the present size, of late.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// The share of keys that is sampled.
    pub rate: f64,
    /// Sampled keys that fit into the cache. With less than some hundred, trust little.
    pub objects: u64,
    /// Sampled reads.
    pub reads: u64,
    /// Each policy with its options, and its misses of these reads.
    pub misses: Vec<(Spec, u64)>,
    /// Bytes of memory that this takes.
    pub bytes: u64,
}

/// A policy that misses less than the one that evicts.
#[derive(Clone, Debug, PartialEq)]
pub struct Better {
    /// It, with its options.
    pub policy: Spec,
    /// Sampled reads of late.
    pub reads: u64,
    /// How many of them it would have missed.
    pub misses: u64,
    /// How many the one that evicts has missed.
    pub present_misses: u64,
}

impl Choice {
    /// A model that takes about `budget` bytes.
    pub(crate) fn new(budget: usize) -> Self {
        let keys = (budget / KEY_BYTES).clamp(*KEYS_RANGE.start(), *KEYS_RANGE.end());
        let extent = Extent { first_rate: 1.0, keys, per_cpu_second: PER_CPU_SECOND };
        let candidates =
            CANDIDATES.into_iter().filter_map(|text| Policy::read(&Spec::parse(text).ok()?).ok());
        let sample = Sampled::new(candidates, &SCALE, extent);
        // And one more, if none of these is served.
        let policies = CANDIDATES.len() + 1;
        Choice {
            sample,
            chooser: Chooser::new(policies),
            had: vec![false; policies],
            reads: 0,
            misses: vec![0; policies],
            raised: None,
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.sample.threshold()
    }

    /// A request was made.
    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        let Observed { hash, what, .. } = observed;
        self.sample.look(hash, now);
        if hash >= self.threshold() {
            return;
        }
        match what {
            // If no miniature knows it, each would, if it had been there from the beginning.
            What::Hit { weight, expires } => {
                self.read(hash);
                self.sample.hit(hash, weight, expires);
            }
            What::Miss => match self.read(hash) {
                Some(id) => self.sample.missed(id),
                None => self.misses.iter_mut().for_each(|misses| *misses += 1),
            },
            What::Stored { weight, expires } | What::Updated { weight, expires } => {
                self.sample.stored(hash, weight, expires)
            }
            What::Deleted => self.sample.forget(hash),
        }
    }

    /// A key was read: `None` if no miniature knows it.
    fn read(&mut self, hash: u64) -> Option<Id> {
        self.fade();
        let Choice { sample, had, misses, .. } = self;
        let id = sample.read(hash, |number, _, hit| {
            had[number] = hit;
            misses[number] += u64::from(!hit);
        })?;
        self.chooser.read(self.sample.served(), self.objects(), &self.had);
        Some(id)
    }

    /// Counts a read, and half of those before if they are many: what was read long ago says little.
    fn fade(&mut self) {
        if self.reads >= READS_OF_LATE * (self.objects() as u64).max(OBJECTS_LEAST) {
            self.reads /= 2;
            self.misses.iter_mut().for_each(|misses| *misses /= 2);
        }
        self.reads += 1;
    }

    /// Sampled keys that fit into the cache.
    fn objects(&self) -> usize {
        self.sample.sets()[self.sample.served()].caches.iter().map(|cache| cache.len()).sum()
    }

    /// Some time has passed, and `policy` is served.
    pub(crate) fn pulse(&mut self, pulse: Pulse, policy: &Spec) {
        if let Ok(policy) = Policy::read(policy)
            && self.sample.sets()[self.sample.served()].policy != policy
        {
            let number = self.sample.find(policy).unwrap_or_else(|| {
                self.sample.put(CANDIDATES.len(), policy);
                CANDIDATES.len()
            });
            self.sample.serve(number);
            self.chooser.changed();
            self.reset();
        }
        self.sample.pulse(pulse);
        let raised = *self.raised.get_or_insert(pulse);
        if pulse.now.0.saturating_sub(raised.now.0) >= RAISE_AFTER {
            self.raised = Some(pulse);
            self.sample.raise_if_cheap(pulse.busy.saturating_sub(raised.busy));
        }
    }

    pub(crate) fn policies(&self) -> Policies {
        let specs = self.sample.sets().iter().map(|set| set.policy.spec());
        Policies {
            rate: self.sample.rate(),
            objects: self.objects() as u64,
            reads: self.reads,
            misses: specs.zip(self.misses.iter().copied()).collect(),
            bytes: self.sample.bytes() as u64,
        }
    }

    pub(crate) fn better(&self) -> Option<Better> {
        let number = self.chooser.choice()?;
        Some(Better {
            policy: self.sample.sets()[number].policy.spec(),
            reads: self.reads,
            misses: self.misses[number],
            present_misses: self.misses[self.sample.served()],
        })
    }

    /// Counts from zero; what is held, and what speaks for another policy, stays.
    pub(crate) fn reset(&mut self) {
        self.reads = 0;
        self.misses.fill(0);
    }

    /// Everything was flushed.
    pub(crate) fn flush(&mut self) {
        self.sample.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_policies_and_no_two_are_the_same() {
        let choice = Choice::new(0);
        let sets = choice.sample.sets();
        assert_eq!(sets.len(), CANDIDATES.len());
        for (number, set) in sets.iter().enumerate() {
            assert_eq!(choice.sample.find(set.policy), Some(number));
        }
    }
}
