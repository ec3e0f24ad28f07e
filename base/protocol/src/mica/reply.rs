//! Replies to the requests of a datagram.

use super::{DATAGRAM_HEADER, Header, Kind, REPLY_HEADER, REQUEST_HEADER, u16_at, u32_at};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It was done.
    Done = 0,
    /// There is nothing under the key.
    NotFound = 1,
    /// The condition of the store was not met.
    NotStored = 2,
    /// The value is there, and does not fit into any datagram: ask for it over TCP.
    UseTcp = 3,
    /// The value is there, and does not fit beside the other replies: ask for it alone.
    AskAlone = 4,
    /// The item would be too large for the cache.
    TooLarge = 5,
    /// There is no memory for it.
    OutOfMemory = 6,
    /// The value is no number.
    NotANumber = 7,
    /// The request makes no sense.
    Invalid = 8,
}

impl Status {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Status::Done,
            1 => Status::NotFound,
            2 => Status::NotStored,
            3 => Status::UseTcp,
            4 => Status::AskAlone,
            5 => Status::TooLarge,
            6 => Status::OutOfMemory,
            7 => Status::NotANumber,
            8 => Status::Invalid,
            _ => return None,
        })
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::NotFound => "not found",
            Status::NotStored => "not stored",
            Status::UseTcp => "object too large for a datagram: use TCP",
            Status::AskAlone => "no room beside the other replies: ask alone",
            Status::TooLarge => "object too large for cache",
            Status::OutOfMemory => "out of memory storing object",
            Status::NotANumber => "cannot increment or decrement non-numeric value",
            Status::Invalid => "the request makes no sense",
        }
    }
}

/// Bytes of the number that an increment is answered with: so much is kept free for each record to come, so that what changes a number always
/// tells it.
const NUMBER_BYTES: usize = 8;
const _: () = assert!(REQUEST_HEADER >= REPLY_HEADER + NUMBER_BYTES, "as many replies fit as requests");

/// Writes the replies of a datagram.
#[derive(Debug)]
pub struct ReplyWriter<'b> {
    out: &'b mut [u8],
    at: usize,
}

impl<'b> ReplyWriter<'b> {
    /// Goes on at `at`, which is where an earlier one has ended, or [`DATAGRAM_HEADER`].
    #[inline(always)]
    pub fn resume(out: &'b mut [u8], at: usize) -> Self {
        ReplyWriter { out, at }
    }

    /// Where the next record begins.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The longest datagram that there can be, in bytes.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.out.len()
    }

    /// Room for the value of the next record, if `after` records are to follow it: as much as leaves room for them and for numbers.
    #[inline(always)]
    pub fn room(&mut self, after: usize) -> &mut [u8] {
        let end = self.out.len().saturating_sub(after * (REPLY_HEADER + NUMBER_BYTES));
        self.out.get_mut(self.at + REPLY_HEADER..end).unwrap_or_default()
    }

    /// Writes a record whose value was written into the room before, if it has one.
    ///
    /// # Panics
    /// If there is no room: there is for as many records as a datagram of the same length can hold requests.
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

/// What became of a request, with the value if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replied<'d> {
    /// What became of it.
    pub status: Status,
    /// The item's flags, of a get.
    pub flags: u32,
    /// The value of a get, or the number of an increment.
    pub value: &'d [u8],
}

impl Replied<'_> {
    /// The number that there is after an increment or a decrement.
    pub fn number(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_le_bytes)
    }
}

/// The records of a datagram of replies, in the order of the requests. Ends early if it is cut short.
#[derive(Clone, Copy, Debug)]
pub struct ReplyRecords<'d> {
    datagram: &'d [u8],
    at: usize,
    left: u16,
}

impl<'d> ReplyRecords<'d> {
    /// The records behind `header`, if it has any.
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
