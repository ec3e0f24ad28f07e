//! What the advisor learns from: sampled requests, and the state of the server once a second.

use guira_sync::clock::Seconds;
use std::time::Duration;

/// A request for a sampled key.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'k> {
    pub key: &'k [u8],
    pub hash: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A read that found the key.
    Hit {
        /// Bytes of memory that the item occupies.
        weight: u32,
        /// The second in which it expires, `u32::MAX` for never.
        expires: u32,
    },
    /// A read that did not.
    Miss,
    Stored {
        /// Bytes of memory that the item occupies.
        weight: u32,
        /// The second in which it expires, `u32::MAX` for never.
        expires: u32,
    },
    /// A store that needed the item that there was: an increment, an append, a compare-and-swap.
    Updated {
        /// Bytes of memory that the item occupies now.
        weight: u32,
        /// The second in which it expires, `u32::MAX` for never.
        expires: u32,
    },
    Deleted,
}

/// The state of the server, about once in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    pub now: Seconds,
    pub reads: u64,
    /// Of these, those that found their key.
    pub hits: u64,
    /// Whether there is next to no memory left that holds no item.
    pub is_full: bool,
    pub busy: Duration,
    /// Memory for items, in bytes, as the weights of items count it.
    pub capacity: f64,
    /// Bytes that were stored since the start, as the engine counts time; 0 if it does not.
    pub stored: u64,
}
