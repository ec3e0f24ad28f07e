//! The model as threads use it.

use crate::advice::Advice;
use crate::model::{LEAST_BUDGET, Model};
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
    model: Mutex<Model>,
}

impl Advisor {
    /// With less memory than this, in bytes, there is nothing to be learnt.
    pub const LEAST_BUDGET: usize = LEAST_BUDGET;

    /// An advisor that takes at most `budget` bytes of memory, or [`Self::LEAST_BUDGET`] if that is less. Families of keys are what comes
    /// before `delimiter`.
    pub fn new(budget: usize, delimiter: u8) -> Self {
        let model = Model::new(budget, delimiter);
        Advisor {
            threshold: AtomicU64::new(model.threshold()),
            dropped: AtomicU64::new(0),
            model: Mutex::new(model),
        }
    }

    /// Requests for keys whose hash is below are to be reported.
    #[inline]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// A request was made. It is not looked at if another thread holds the model: no thread waits.
    pub fn see(&self, observed: Observed<'_>, now: Seconds) {
        let mut model = match self.model.try_lock() {
            Ok(model) => model,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if model.see(observed, now) {
            self.threshold.store(model.threshold(), Ordering::Relaxed);
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some time has passed, and `policy` evicts.
    pub fn pulse(&self, pulse: Pulse, policy: &Spec) {
        let mut model = self.model();
        model.serve(policy);
        model.pulse(pulse);
        self.threshold.store(model.threshold(), Ordering::Relaxed);
    }

    /// Everything that was stored is gone.
    pub fn flush(&self) {
        self.model().flush();
    }

    /// Counts from zero.
    pub fn reset(&self) {
        self.model().reset();
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// What follows from the requests until now.
    pub fn advice(&self) -> Advice {
        self.model().advice()
    }

    /// Requests that were not looked at since another thread was just at it.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
