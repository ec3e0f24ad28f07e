//! The binary protocol: packets with a header of 24 bytes. memcached deprecates it and still serves it.

mod replies;

pub use replies::{reply_body, reply_stat, reply_stat_lines, reply_status, reply_text};

use crate::KEY_MAX;
use crate::classic::{Direction, Verb};
use crate::number::Exptime;

/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of a response.
pub const RESPONSE_MAGIC: u8 = 0x81;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;

/// Commands. Those that end with `Q` are quiet: only unexpected results are reported.
#[allow(missing_docs, reason = "the names say it")]
pub mod opcode {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCR: u8 = 0x05;
    pub const DECR: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const ADDQ: u8 = 0x12;
    pub const REPLACEQ: u8 = 0x13;
    pub const DELETEQ: u8 = 0x14;
    pub const INCRQ: u8 = 0x15;
    pub const DECRQ: u8 = 0x16;
    pub const QUITQ: u8 = 0x17;
    pub const FLUSHQ: u8 = 0x18;
    pub const APPENDQ: u8 = 0x19;
    pub const PREPENDQ: u8 = 0x1a;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
}

/// Status codes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// The command succeeded.
    Success = 0x00,
    /// No item has this key.
    KeyNotFound = 0x01,
    /// An item has this key already, or has another cas unique.
    KeyExists = 0x02,
    /// The item is too large.
    TooLarge = 0x03,
    /// The packet is malformed.
    InvalidArguments = 0x04,
    /// The condition of the store does not hold.
    NotStored = 0x05,
    /// The stored value is not a number.
    NotANumber = 0x06,
    /// The client is not authenticated.
    AuthError = 0x20,
    /// The server expects the next step of an authentication.
    AuthContinue = 0x21,
    /// There is no such command.
    UnknownCommand = 0x81,
    /// No memory is left.
    OutOfMemory = 0x82,
    /// The command exists and is not served.
    NotSupported = 0x83,
    /// Something went wrong that the client has no part in.
    InternalError = 0x84,
    /// The server has too much to do.
    Busy = 0x85,
    /// It may go better another time.
    TemporaryFailure = 0x86,
}

impl Status {
    const ALL: [Status; 15] = [
        Status::Success,
        Status::KeyNotFound,
        Status::KeyExists,
        Status::TooLarge,
        Status::InvalidArguments,
        Status::NotStored,
        Status::NotANumber,
        Status::AuthError,
        Status::AuthContinue,
        Status::UnknownCommand,
        Status::OutOfMemory,
        Status::NotSupported,
        Status::InternalError,
        Status::Busy,
        Status::TemporaryFailure,
    ];

    /// The status with this code.
    pub fn of(code: u16) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as u16 == code)
    }

    /// The text of the body of an error response.
    pub fn text(self) -> &'static str {
        match self {
            Status::Success => "",
            Status::KeyNotFound => "Not found",
            Status::KeyExists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::InvalidArguments => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::AuthError => "Auth failure.",
            Status::AuthContinue => "",
            Status::UnknownCommand => "Unknown command",
            Status::OutOfMemory => "Out of memory",
            Status::NotSupported => "Not supported",
            Status::InternalError => "Internal error",
            Status::Busy => "Busy",
            Status::TemporaryFailure => "Temporary failure",
        }
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The command as the client sent it; the response repeats it.
    pub opcode: u8,
    /// An opaque value that the response repeats.
    pub opaque: [u8; 4],
    /// The cas unique to compare with; 0 for none.
    pub cas: u64,
    extras_len: u8,
    key_len: u16,
    body_len: u32,
}

impl Packet {
    /// Reads a header. `None` if fewer than [`HEADER_BYTES`] have arrived.
    pub fn read(input: &[u8]) -> Option<Self> {
        let [_, opcode, k1, k0, extras_len, _, _, _, b3, b2, b1, b0, o3, o2, o1, o0, cas @ ..] =
            input.first_chunk::<HEADER_BYTES>()?;
        Some(Packet {
            opcode: *opcode,
            opaque: [*o3, *o2, *o1, *o0],
            cas: u64::from_be_bytes(*cas),
            extras_len: *extras_len,
            key_len: u16::from_be_bytes([*k1, *k0]),
            body_len: u32::from_be_bytes([*b3, *b2, *b1, *b0]),
        })
    }

    /// As much of a header as its response repeats. It has no body.
    pub fn echo(opcode: u8, opaque: [u8; 4]) -> Self {
        Packet { opcode, opaque, cas: 0, extras_len: 0, key_len: 0, body_len: 0 }
    }

