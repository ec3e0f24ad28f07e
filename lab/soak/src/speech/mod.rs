//! Requests and answers in each of the three protocols.

pub(crate) mod binary;
pub(crate) mod meta;
pub(crate) mod text;

use std::io;

use guira_workload::Rng;

use crate::client::Wire;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// `get`, `set` and their like.
    Text,
    /// `mg`, `ms` and their like.
    Meta,
    Binary,
}

impl Speech {
    pub(crate) fn random(random: &mut Rng) -> Self {
        [Speech::Text, Speech::Meta, Speech::Binary][random.below(3) as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Set,
    /// Stores if there is nothing.
    Add,
    /// Stores if there is something.
    Replace,
    /// Puts something after it.
    Append,
    /// Puts something before it.
    Prepend,
    /// Stores if the cas unique is still this one.
    Cas(u64),
    Delete,
    Touch,
    /// Reads, with the cas unique.
    Gets,
    /// Reads and changes the time to live.
    Gat,
    Increment(u64),
    Decrement(u64),
}

impl Verb {
    /// What it is called in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Set => "set",
            Verb::Add => "add",
            Verb::Replace => "replace",
            Verb::Append => "append",
            Verb::Prepend => "prepend",
            Verb::Cas(_) => "cas",
            Verb::Delete => "delete",
            Verb::Touch => "touch",
            Verb::Gets => "gets",
            Verb::Gat => "gat",
            Verb::Increment(_) => "incr",
            Verb::Decrement(_) => "decr",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The flags of the stored value.
    pub(crate) flags: u32,
    /// Seconds to live; 0 for ever.
    pub(crate) ttl: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    /// Its cas unique, if it was requested.
    pub(crate) cas: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The item was stored, removed or touched.
    Done,
    /// The item was not stored, since the key exists (add) or does not (the others).
    NotStored,
    Exists,
    NotFound,
    Number(u64),
    Hit(Hit),
    /// The server cannot do it now: there is no memory, or the value is too long.
    Refused(String),
    Strange(String),
}

impl Answer {
    /// What it is called in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Answer::Done => "done",
            Answer::NotStored => "not stored",
            Answer::Exists => "exists",
            Answer::NotFound => "not found",
            Answer::Number(_) => "a number",
            Answer::Hit(_) => "a value",
            Answer::Refused(_) => "refused",
            Answer::Strange(_) => "strange",
        }
    }
}

/// The result of reading one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Hit(Hit),
    Nothing,
    /// There was no memory to give the item a cas unique.
    Refused,
}

/// The answer to a request for many keys, in their order; or the text of another answer.
pub(crate) type SeenAll = Result<Vec<Seen>, String>;

/// An answer that is an error, in words.
pub(crate) fn error_line(line: &str) -> Answer {
    const REFUSALS: [&str; 3] =
        ["SERVER_ERROR out of memory", "SERVER_ERROR object too large", "SERVER_ERROR Out of memory"];
    if REFUSALS.iter().any(|refusal| line.starts_with(refusal)) {
        Answer::Refused(line.to_owned())
    } else {
        Answer::Strange(line.to_owned())
    }
}

impl Speech {
    pub(crate) fn write(self, request: &Request, out: &mut Vec<u8>) {
        match self {
            Speech::Text => text::write(request, out),
            Speech::Meta => meta::write(request, out),
            Speech::Binary => binary::write(request, out),
        }
    }

    pub(crate) fn read(self, request: &Request, wire: &mut Wire) -> io::Result<Answer> {
        match self {
            Speech::Text => text::read(request, wire),
            Speech::Meta => meta::read(request, wire),
            Speech::Binary => binary::read(request, wire),
        }
    }

    /// Writes a request for many keys.
    pub(crate) fn write_many(self, names: &[Vec<u8>], out: &mut Vec<u8>) {
        match self {
            Speech::Text => text::write_many(names, out),
            Speech::Meta => meta::write_many(names, out),
            Speech::Binary => binary::write_many(names, out),
        }
    }

    /// Reads the reply: the result for each key, or the text of an unexpected reply.
    pub(crate) fn read_many(self, names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
        match self {
            Speech::Text => text::read_many(names, wire),
            Speech::Meta => meta::read_many(names, wire),
            Speech::Binary => binary::read_many(names, wire),
        }
    }
}
