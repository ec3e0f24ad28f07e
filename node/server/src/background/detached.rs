//! A connection that a worker has given away.

use guira_serving::Arrival;

/// A connection without a worker, while a background task serves it.
#[derive(Debug)]
pub(crate) struct DetachedConnection {
    pub(crate) arrival: Arrival,
    /// The worker that it comes back to.
    pub(crate) home: usize,
}
