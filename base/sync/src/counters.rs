//! Counters with one writer each: a session counts without a lock or a locked instruction, and any thread can read
//! the sum at any time.

use crate::atomic::{AtomicU64, Ordering, Padded};

/// `N` counters, written by one thread and read by any.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    values: Padded<[AtomicU64; N]>,
}

// The counters of two threads never share a cache line.
const _: () = assert!(size_of::<Counters<1>>() == size_of::<Padded<u8>>());

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Counters { values: Padded(std::array::from_fn(|_| AtomicU64::new(0))) }
    }
}

impl<const N: usize> Counters<N> {
    /// Adds to counter `index`. Only the owner calls this: an addition by another thread can be lost.
    #[inline(always)]
    pub fn add(&self, index: usize, amount: u64) {
        let value = &self.values[index];
        // Relaxed, and no read-modify-write: there is one writer, and a sum over counters is no snapshot.
        value.store(value.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Gives number `index` this value: a gauge. Only the owner calls this.
    #[inline(always)]
    pub fn set(&self, index: usize, value: u64) {
        self.values[index].store(value, Ordering::Relaxed);
    }

    /// The value of counter `index`.
    pub fn get(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn counters_count() {
        let counters = Counters::<3>::default();
        counters.add(1, 2);
        counters.add(1, 3);
        counters.set(2, 7);
        counters.set(2, 1);
        assert_eq!([counters.get(0), counters.get(1), counters.get(2)], [0, 5, 1]);
    }
}
