//! Requests, and what identifies them.

use super::error::ClientError;
use guira_protocol::mica::{DATAGRAM_HEADER, Operation, REQUEST_HEADER, Record};
use guira_protocol::{Exptime, KEY_MAX};
use guira_transport::PAYLOAD_MAX;

/// Identifies a request to its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The maximum number of datagrams is in flight: poll for replies first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The longest key and value together that fit into a datagram, in bytes.
pub const ITEM_MAX: usize = PAYLOAD_MAX - DATAGRAM_HEADER - REQUEST_HEADER;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'r> {
    /// The operation.
    pub operation: Operation,
    /// The key.
    pub key: &'r [u8],
    /// The value to store, or the amount of an increment as 8 bytes.
    pub value: &'r [u8],
    /// The flags to store.
    pub flags: u32,
    /// The expiration time, as in memcached: 0 for never, seconds from now up to 30 days, or seconds since 1970.
    pub exptime: i32,
}

impl<'r> Request<'r> {
    /// A request without a value.
    pub fn of(operation: Operation, key: &'r [u8]) -> Self {
        Request { operation, key, value: &[], flags: 0, exptime: 0 }
    }

    #[inline(always)]
    pub(super) fn record(&self, hash: u64) -> Record<'r> {
        Record {
            operation: Some(self.operation),
            key: self.key,
            value: self.value,
            flags: self.flags,
            exptime: Exptime(self.exptime),
            hash,
        }
    }

    pub(super) fn check(&self) -> Result<(), ClientError> {
        let least = usize::from(self.operation != Operation::Noop);
        if !(least..=KEY_MAX).contains(&self.key.len()) {
            return Err(ClientError::Key(self.key.len()));
        }
        let bytes = self.key.len() + self.value.len();
        if bytes > ITEM_MAX {
            return Err(ClientError::TooLong { bytes });
        }
        Ok(())
    }
}
