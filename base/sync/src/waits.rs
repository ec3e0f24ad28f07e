//! Counts of lock contention.

use crate::atomic::{AtomicU64, Ordering, Padded};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Counts the waits for a family of locks. An uncontended lock counts nothing.
#[derive(Debug, Default)]
pub struct Waits(Padded<AtomicU64>);

impl Waits {
    /// Locks `mutex`, even if a thread has panicked while it held it.
    #[inline]
    pub fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.note();
                mutex.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Counts a wait.
    pub fn note(&self) {
        // Relaxed: a statistic.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count to zero.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::Waits;
    use std::sync::Mutex;

    #[test]
    fn only_contended_locks_are_counted() {
        let (waits, mutex) = (Waits::default(), Mutex::new(0));
        *waits.lock(&mutex) += 1;
        assert_eq!(waits.count(), 0);
        let held = waits.lock(&mutex);
        std::thread::scope(|scope| {
            scope.spawn(|| *waits.lock(&mutex) += 1);
            while waits.count() == 0 {
                std::thread::yield_now();
            }
            drop(held);
        });
        assert_eq!((*waits.lock(&mutex), waits.count()), (2, 1));
        waits.reset();
        assert_eq!(waits.count(), 0);
    }
}
