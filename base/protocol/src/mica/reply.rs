//! Replies to the requests of a datagram.

use super::{DATAGRAM_HEADER, Header, Kind, REPLY_HEADER, REQUEST_HEADER, u16_at, u32_at};

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The request succeeded.
    Done = 0,
    /// No item has this key.
    NotFound = 1,
    /// The condition of the store does not hold.
    NotStored = 2,
    /// The value exists, but is too long for any datagram: read it over TCP.
    UseTcp = 3,
    /// The value exists, but does not fit beside the other replies: request it alone.
    RequestAlone = 4,
    /// The item exceeds the maximum item size.
    TooLarge = 5,
    /// No memory is left.
    OutOfMemory = 6,
    /// The stored value is not a number.
    NotANumber = 7,
    /// The request is malformed.
    Invalid = 8,
}

impl Status {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Status::Done,
            1 => Status::NotFound,
            2 => Status::NotStored,
            3 => Status::UseTcp,
            4 => Status::RequestAlone,
            5 => Status::TooLarge,
            6 => Status::OutOfMemory,
            7 => Status::NotANumber,
            8 => Status::Invalid,
            _ => return None,
        })
    }

    /// A text for error messages.
    pub fn text(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::NotFound => "not found",
            Status::NotStored => "not stored",
            Status::UseTcp => "object too large for a datagram: use TCP",
            Status::RequestAlone => "no room beside the other replies: ask alone",
            Status::TooLarge => "object too large for cache",
            Status::OutOfMemory => "out of memory storing object",
            Status::NotANumber => "cannot increment or decrement non-numeric value",
            Status::Invalid => "the request makes no sense",
        }
    }
}

/// Length of the number that answers an increment, in bytes. As much is reserved for each record to come, so that an
/// increment can always return it.
const NUMBER_BYTES: usize = 8;
const _: () = assert!(REQUEST_HEADER >= REPLY_HEADER + NUMBER_BYTES, "as many replies fit as requests");

/// Encodes a datagram of replies in place.
#[derive(Debug)]
pub struct ReplyWriter<'b> {
    out: &'b mut [u8],
    at: usize,
}

impl<'b> ReplyWriter<'b> {
    /// Continues at `at`, where an earlier writer has ended, or at [`DATAGRAM_HEADER`].
    #[inline(always)]
    pub fn resume(out: &'b mut [u8], at: usize) -> Self {
        ReplyWriter { out, at }
    }

    /// Where the next record begins.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The longest datagram, in bytes.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.out.len()
    }

    /// The space for the value of the next record if `after` records follow it: they keep enough for a number each.
    #[inline(always)]
    pub fn space(&mut self, after: usize) -> &mut [u8] {
        let end = self.out.len().saturating_sub(after * (REPLY_HEADER + NUMBER_BYTES));
        self.out.get_mut(self.at + REPLY_HEADER..end).unwrap_or_default()
    }

    /// Writes a record. Its value, if it has one, was written into [`ReplyWriter::space`] before.
    ///
    /// # Panics
    /// If no space is left. There is enough for the replies to as many requests as fit into a datagram of the same
    /// length.
    #[inline(always)]
    pub fn put(&mut self, status: Status, flags: u32, value_len: usize) {
        let head = &mut self.out[self.at..self.at + REPLY_HEADER];
        head[0] = status as u8;
        head[1] = 0;
        head[2..4].copy_from_slice(&(value_len as u16).to_le_bytes());
        head[4..8].copy_from_slice(&flags.to_le_bytes());
        self.at += REPLY_HEADER + value_len;
    }
}

/// A parsed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replied<'d> {
    /// The result of the request.
    pub status: Status,
    /// The item's flags, for a get.
    pub flags: u32,
    /// The value for a get, or the number for an increment.
    pub value: &'d [u8],
}

impl Replied<'_> {
    /// The new number, for an increment or decrement.
    pub fn number(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_le_bytes)
    }
}

/// The records of a datagram of replies, in the order of the requests. Ends early if the datagram is truncated.
#[derive(Clone, Copy, Debug)]
pub struct ReplyRecords<'d> {
    datagram: &'d [u8],
    at: usize,
    left: u16,
}

impl<'d> ReplyRecords<'d> {
    /// The records of the datagram with this header.
    pub fn of(datagram: &'d [u8], header: &Header) -> Self {
        let left = if header.kind == Kind::Replies { header.count } else { 0 };
        ReplyRecords { datagram, at: DATAGRAM_HEADER, left }
    }
}

impl<'d> Iterator for ReplyRecords<'d> {
    type Item = Replied<'d>;

    #[inline(always)]
    fn next(&mut self) -> Option<Replied<'d>> {
        self.left = self.left.checked_sub(1)?;
        let rest = self.datagram.get(self.at..)?;
        let head = rest.first_chunk::<REPLY_HEADER>()?;
        let value = rest[REPLY_HEADER..].get(..usize::from(u16_at(head, 2)))?;
        self.at += REPLY_HEADER + value.len();
        Some(Replied { status: Status::of(head[0])?, flags: u32_at(head, 4), value })
    }
}
