//! Randomness: seeds from the system. No other crate of base, engines, node and fleet takes them from std, so that a
//! simulator can exchange them. Keys of a protocol's cryptography come from ring.

/// A number that other processes, and clients of this one, cannot know. Each call returns another.
#[cfg(not(guira_simulated))]
pub fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(guira_simulated)]
pub use guira_world::random::seed;

#[cfg(all(test, not(any(guira_loom, guira_simulated))))]
mod tests {
    use super::seed;

    #[test]
    fn seeds_differ() {
        let seeds: std::collections::BTreeSet<u64> = (0..1000).map(|_| seed()).collect();
        assert_eq!(seeds.len(), 1000);
    }
}
