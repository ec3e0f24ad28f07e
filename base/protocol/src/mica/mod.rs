//! MICA's datagrams: requests carry the hash of their key, so that a client chooses the thread that they reach (Lim
//! et al., NSDI 2014, section 4.2.2). docs/reference/protocol-mica.md is the specification for authors of clients; all numbers
//! are little-endian.
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

/// Length of a datagram's header, in bytes.
pub const DATAGRAM_HEADER: usize = 24;
/// Length of a request's record without key and value, in bytes.
pub const REQUEST_HEADER: usize = 20;
/// Length of a reply's record without its value, in bytes.
pub const REPLY_HEADER: usize = 8;
/// The protocol version.
pub const VERSION: u8 = 1;

/// The first two bytes of every datagram.
const MAGIC: [u8; 2] = *b"Gm";

/// The kinds of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Requests.
    Requests = 1,
    /// Replies to requests, one record for each, in their order.
    Replies = 2,
    /// Nothing was executed: the client uses another directory than the server's, and has to request it again.
    Moved = 3,
    /// Nothing was executed: the datagram is malformed.
    Malformed = 4,
    /// A request for the directory.
    DirectoryRequest = 5,
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
            5 => Kind::DirectoryRequest,
            6 => Kind::Directory,
            _ => return None,
        })
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the datagram.
    pub kind: Kind,
    /// The number of records that follow.
    pub count: u16,
    /// The generation of the sender's directory.
    pub generation: u32,
    /// The client's sequence number; the reply repeats it.
    pub sequence: u32,
    /// An opaque value that the reply repeats.
    pub opaque: u64,
}

/// Why a datagram was not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not of this protocol: it is not answered.
    Foreign,
    /// It is a request of an unknown kind or version.
    Unknown(Header),
}

impl Header {
    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// If it is not of this protocol, or of an unknown kind or version.
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
        // Replies are never answered, whatever their version: that would not end.
        let is_request = matches!(known, Some(Kind::Requests | Kind::DirectoryRequest));
        let is_spoken = *version == VERSION;
        if known.is_none() || !(is_spoken || is_request) {
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

    /// The header of the reply, with this kind and count.
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
