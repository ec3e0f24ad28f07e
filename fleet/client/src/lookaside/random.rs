//! Numbers for pauses, times and names. They are no secrets.

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::random;

/// A generator of the splitmix64 family, for all threads.
#[derive(Debug)]
pub(super) struct Random {
    state: AtomicU64,
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The generator of `seed`.
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// One that differs between processes and between clients of a process.
    pub(super) fn of_process() -> Self {
        Self::new(random::seed())
    }

    pub(super) fn bits(&self) -> u64 {
        let mut mixed = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_are_below_their_bound_and_differ_between_clients() {
        let random = Random::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_ne!(Random::of_process().bits(), Random::of_process().bits());
    }
}
