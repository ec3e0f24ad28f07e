//! How often threads waited for each other.

use crate::atomic::{AtomicU64, Ordering, Padded};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Counts the waits for a family of locks. Whoever need not wait counts nothing.
#[derive(Debug, Default)]
pub struct Waits(Padded<AtomicU64>);

impl Waits {
    /// Locks `mutex`, whether a thread has panicked that held it or not.
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

    /// Somebody waits.
    pub fn note(&self) {
        // Relaxed: a number for people.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often somebody waited.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::Waits;
    use std::sync::Mutex;

    #[test]
    fn only_those_are_counted_who_wait() {
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
