//! Counts of lock contention.

use crate::atomic::{AtomicU64, Ordering, Padded};
use crate::lock::{Mutex, MutexGuard};

/// Counts the waits for a family of locks. An uncontended lock counts nothing.
#[derive(Debug, Default)]
pub struct Waits(Padded<AtomicU64>);

impl Waits {
    /// Locks `mutex`, and counts a wait if another thread holds it.
    #[inline]
    pub fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
        mutex.try_lock().unwrap_or_else(|| {
            self.note();
            mutex.lock()
        })
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
    use crate::lock::Mutex;

    #[test]
    fn only_contended_locks_are_counted() {
        let (waits, mutex) = (Waits::default(), Mutex::new(0));
        *waits.lock(&mutex) += 1;
        assert_eq!(waits.count(), 0);
        let held = waits.lock(&mutex);
        crate::thread::scope(|scope| {
            scope.spawn(|| *waits.lock(&mutex) += 1);
            while waits.count() == 0 {
                crate::thread::yield_now();
            }
            drop(held);
        });
        assert_eq!((*waits.lock(&mutex), waits.count()), (2, 1));
        waits.reset();
        assert_eq!(waits.count(), 0);
    }
}
