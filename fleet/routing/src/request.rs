//! Requests, as route handles see them.

use crate::hash::before_hash_stop;

/// The operation of a request. A meta command counts as the classic command with the same effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Get,
    Gets,
    Gat,
    Gats,
    LeaseGet,
    /// Metadata of an item without its value: `me`, mcrouter's metaget.
    MetaGet,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
    LeaseSet,
    Delete,
    Touch,
    Incr,
    Decr,
    FlushAll,
}

/// Groups of operations that handles treat alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    Get,
    Update,
    Delete,
    Arithmetic,
    Touch,
    Flush,
}

/// All operations, with the names that a configuration has for them.
pub(crate) const OPS: [(&str, Op); 18] = [
    ("get", Op::Get),
    ("gets", Op::Gets),
    ("gat", Op::Gat),
    ("gats", Op::Gats),
    ("lease-get", Op::LeaseGet),
    ("metaget", Op::MetaGet),
    ("set", Op::Set),
    ("add", Op::Add),
    ("replace", Op::Replace),
    ("append", Op::Append),
    ("prepend", Op::Prepend),
    ("cas", Op::Cas),
    ("lease-set", Op::LeaseSet),
    ("delete", Op::Delete),
    ("touch", Op::Touch),
    ("incr", Op::Incr),
    ("decr", Op::Decr),
    ("flushall", Op::FlushAll),
];

impl Op {
    /// The operation that a configuration calls by this name.
    pub fn from_name(name: &str) -> Option<Self> {
        OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        OPS.iter().map(|(name, _)| *name)
    }

    pub fn name(self) -> &'static str {
        OPS.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    pub fn group(self) -> Group {
        match self {
            Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet | Op::MetaGet => Group::Get,
            Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet => {
                Group::Update
            }
            Op::Delete => Group::Delete,
            Op::Incr | Op::Decr => Group::Arithmetic,
            Op::Touch => Group::Touch,
            Op::FlushAll => Group::Flush,
        }
    }

    /// Whether the request can be sent again, to the same server or another one, after a server may
    /// have executed it already.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::Set | Op::Delete | Op::Touch)
    }
}

/// How a request is written and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Classic,
    Meta,
}

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub op: Op,
    pub dialect: Dialect,
    /// The key as servers see it: without a routing prefix.
    pub key: &'a [u8],
    /// The routing prefix that was in front of the key, for servers that want it back.
    pub prefix: &'a [u8],
    /// How much of the key is hashed; 0 is the part before its hash stop.
    pub hashed: usize,
    /// The client's flags of a classic store.
    pub flags: u64,
    /// The expiration time of a store, a touch or a gat; of a meta command its flag T, which is not in `meta`.
    pub exptime: i32,
    /// The cas unique, the lease token, the amount of an incr or decr, or the seconds of a delete.
    pub number: u64,
    /// The flags of a meta command, as text.
    pub meta: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> Request<'a> {
    /// A classic request with nothing but a key.
    pub fn classic(op: Op, key: &'a [u8]) -> Self {
        Request {
            op,
            dialect: Dialect::Classic,
            key,
            prefix: b"",
            hashed: 0,
            flags: 0,
            exptime: 0,
            number: 0,
            meta: b"",
            value: b"",
        }
    }

    /// The memory needed to keep the request, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.prefix.len() + self.meta.len() + self.value.len()
    }

    /// Whether the key of a meta command is in base64 on its way.
    pub(crate) fn has_encoded_key(&self) -> bool {
        self.meta.split(|byte| *byte == b' ').any(|flag| flag == b"b")
    }

    /// The part of the key that is hashed.
    #[inline]
    pub(crate) fn routing_key(&self) -> &'a [u8] {
        match self.hashed {
            0 => before_hash_stop(self.key),
            hashed => &self.key[..hashed.min(self.key.len())],
        }
    }
}

/// A request that is kept while its children reply. Its memory is reused.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    op: Op,
    dialect: Dialect,
    flags: u64,
    exptime: i32,
    number: u64,
    key: usize,
    prefix: usize,
    hashed: usize,
    meta: usize,
    /// Key, routing prefix, flags of a meta command and value, one after the other.
    bytes: Vec<u8>,
}

/// No larger buffer is kept for the next request.
const KEPT_MAX: usize = 4 << 10;

impl Default for KeptRequest {
    fn default() -> Self {
        KeptRequest {
            op: Op::Get,
            dialect: Dialect::Classic,
            flags: 0,
            exptime: 0,
            number: 0,
            key: 0,
            prefix: 0,
            hashed: 0,
            meta: 0,
            bytes: Vec::new(),
        }
    }
}

impl KeptRequest {
    pub(crate) fn keep(&mut self, request: &Request<'_>) {
        self.op = request.op;
        self.dialect = request.dialect;
        self.flags = request.flags;
        self.exptime = request.exptime;
        self.number = request.number;
        self.key = request.key.len();
        self.prefix = request.prefix.len();
        self.hashed = request.hashed;
        self.meta = request.meta.len();
        self.bytes.clear();
        self.bytes.extend_from_slice(request.key);
        self.bytes.extend_from_slice(request.prefix);
        self.bytes.extend_from_slice(request.meta);
        self.bytes.extend_from_slice(request.value);
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let (key, rest) = self.bytes.split_at(self.key);
        let (prefix, rest) = rest.split_at(self.prefix);
        let (meta, value) = rest.split_at(self.meta);
        Request {
            op: self.op,
            dialect: self.dialect,
            key,
            prefix,
            hashed: self.hashed,
            flags: self.flags,
            exptime: self.exptime,
            number: self.number,
            meta,
            value,
        }
    }

    /// Forgets it, and most of a large buffer.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX);
    }
}
