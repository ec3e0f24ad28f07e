//! Requests of a datagram.

use super::{DATAGRAM_HEADER, Header, Kind, REQUEST_HEADER, u16_at, u32_at, u64_at};
use crate::KEY_MAX;
use crate::number::Exptime;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Only returns a reply.
    Noop = 0,
    /// Read a value.
    Get = 1,
    /// Store a value.
    Set = 2,
    /// Store a value if the key is missing.
    Add = 3,
    /// Store a value if the key exists.
    Replace = 4,
    /// Remove.
    Delete = 5,
    /// memcached's incr; the amount (8 bytes) takes the place of the value.
    Increment = 6,
    /// memcached's decr, likewise.
    Decrement = 7,
    /// Change the expiration time.
    Touch = 8,
}

impl Operation {
    #[inline(always)]
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Operation::Noop,
            1 => Operation::Get,
            2 => Operation::Set,
            3 => Operation::Add,
            4 => Operation::Replace,
            5 => Operation::Delete,
            6 => Operation::Increment,
            7 => Operation::Decrement,
            8 => Operation::Touch,
            _ => return None,
        })
    }

    /// Whether the request may be sent again when no reply came. A store may not: it could overwrite a later store of
    /// another client.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Operation::Noop | Operation::Get | Operation::Delete)
    }

    /// Whether the operation leaves the item as it is.
    #[inline(always)]
    pub fn is_read(self) -> bool {
        matches!(self, Operation::Noop | Operation::Get)
    }

    /// Whether a value follows the key.
    fn has_value(self) -> bool {
        matches!(self, Operation::Set | Operation::Add | Operation::Replace)
    }

    fn is_arithmetic(self) -> bool {
        matches!(self, Operation::Increment | Operation::Decrement)
    }
}

/// Length of the amount of an [`Operation::Increment`], in bytes.
const DELTA_BYTES: usize = 8;

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'d> {
    /// The operation; `None` if it is unknown.
    pub operation: Option<Operation>,
    /// The key: 1 to 250 bytes, or empty for [`Operation::Noop`].
    pub key: &'d [u8],
    /// The value.
    pub value: &'d [u8],
    /// The client's flags.
    pub flags: u32,
    /// The expiration time, as in memcached.
    pub exptime: Exptime,
    /// The hash of the key, as the client computed it.
    pub hash: u64,
}

impl<'d> Record<'d> {
    /// Reads the request at `at`, and returns where the next begins. `None` if it is truncated.
    #[inline(always)]
    pub fn read(datagram: &'d [u8], at: usize) -> Option<(Self, usize)> {
        let rest = datagram.get(at..)?;
        let head = rest.first_chunk::<REQUEST_HEADER>()?;
        let (key_len, value_len) = (usize::from(head[1]), usize::from(u16_at(head, 2)));
        let body = rest[REQUEST_HEADER..].get(..key_len + value_len)?;
        let (key, value) = body.split_at(key_len);
        let record = Record {
            operation: Operation::of(head[0]),
            key,
            value,
            flags: u32_at(head, 4),
            exptime: Exptime(u32_at(head, 8) as i32),
            hash: u64_at(head, 12),
        };
        Some((record, at + REQUEST_HEADER + key_len + value_len))
    }

    /// Whether the request can be executed: it has all fields that its operation needs, and no others.
    #[inline(always)]
    pub fn is_sound(&self) -> bool {
        let Some(operation) = self.operation else {
            return false;
        };
        if operation == Operation::Noop {
            return self.key.is_empty() && self.value.is_empty();
        }
        let value = match operation {
            operation if operation.has_value() => true,
            operation if operation.is_arithmetic() => self.value.len() == DELTA_BYTES,
            _ => self.value.is_empty(),
        };
        (1..=KEY_MAX).contains(&self.key.len()) && value
    }

    /// The amount of an increment or decrement.
    pub fn delta(&self) -> u64 {
        self.value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The requests of a datagram, if it holds exactly as many as its header says.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'d> {
    datagram: &'d [u8],
    at: usize,
    left: u16,
}

impl<'d> Requests<'d> {
    /// The requests of the datagram with this header.
    pub fn of(datagram: &'d [u8], header: &Header) -> Self {
        Requests { datagram, at: DATAGRAM_HEADER, left: header.count }
    }
}

impl<'d> Iterator for Requests<'d> {
    type Item = Record<'d>;

    fn next(&mut self) -> Option<Record<'d>> {
        self.left = self.left.checked_sub(1)?;
        let (record, next) = Record::read(self.datagram, self.at)?;
        self.at = next;
        Some(record)
    }
}

/// Encodes a datagram of requests in place.
#[derive(Debug)]
pub struct RequestWriter<'b> {
    out: &'b mut [u8],
    at: usize,
    count: u16,
}

impl<'b> RequestWriter<'b> {
    /// Begins a datagram in `out`.
    ///
    /// # Panics
    /// If that is shorter than [`DATAGRAM_HEADER`].
    pub fn new(out: &'b mut [u8]) -> Self {
        assert!(out.len() >= DATAGRAM_HEADER, "room for a header");
        RequestWriter { out, at: DATAGRAM_HEADER, count: 0 }
    }

    /// Continues at `at`, after `count` requests.
    #[inline(always)]
    pub fn resume(out: &'b mut [u8], at: usize, count: u16) -> Self {
        RequestWriter { out, at, count }
    }

    /// Where the next request begins.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Appends a request, if it fits.
    #[inline(always)]
    pub fn push(&mut self, record: &Record<'_>) -> bool {
        let (key_len, value_len) = (record.key.len(), record.value.len());
        let Some(space) = self.out.get_mut(self.at..) else {
            return false;
        };
        let length = REQUEST_HEADER + key_len + value_len;
        if space.len() < length || key_len > KEY_MAX || self.count == u16::MAX {
            return false;
        }
        let (head, body) = space.split_at_mut(REQUEST_HEADER);
        head[0] = record.operation.map_or(u8::MAX, |operation| operation as u8);
        head[1] = key_len as u8;
        head[2..4].copy_from_slice(&(value_len as u16).to_le_bytes());
        head[4..8].copy_from_slice(&record.flags.to_le_bytes());
        head[8..12].copy_from_slice(&record.exptime.0.to_le_bytes());
        head[12..20].copy_from_slice(&record.hash.to_le_bytes());
        body[..key_len].copy_from_slice(record.key);
        body[key_len..key_len + value_len].copy_from_slice(record.value);
        self.at += length;
        self.count += 1;
        true
    }

    /// The number of requests written.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Writes the header, and returns the length of the datagram, in bytes.
    pub fn finish(self, generation: u32, sequence: u32, opaque: u64) -> usize {
        let header = Header { kind: Kind::Requests, count: self.count, generation, sequence, opaque };
        header.write(self.out);
        self.at
    }
}
