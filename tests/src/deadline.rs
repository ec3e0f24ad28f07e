//! Waiting with an end, and the time of day.

use std::time::Duration;

pub use guira_harness::deadline::Deadline;

/// How long a test waits for something that should happen at once. Far longer than a machine with other work takes, and less than the 30 s
/// after which a server gives up a client that takes no list: what ends only by that is found.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Seconds since 1970 as the server sees them, for absolute expiration times.
pub fn unix_seconds() -> u64 {
    guira_sync::clock::wall_clock()
}
