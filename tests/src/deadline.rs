//! Waiting with an end, and the time of day.

use guira_sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use guira_harness::deadline::Deadline;

/// How long a test waits for something that should happen at once. Far longer than a machine with other work takes, and less than the 30 s
/// after which a server gives up a client that takes no list: what ends only by that is found.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Sets a flag when it is dropped, also by a panic: threads of a scope that run until it is set end, and the test fails instead of
/// hanging.
#[derive(Debug)]
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        // Relaxed: it ends loops.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Seconds since 1970 as the server sees them, for absolute expiration times.
pub fn unix_seconds() -> u64 {
    guira_sync::clock::wall_clock()
}
