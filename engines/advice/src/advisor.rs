//! The models as threads use them.

use crate::advice::Advice;
use crate::choice::{self, Better, Choice, Policies};
use crate::division::Division;
use crate::model::{self, Model};
use crate::observed::{Observed, Pulse};
use guira_contract::{SizeWeight, Spec};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How memory is divided among sizes is learnt with this part of the memory for all models.
const DIVISION_PART: usize = 8;

/// Learns from sampled requests.
#[derive(Debug)]
pub struct Advisor {
    /// Relaxed: a request more or less.
    threshold: AtomicU64,
    /// Requests that were not looked at since another thread was just at it. Relaxed: a count.
    dropped: AtomicU64,
    /// LOCK: model. Leaf; no worker waits for it.
    models: Mutex<Models>,
}

#[derive(Debug)]
struct Models {
    choice: Choice,
    /// `None` if memory is not divided among sizes of items, or there is not enough of it.
    division: Option<Division>,
    /// `None` if there is not enough memory for other sizes.
    sizes: Option<Model>,
}

impl Models {
    fn threshold(&self) -> u64 {
        let division = self.division.as_ref().map_or(0, Division::threshold);
        self.sizes.as_ref().map_or(0, Model::threshold).max(self.choice.threshold()).max(division)
    }
}

impl Advisor {
    /// With less memory than this, in bytes, there is nothing to be learnt.
    pub const LEAST_BUDGET: usize = choice::LEAST_BUDGET;

    /// An advisor that takes at most `budget` bytes of memory, or [`Self::LEAST_BUDGET`] if that is less. Families of keys are what comes
    /// before `delimiter`; `chunks` are the sizes that memory is divided among, in ascending order, if it is.
    pub fn new(budget: usize, delimiter: u8, chunks: &[usize]) -> Self {
        let for_division = (budget / DIVISION_PART).max(Division::LEAST_BUDGET);
        let divides = !chunks.is_empty() && budget >= for_division + choice::LEAST_BUDGET;
        let division = divides.then(|| Division::new(for_division, chunks));
        let budget = budget - if divides { for_division } else { 0 };
        let for_sizes = (budget / 2).max(model::LEAST_BUDGET);
        let is_enough = budget >= for_sizes + choice::LEAST_BUDGET;
        let sizes = is_enough.then(|| Model::new(for_sizes, delimiter));
        let choice = Choice::new(if is_enough { budget - for_sizes } else { budget });
        let models = Models { choice, division, sizes };
        Advisor {
            threshold: AtomicU64::new(models.threshold()),
            dropped: AtomicU64::new(0),
            models: Mutex::new(models),
        }
    }

    /// Requests for keys whose hash is below are to be reported.
    #[inline]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// A request was made. It is not looked at if another thread holds the models: no thread waits.
    pub fn see(&self, observed: Observed<'_>, now: Seconds) {
        let mut models = match self.models.try_lock() {
            Ok(models) => models,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        let before = models.threshold();
        // Each has its own sample, and counts what that costs.
        if observed.hash < models.choice.threshold() {
            models.choice.see(observed, now);
        }
        if let Some(division) =
            models.division.as_mut().filter(|division| observed.hash < division.threshold())
        {
            division.see(observed, now);
        }
        if let Some(sizes) = models.sizes.as_mut().filter(|sizes| observed.hash < sizes.threshold()) {
            sizes.see(observed, now);
        }
        let threshold = models.threshold();
        if threshold != before {
            self.threshold.store(threshold, Ordering::Relaxed);
        }
    }

    fn models(&self) -> MutexGuard<'_, Models> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some time has passed, and `policy` evicts.
    pub fn pulse(&self, pulse: Pulse, policy: &Spec) {
        let mut models = self.models();
        models.choice.pulse(pulse, policy);
        models.division.iter_mut().for_each(|division| division.pulse(pulse));
        if let Some(sizes) = &mut models.sizes {
            sizes.serve(policy);
            sizes.pulse(pulse);
        }
        self.threshold.store(models.threshold(), Ordering::Relaxed);
    }

    /// Everything that was stored is gone.
    pub fn flush(&self) {
        let mut models = self.models();
        models.choice.flush();
        models.division.iter_mut().for_each(Division::flush);
        models.sizes.iter_mut().for_each(Model::flush);
    }

    /// Counts from zero.
    pub fn reset(&self) {
        let mut models = self.models();
        models.choice.reset();
        models.sizes.iter_mut().for_each(Model::reset);
        drop(models);
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// What other sizes would be worth; `None` if there was not enough memory to learn it.
    pub fn advice(&self) -> Option<Advice> {
        self.models().sizes.as_ref().map(Model::advice)
    }

    /// What the policies miss at the present size.
    pub fn policies(&self) -> Policies {
        self.models().choice.policies()
    }

    /// A policy that misses clearly less than the one that evicts, if there is one.
    pub fn better(&self) -> Option<Better> {
        self.models().choice.better()
    }

    /// How much the age of an item counts by its size; empty if nothing is known of that.
    pub fn size_weights(&self) -> Vec<SizeWeight> {
        self.models().division.as_ref().map_or_else(Vec::new, Division::weights)
    }

    /// Requests that were not looked at since another thread was just at it.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::What;
    use std::time::Duration;

    #[test]
    fn each_model_pays_for_its_own_sample_and_keeps_to_the_budget() {
        const BUDGET: usize = 4 << 20;
        let advisor = Advisor::new(BUDGET, b':', &[]);
        let policy = Spec::parse("seg-lru").unwrap();
        let mut state = 1u64;
        for second in 1..120 {
            let pulse = Pulse {
                now: Seconds(second),
                reads: u64::from(second) * 20_000,
                hits: 0,
                busy: Duration::from_secs(u64::from(second)),
                capacity: 1e7,
            };
            advisor.pulse(pulse, &policy);
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Of 4,000 keys, whose hashes are spread.
                let hash = (state >> 33) % 4_000 * (u64::MAX / 4_000);
                if hash < advisor.threshold() {
                    let what = What::Stored { weight: 100, expires: second + 600 };
                    advisor.see(Observed { key: b"k", hash, what }, Seconds(second));
                }
            }
        }
        // 20,000 requests a second of which a sixteenth is looked at are no more than is allowed for other sizes.
        let (advice, policies) = (advisor.advice().unwrap(), advisor.policies());
        assert!(advice.rate > 0.05, "{}", advice.rate);
        assert!(policies.rate > 0.1, "{}", policies.rate);
        assert_eq!(policies.misses.len(), 9, "seg-lru is served, and no candidate");
        assert!(advice.bytes + policies.bytes <= BUDGET as u64, "{} and {}", advice.bytes, policies.bytes);
    }
}
