//! Options of a client.

use std::time::Duration;

/// Options of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The most requests in a datagram.
    pub per_datagram: u16,
    /// The most datagrams in flight; rounded up to a power of two.
    pub window: usize,
    /// The timeout of a request's first attempt; it doubles with each retry.
    pub timeout: Duration,
    /// The number of retries, at most [`RETRIES_MAX`]. Each retry sends only idempotent requests
    /// again.
    pub retries: u32,
}

/// The most retries of a request.
pub const RETRIES_MAX: u32 = 16;

impl ClientOptions {
    /// The timeout after as many retries.
    pub(super) fn timeout_after(&self, waits: u32) -> Duration {
        self.timeout.saturating_mul(1 << waits.min(RETRIES_MAX))
    }

    /// The time after which a request is lost: the timeouts of all attempts together.
    pub fn total_timeout(&self) -> Duration {
        self.timeout.saturating_mul((2 << self.retries.min(RETRIES_MAX)) - 1)
    }
}

/// A request is lost after 1.26 s.
impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions { per_datagram: 64, window: 64, timeout: Duration::from_millis(20), retries: 5 }
    }
}
