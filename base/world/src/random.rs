//! Randomness: the world's.

use crate::scheduler;

/// As `guira_sync::random::seed`.
pub fn seed() -> u64 {
    scheduler::draw(u64::MAX)
}
