//! MICA's datagrams: requests that name the hash of their key, so that whoever sends one can pick the thread it reaches (Lim et al.,
//! NSDI 2014, section 4.2.2). docs/protocol-mica.md is the text for those who write a client; all numbers are little-endian.
//!
//! ```text
//! datagram  magic(2) version(1) kind(1) count(2) reserved(2) generation(4) sequence(4) opaque(8)   24 bytes, then `count` records
//! request   operation(1) key length(1) value length(2) flags(4) exptime(4) hash(8)   20 bytes, then key and value
//! reply     status(1) reserved(1) value length(2) flags(4)                            8 bytes, then the value
//! ```

mod directory;
mod reply;
mod request;

pub use directory::{Directory, HashFunction, PartitionAccess};
pub use reply::{Replied, ReplyRecords, ReplyWriter, Status};
pub use request::{Operation, Record, RequestWriter, Requests};

/// Bytes of a datagram's header.
pub const DATAGRAM_HEADER: usize = 24;
/// Bytes of a request's record, without key and value.
pub const REQUEST_HEADER: usize = 20;
/// Bytes of a reply's record, without its value.
pub const REPLY_HEADER: usize = 8;
/// The version that is spoken.
pub const VERSION: u8 = 1;

/// The first two bytes of every datagram.
const MAGIC: [u8; 2] = *b"Gm";

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Requests.
    Requests = 1,
    /// The answers to requests, one record for each, in their order.
    Replies = 2,
    /// Nothing was done: the client goes by another directory than the server's. It has to ask for it anew.
    Moved = 3,
    /// Nothing was done: the datagram makes no sense.
    Malformed = 4,
    /// Asks for the directory.
    AskDirectory = 5,
    /// The directory.
    Directory = 6,
}

impl Kind {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Kind::Requests,
            2 => Kind::Replies,
            3 => Kind::Moved,
            4 => Kind::Malformed,
            5 => Kind::AskDirectory,
            6 => Kind::Directory,
            _ => return None,
        })
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// How many records follow.
    pub count: u16,
    /// Which directory the client goes by, or in an answer the server.
    pub generation: u32,
    /// The client's number of it; comes back.
    pub sequence: u32,
    /// Anything; comes back.
    pub opaque: u64,
}

/// Why a datagram cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is none of this protocol: not to be answered.
    Foreign,
    /// It is a request, of another version.
    Unknown(Header),
}

impl Header {
    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// If it is none, or one that is not understood.
    #[inline(always)]
    pub fn read(datagram: &[u8]) -> Result<Self, Unreadable> {
        let Some([m0, m1, version, kind, c0, c1, _, _, g @ .., o0, o1, o2, o3, o4, o5, o6, o7]) =
            datagram.first_chunk::<DATAGRAM_HEADER>()
        else {
            return Err(Unreadable::Foreign);
        };
        if [*m0, *m1] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        let known = Kind::of(*kind);
        // To answer answers would never end, whatever their version.
        let asks = matches!(known, Some(Kind::Requests | Kind::AskDirectory));
        let is_spoken = *version == VERSION;
        if known.is_none() || !(is_spoken || asks) {
            return Err(Unreadable::Foreign);
        }
        let header = Header {
            kind: known.unwrap_or(Kind::Malformed),
            count: u16::from_le_bytes([*c0, *c1]),
            generation: u32::from_le_bytes([g[0], g[1], g[2], g[3]]),
            sequence: u32::from_le_bytes([g[4], g[5], g[6], g[7]]),
            opaque: u64::from_le_bytes([*o0, *o1, *o2, *o3, *o4, *o5, *o6, *o7]),
        };
        if is_spoken { Ok(header) } else { Err(Unreadable::Unknown(header)) }
    }

    /// Writes the header to the beginning of `out`.
    ///
    /// # Panics
    /// If that is shorter than [`DATAGRAM_HEADER`].
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) {
        let out = &mut out[..DATAGRAM_HEADER];
        out[..2].copy_from_slice(&MAGIC);
        out[2] = VERSION;
        out[3] = self.kind as u8;
        out[4..6].copy_from_slice(&self.count.to_le_bytes());
        out[6..8].fill(0);
        out[8..12].copy_from_slice(&self.generation.to_le_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.opaque.to_le_bytes());
    }

    /// The same with another kind and count: an answer to it.
    #[must_use]
    pub fn answer(self, kind: Kind, count: u16, generation: u32) -> Self {
        Header { kind, count, generation, ..self }
    }
}

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
