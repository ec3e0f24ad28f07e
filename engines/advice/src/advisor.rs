//! The models as threads use them.

use crate::advice::Advice;
use crate::choice::{self, Better, Choice, Policies};
use crate::model::{self, Model};
use crate::observed::{Observed, Pulse};
use guira_contract::Spec;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

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
    /// `None` if there is not enough memory for other sizes.
    sizes: Option<Model>,
}

impl Models {
    fn threshold(&self) -> u64 {
        self.sizes.as_ref().map_or(0, Model::threshold).max(self.choice.threshold())
    }
}

impl Advisor {
    /// With less memory than this, in bytes, there is nothing to be learnt.
    pub const LEAST_BUDGET: usize = choice::LEAST_BUDGET;

    /// An advisor that takes at most `budget` bytes of memory, or [`Self::LEAST_BUDGET`] if that is less. Families of keys are what comes
    /// before `delimiter`.
    pub fn new(budget: usize, delimiter: u8) -> Self {
        let for_sizes = (budget / 2).max(model::LEAST_BUDGET);
        let is_enough = budget >= for_sizes + choice::LEAST_BUDGET;
        let sizes = is_enough.then(|| Model::new(for_sizes, delimiter));
        let choice = Choice::new(if is_enough { budget - for_sizes } else { budget });
        let models = Models { choice, sizes };
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
        models.choice.see(observed, now);
        models.sizes.iter_mut().for_each(|sizes| sizes.see(observed, now));
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
        models.sizes.iter_mut().for_each(Model::flush);
    }

    /// Counts from zero.
    pub fn reset(&self) {
        self.models().sizes.iter_mut().for_each(Model::reset);
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

    /// Requests that were not looked at since another thread was just at it.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