    /// The kind of the command; `None` if there is no such command.
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.opcode)
    }

    /// Bytes of extras and key.
    pub fn head_len(&self) -> usize {
        usize::from(self.extras_len) + usize::from(self.key_len)
    }

    /// Bytes of everything after the header.
    pub fn body_len(&self) -> u32 {
        self.body_len
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> u32 {
        self.body_len - self.head_len() as u32
    }

    /// Checks the lengths against the command, before any of the body has arrived.
    ///
    /// # Errors
    /// The error response to send instead, and whether the connection can go on.
    pub fn check(&self) -> Result<Kind, BinaryFault> {
        let (extras, key) = (usize::from(self.extras_len), usize::from(self.key_len));
        if self.head_len() as u64 > u64::from(self.body_len) {
            return Err(BinaryFault::Close(Status::UnknownCommand));
        }
        if key > KEY_MAX || self.body_len > BODY_MAX {
            return Err(BinaryFault::Close(Status::InvalidArguments));
        }
        let Some(kind) = self.kind() else {
            return Err(BinaryFault::Swallow(Status::UnknownCommand));
        };
        let (body, head) = (self.body_len as usize, self.head_len());
        let good = match kind {
            Kind::Version | Kind::Noop | Kind::Quit => body == 0,
            Kind::Flush => key == 0 && body == extras && (extras == 0 || extras == 4),
            Kind::Store(_) => extras == 8 && key > 0,
            Kind::Join(_) => extras == 0 && key > 0,
            Kind::Get(_) | Kind::Delete => extras == 0 && key > 0 && body == key,
            Kind::Arithmetic(_) => extras == 20 && key > 0 && body == head,
            Kind::Stat => extras == 0 && body == key,
            Kind::Touch(_) => extras == 4 && key > 0 && body == head,
        };
        if good { Ok(kind) } else { Err(BinaryFault::Close(Status::InvalidArguments)) }
    }

    /// The command, once extras and key have arrived: `head` holds them, and `kind` is the result of
    /// [`Packet::check`].
    pub fn command<'a>(&self, kind: Kind, head: &'a [u8]) -> Binary<'a> {
        let (extras, key) = head.split_at(usize::from(self.extras_len).min(head.len()));
        let word = |at: usize| -> u32 {
            let bytes = extras.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        // Times are unsigned here; the largest are practically never.
        let time = |at: usize| Exptime(word(at).min(i32::MAX as u32) as i32);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let operation = match kind {
            Kind::Version => return Binary::Server(ServerOperation::Version),
            Kind::Noop => return Binary::Server(ServerOperation::Noop),
            Kind::Quit => return Binary::Server(ServerOperation::Quit),
            Kind::Flush => return Binary::Server(ServerOperation::Flush(time(0))),
            Kind::Stat => return Binary::Server(ServerOperation::Stat(key)),
            Kind::Delete => ItemOperation::Delete,
            Kind::Get(shown) => ItemOperation::Get { shown, touch: None },
            Kind::Touch(shown) => ItemOperation::Get { shown, touch: Some(time(0)) },
            Kind::Store(verb) => ItemOperation::Store(PacketStore { verb, flags: word(0), exptime: time(4) }),
            Kind::Join(verb) => ItemOperation::Store(PacketStore { verb, flags: 0, exptime: Exptime(0) }),
            Kind::Arithmetic(direction) => ItemOperation::Arithmetic {
                direction,
                delta: long(0),
                initial: (word(16) != NO_INITIAL).then(|| (long(8), time(16))),
            },
        };
        Binary::Item { key, operation }
    }

    /// Whether nominal responses are suppressed.
    pub fn quiet(&self) -> Quiet {
        match self.opcode {
            opcode::GETQ | opcode::GETKQ | opcode::GATQ | opcode::GATKQ => Quiet::Yes,
            opcode::SETQ..=opcode::PREPENDQ => Quiet::Yes,
            _ => Quiet::No,
        }
    }
}

/// The longest body: 1 GiB, the largest item that can be configured.
const BODY_MAX: u32 = 1 << 30;

/// This expiration time tells incr and decr not to create an item.
pub(crate) const NO_INITIAL: u32 = u32::MAX;

/// Whether nominal responses are suppressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// All responses are sent.
    No,
    /// Only unexpected results are reported: no success, and no miss of a get.
    Yes,
}

/// What a get returns of an item beside its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its value.
    Value,
    /// Its key and its value.
    KeyAndValue,
    /// Nothing: the command is a touch.
    Nothing,
}

