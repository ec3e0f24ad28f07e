//! The classic text protocol.

use crate::KEY_MAX;
use crate::admin::AdminVerb;
use crate::line::{BAD_FORMAT, Fault, Line, Noreply, Tokens, UNKNOWN, last_token, noreply};
use crate::meta::{self, Meta, MetaGet, MetaKey, MetaVerb};
use crate::number::{self, Exptime};
use crate::word::verb;

/// A parsed command line.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// get, gets, gat, gats, lease-get
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas, lease-set; a data block follows
    Store(Store<'a>),
    /// delete
    Delete(Delete<'a>),
    /// incr, decr
    Arithmetic(Arithmetic<'a>),
    /// touch
    Touch(Touch<'a>),
    /// mg, ms, md, ma; after ms a data block follows
    Meta(Meta<'a>),
    /// me
    MetaDebug(MetaKey<'a>),
    /// A command that has no key.
    Server(ServerCommand<'a>),
}

/// A command about the server or the connection.
#[derive(Clone, Copy, Debug)]
pub enum ServerCommand<'a> {
    /// mn
    MetaNoop,
    /// flush_all
    FlushAll {
        /// The delay, as an expiration time; `None` if it is malformed.
        delay: Option<Exptime>,
        /// Whether the client wants no reply.
        noreply: Noreply,
    },
    /// flush_prefix
    FlushPrefixes {
        /// The prefixes: at least one, each at most [`KEY_MAX`] bytes.
        prefixes: Keys<'a>,
        /// Whether the client wants no reply.
        noreply: Noreply,
    },
    /// md with G: the key is a prefix
    MetaFlushPrefix(MetaGet<'a>),
    /// version
    Version,
    /// verbosity
    Verbosity {
        /// The log level.
        level: u32,
        /// Whether the client wants no reply.
        noreply: Noreply,
    },
    /// stats, with what follows the word
    Stats(&'a [u8]),
    /// An operator's command, with what follows its first word.
    Admin(AdminVerb, &'a [u8]),
    /// quit
    Quit,
}

/// Whether the reply includes cas uniques.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// gets, gats
    Shown,
    /// get, gat
    Omitted,
}

/// What a command asks of the keys that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetForm {
    /// get, gets
    Plain(Unique),
    /// gat, gats: also sets this expiration time
    Touch(Unique, Exptime),
    /// lease-get: on a miss, a token to fill the key with (Scaling Memcache at Facebook, section 3.2.1)
    Lease,
}

/// get, gets, gat, gats, lease-get
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The keys: at least one, each at most [`KEY_MAX`] bytes.
    pub keys: Keys<'a>,
    /// What is asked of each.
    pub form: GetForm,
}

/// Keys separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    next: Option<&'a [u8]>,
    others: Tokens<'a>,
}

impl<'a> Keys<'a> {
    /// Splits `text` at blanks.
    #[inline]
    pub fn of(text: &'a [u8]) -> Self {
        let mut others = Tokens::of(text);
        Keys { next: others.next(), others }
    }

    /// Length of the text from the next key on, in bytes.
    #[inline]
    pub fn rest(&self) -> usize {
        self.next.map_or(0, |key| self.others.bytes_from(key))
    }

    /// The key, if there is exactly one.
    #[inline]
    pub fn single(&self) -> Option<&'a [u8]> {
        self.next.filter(|_| self.others.rest().iter().all(|byte| *byte == b' '))
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        std::mem::replace(&mut self.next, self.others.next())
    }
}

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Store unconditionally.
    Set,
    /// Store only if the key is missing.
    Add,
    /// Store only if the key exists.
    Replace,
    /// Append to the stored value.
    Append,
    /// Prepend to the stored value.
    Prepend,
    /// Store only if the item has this cas unique.
    Cas(u64),
    /// Store only if this is the lease token of the key.
    Lease(u64),
}

/// set, add, replace, append, prepend, cas, lease-set
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The kind of store.
    pub verb: Verb,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// The expiration time.
    pub exptime: Exptime,
    /// Bytes of the data block, without its line end.
    pub length: u32,
    /// Whether the client wants no reply.
    pub noreply: Noreply,
}

/// delete
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// For how many seconds nothing may be added under the key; `None` if what the client sent is no number. memcached reads it and ignores it.
    pub hold_off: Option<u32>,
    /// Whether the client wants no reply.
    pub noreply: Noreply,
}

/// Increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Increment, modulo 2^64.
    Up,
    /// Decrement, not below 0.
    Down,
}

impl Direction {
    /// The result of counting from `number` by `delta`.
    pub fn apply(self, number: u64, delta: u64) -> u64 {
        match self {
            Direction::Up => number.wrapping_add(delta),
            Direction::Down => number.saturating_sub(delta),
        }
    }
}

/// incr, decr
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The amount.
    pub delta: u64,
    /// Increment or decrement.
    pub direction: Direction,
    /// Whether the client wants no reply.
    pub noreply: Noreply,
}

