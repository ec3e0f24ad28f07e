//! Replies of servers, with the limit on values that routers and clients have.

use crate::VALUE_MAX;
use guira_protocol::client;

pub use guira_protocol::client::{Read, Reply, Value, value_of};

/// Reads the first reply. Values longer than [`VALUE_MAX`] are [`Read::TooLong`].
#[inline]
pub fn read(input: &[u8]) -> Read<'_> {
    client::read(input, VALUE_MAX)
}