/// Commands, grouped by the format of their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Get(Shown),
    Touch(Shown),
    Store(Verb),
    Join(Verb),
    Delete,
    Arithmetic(Direction),
    Flush,
    Noop,
    Version,
    Stat,
    Quit,
}

impl Kind {
    fn of(opcode: u8) -> Option<Kind> {
        Some(match opcode {
            opcode::GET | opcode::GETQ => Kind::Get(Shown::Value),
            opcode::GETK | opcode::GETKQ => Kind::Get(Shown::KeyAndValue),
            opcode::SET | opcode::SETQ => Kind::Store(Verb::Set),
            opcode::ADD | opcode::ADDQ => Kind::Store(Verb::Add),
            opcode::REPLACE | opcode::REPLACEQ => Kind::Store(Verb::Replace),
            opcode::DELETE | opcode::DELETEQ => Kind::Delete,
            opcode::INCR | opcode::INCRQ => Kind::Arithmetic(Direction::Up),
            opcode::DECR | opcode::DECRQ => Kind::Arithmetic(Direction::Down),
            opcode::QUIT | opcode::QUITQ => Kind::Quit,
            opcode::FLUSH | opcode::FLUSHQ => Kind::Flush,
            opcode::NOOP => Kind::Noop,
            opcode::VERSION => Kind::Version,
            opcode::APPEND | opcode::APPENDQ => Kind::Join(Verb::Append),
            opcode::PREPEND | opcode::PREPENDQ => Kind::Join(Verb::Prepend),
            opcode::STAT => Kind::Stat,
            // 0x1b, verbosity, is specified, but memcached does not implement it.
            opcode::TOUCH => Kind::Touch(Shown::Nothing),
            opcode::GAT | opcode::GATQ => Kind::Touch(Shown::Value),
            opcode::GATK | opcode::GATKQ => Kind::Touch(Shown::KeyAndValue),
            _ => return None,
        })
    }
}

/// A parsed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary<'a> {
    /// A command about the item under a key.
    Item {
        /// The key.
        key: &'a [u8],
        /// The operation on the item.
        operation: ItemOperation,
    },
    /// A command that has no key.
    Server(ServerOperation<'a>),
}

/// What a command does with the item under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOperation {
    /// get, getk, gat, gatk, touch
    Get {
        /// What is returned of the item.
        shown: Shown,
        /// The new expiration time of a gat or touch.
        touch: Option<Exptime>,
    },
    /// set, add, replace, append, prepend; the value follows
    Store(PacketStore),
    /// delete
    Delete,
    /// increment, decrement
    Arithmetic {
        /// Increment or decrement.
        direction: Direction,
        /// The amount.
        delta: u64,
        /// The value to create the item with, and its expiration time.
        initial: Option<(u64, Exptime)>,
    },
}

/// The fixed fields of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStore {
    /// The kind of store.
    pub verb: Verb,
    /// The client's flags.
    pub flags: u32,
    /// The expiration time.
    pub exptime: Exptime,
}

/// A command about the server or the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOperation<'a> {
    /// flush, and when it takes effect
    Flush(Exptime),
    /// no-op
    Noop,
    /// version
    Version,
    /// stat, and the group of statistics
    Stat(&'a [u8]),
    /// quit
    Quit,
}

/// How to answer a malformed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryFault {
    /// Answer with this status and skip the body.
    Swallow(Status),
    /// Answer with this status and close the connection.
    Close(Status),
}

/// The header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request.
    pub packet: Packet,
    /// The result.
    pub status: Status,
    /// The cas unique of the item.
    pub cas: u64,
    /// Length of the extras, in bytes.
    pub extras_len: u8,
    /// Length of the key, in bytes.
    pub key_len: u8,
    /// Length of the value, in bytes.
    pub value_len: u32,
}

impl Response {
    /// A response without a body.
    pub fn plain(packet: Packet, status: Status) -> Self {
        Response { packet, status, cas: 0, extras_len: 0, key_len: 0, value_len: 0 }
    }

    /// The encoded header.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let body = self.value_len + u32::from(self.extras_len) + u32::from(self.key_len);
        header[0] = RESPONSE_MAGIC;
        header[1] = self.packet.opcode;
        header[3] = self.key_len;
        header[4] = self.extras_len;
        header[6..8].copy_from_slice(&(self.status as u16).to_be_bytes());
        header[8..12].copy_from_slice(&body.to_be_bytes());
        header[12..16].copy_from_slice(&self.packet.opaque);
        header[16..24].copy_from_slice(&self.cas.to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests;