/// touch
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new expiration time.
    pub exptime: Exptime,
    /// Whether the client wants no reply.
    pub noreply: Noreply,
}

/// memcached answers a shorter line that names no command differently from a longer one.
const SHORTEST_LINE: usize = 4;

/// Parses a command line.
///
/// # Errors
/// How to answer a malformed line.
#[inline]
pub fn parse<'a>(line: Line<'a>) -> Result<Command<'a>, Fault> {
    if let Some(rest) = line.text.strip_prefix(verb::spaced::GET) {
        return get(rest, GetForm::Plain(Unique::Omitted));
    }
    if line.length < SHORTEST_LINE {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    let end = memchr::memchr(b' ', line.text).unwrap_or(line.text.len());
    let (word, rest) = line.text.split_at(end);
    match word {
        verb::SET => store(rest, Verb::Set),
        verb::ADD => store(rest, Verb::Add),
        verb::REPLACE => store(rest, Verb::Replace),
        verb::APPEND => store(rest, Verb::Append),
        verb::PREPEND => store(rest, Verb::Prepend),
        verb::CAS => store(rest, Verb::Cas(0)),
        verb::META_GET => meta::parse(MetaVerb::Get, rest),
        verb::META_SET => meta::parse(MetaVerb::Set, rest),
        verb::META_DELETE => meta::parse(MetaVerb::Delete, rest),
        verb::META_ARITHMETIC => meta::parse(MetaVerb::Arithmetic, rest),
        verb::META_NOOP => Ok(Command::Server(ServerCommand::MetaNoop)),
        verb::META_DEBUG => meta::debug(rest),
        verb::GET => get(rest, GetForm::Plain(Unique::Omitted)),
        verb::GETS => get(rest, GetForm::Plain(Unique::Shown)),
        verb::GAT => get_and_touch(rest, Unique::Omitted),
        verb::GATS => get_and_touch(rest, Unique::Shown),
        verb::DELETE => delete(rest),
        verb::INCR => arithmetic(rest, Direction::Up),
        verb::DECR => arithmetic(rest, Direction::Down),
        verb::TOUCH => touch(rest),
        _ => rare(word, rest),
    }
}

fn rare<'a>(word: &[u8], rest: &'a [u8]) -> Result<Command<'a>, Fault> {
    if let Some(verb) = AdminVerb::of(word) {
        return Ok(Command::Server(ServerCommand::Admin(verb, rest)));
    }
    let command = match word {
        verb::FLUSH_ALL => flush_all(rest),
        verb::FLUSH_PREFIX => flush_prefix(rest)?,
        verb::VERSION => ServerCommand::Version,
        verb::VERBOSITY => verbosity(rest)?,
        verb::STATS => ServerCommand::Stats(rest),
        verb::QUIT => ServerCommand::Quit,
        verb::LEASE_GET => return get(rest, GetForm::Lease),
        verb::LEASE_SET => return lease_set(rest),
        _ => return Err(unknown(rest)),
    };
    Ok(Command::Server(command))
}

/// How to answer a line that names no command.
fn unknown(rest: &[u8]) -> Fault {
    match noreply(rest) {
        _ if last_token(rest).starts_with(b"HTTP/") => Fault::Close,
        Noreply::Yes => Fault::Silent,
        Noreply::No => Fault::Answer(UNKNOWN),
    }
}

#[inline]
fn get(rest: &[u8], form: GetForm) -> Result<Command<'_>, Fault> {
    keys(rest).map(|keys| Command::Get(Get { keys, form }))
}

fn get_and_touch(rest: &[u8], unique: Unique) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let time = tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?;
    if Keys::of(tokens.rest()).next.is_none() {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    let touch = number::exact_exptime(time).ok_or(Fault::Answer("CLIENT_ERROR invalid exptime argument"))?;
    let keys = keys(tokens.rest())?;
    Ok(Command::Get(Get { keys, form: GetForm::Touch(unique, touch) }))
}

/// One key that is too long invalidates the whole command, wherever it stands.
#[inline]
fn keys(text: &[u8]) -> Result<Keys<'_>, Fault> {
    let keys = Keys::of(text);
    if keys.next.is_none() || (text.len() > KEY_MAX && has_long_key(text)) {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    Ok(keys)
}

/// Whether `text` has a run of more than [`KEY_MAX`] bytes without a blank. Searches backwards for a blank in a
/// window of `KEY_MAX + 1` bytes and continues behind it, which is much faster than checking each key.
fn has_long_key(mut text: &[u8]) -> bool {
    while let Some(window) = text.get(..=KEY_MAX) {
        match memchr::memrchr(b' ', window) {
            Some(blank) => text = &text[blank + 1..],
            None => return true,
        }
    }
    false
}

/// `<key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`
fn store(rest: &[u8], verb: Verb) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let (Some(key), Some(flags), Some(time), Some(length)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Fault::Answer(BAD_FORMAT));
    };
    let noreply = noreply(tokens.rest());
    Announced { key, flags, time, length }.store(noreply, || match verb {
        Verb::Cas(_) => tokens.next().and_then(number::exact_u64).map(Verb::Cas),
        other => Some(other),
    })
}

/// What the line of a store says of the item and its data block.
struct Announced<'a> {
    key: &'a [u8],
    flags: &'a [u8],
    time: &'a [u8],
    length: &'a [u8],
}

impl<'a> Announced<'a> {
    /// The store. Once the length is known, any other fault still leaves a data block to skip.
    #[inline(always)]
    fn store(self, noreply: Noreply, verb: impl FnOnce() -> Option<Verb>) -> Result<Command<'a>, Fault> {
        let length = number::length(self.length).ok_or(Fault::Answer(BAD_FORMAT))?;
        let swallow = Fault::Swallow { answer: BAD_FORMAT, noreply, bytes: u64::from(length) + 2 };
        let verb = verb().ok_or(swallow)?;
        let (flags, exptime) =
            number::wrapping_u32(self.flags).zip(number::exptime(self.time)).ok_or(swallow)?;
        if self.key.len() > KEY_MAX {
            return Err(swallow);
        }
        Ok(Command::Store(Store { verb, key: self.key, flags, exptime, length, noreply }))
    }
}

/// `<key> <token> <flags> <exptime> <bytes> [noreply]`
fn lease_set(rest: &[u8]) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let (Some(key), Some(token), Some(flags), Some(time), Some(length)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Fault::Answer(BAD_FORMAT));
    };
    let announced = Announced { key, flags, time, length };
    let noreply = noreply(tokens.rest());
    announced.store(noreply, || number::exact_u64(token).map(Verb::Lease))
}

fn key<'a>(tokens: &mut Tokens<'a>) -> Result<&'a [u8], Fault> {
    tokens.next().ok_or(Fault::Answer(BAD_FORMAT))
}

/// The fault of a command that has no data block.
fn answer(text: &'static str, noreply: Noreply) -> Fault {
    if noreply == Noreply::Yes { Fault::Silent } else { Fault::Answer(text) }
}

fn short(key: &[u8], noreply: Noreply) -> Result<(), Fault> {
    if key.len() > KEY_MAX { Err(answer(BAD_FORMAT, noreply)) } else { Ok(()) }
}

fn delete(rest: &[u8]) -> Result<Command<'_>, Fault> {
    let noreply = noreply(rest);
    let mut tokens = Tokens::of(rest);
    let key = key(&mut tokens)?;
    short(key, noreply)?;
    let hold_off = match tokens.next() {
        None | Some(b"noreply") => Some(0),
        Some(seconds) => number::exact_u32(seconds),
    };
    Ok(Command::Delete(Delete { key, hold_off, noreply }))
}

fn arithmetic(rest: &[u8], direction: Direction) -> Result<Command<'_>, Fault> {
    let noreply = noreply(rest);
    let mut tokens = Tokens::of(rest);
    let (key, delta) = (key(&mut tokens)?, tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?);
    short(key, noreply)?;
    let delta =
        number::exact_u64(delta).ok_or(answer("CLIENT_ERROR invalid numeric delta argument", noreply))?;
    Ok(Command::Arithmetic(Arithmetic { key, delta, direction, noreply }))
}

fn touch(rest: &[u8]) -> Result<Command<'_>, Fault> {
    let noreply = noreply(rest);
    let mut tokens = Tokens::of(rest);
    let (key, time) = (key(&mut tokens)?, tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?);
    short(key, noreply)?;
    let exptime =
        number::exact_exptime(time).ok_or(answer("CLIENT_ERROR invalid exptime argument", noreply))?;
    Ok(Command::Touch(Touch { key, exptime, noreply }))
}

fn flush_all(rest: &[u8]) -> ServerCommand<'_> {
    let noreply = noreply(rest);
    let mut tokens = Tokens::of(rest);
    let delay = match (tokens.next(), tokens.next()) {
        (None, _) | (Some(b"noreply"), None) => Some(Exptime(0)),
        // Whatever follows it.
        (Some(delay), _) => number::exact_exptime(delay),
    };
    ServerCommand::FlushAll { delay, noreply }
}

/// `<prefix>+ [noreply]`
fn flush_prefix(rest: &[u8]) -> Result<ServerCommand<'_>, Fault> {
    let noreply = noreply(rest);
    let text = match noreply {
        Noreply::Yes => &rest[..rest.trim_ascii_end().len() - last_token(rest).len()],
        Noreply::No => rest,
    };
    let prefixes = keys(text).map_err(|_| answer(BAD_FORMAT, noreply))?;
    Ok(ServerCommand::FlushPrefixes { prefixes, noreply })
}

fn verbosity(rest: &[u8]) -> Result<ServerCommand<'_>, Fault> {
    let noreply = noreply(rest);
    let level = Tokens::of(rest).next().ok_or(Fault::Answer(BAD_FORMAT))?;
    let level = number::exact_u32(level).ok_or(answer(BAD_FORMAT, noreply))?;
    Ok(ServerCommand::Verbosity { level, noreply })
}

#[cfg(test)]
mod tests;
