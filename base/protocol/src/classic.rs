//! The classic text protocol.

use crate::KEY_MAX;
use crate::admin::AdminVerb;
use crate::line::{BAD_FORMAT, Fault, Line, Noreply, Tokens, UNKNOWN, last_token, noreply};
use crate::meta::{self, Meta, MetaKey, MetaVerb};
use crate::number::{self, Exptime};

/// A command, as a client gave it.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// get, gets, gat, gats
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas; a data block follows
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
        /// When, as an expiration time; `None` if it cannot be read.
        delay: Option<Exptime>,
        /// Whether the reply is wanted.
        noreply: Noreply,
    },
    /// version
    Version,
    /// verbosity
    Verbosity {
        /// The level.
        level: u32,
        /// Whether the reply is wanted.
        noreply: Noreply,
    },
    /// stats, with what follows the word
    Stats(&'a [u8]),
    /// An operator's command, with what follows its first word.
    Admin(AdminVerb, &'a [u8]),
    /// quit
    Quit,
}

/// Whether cas uniques are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// They are: gets, gats.
    Told,
    /// They are not: get, gat.
    Untold,
}

/// get, gets, gat, gats
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The keys, at least one, none too long.
    pub keys: Keys<'a>,
    /// Whether cas uniques are told.
    pub unique: Unique,
    /// A new expiration time for what is found.
    pub touch: Option<Exptime>,
}

/// Keys separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// The next key.
    next: Option<&'a [u8]>,
    /// Those after it.
    others: Tokens<'a>,
}

impl<'a> Keys<'a> {
    /// The keys in `text`.
    #[inline]
    pub fn of(text: &'a [u8]) -> Self {
        let mut others = Tokens::of(text);
        Keys { next: others.next(), others }
    }

    /// Bytes of text from the next key on.
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

/// How something is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Whatever is there.
    Set,
    /// Only if nothing is there.
    Add,
    /// Only if something is there.
    Replace,
    /// After what is there.
    Append,
    /// Before what is there.
    Prepend,
    /// Only if what is there has this cas unique.
    Cas(u64),
}

/// set, add, replace, append, prepend, cas
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// How.
    pub verb: Verb,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub exptime: Exptime,
    /// Bytes of the data block, without its line end.
    pub length: u32,
    /// Whether the reply is wanted.
    pub noreply: Noreply,
}

/// delete
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Whether the reply is wanted.
    pub noreply: Noreply,
}

/// Which way a number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up, around at 2^64.
    Up,
    /// Down to 0.
    Down,
}

impl Direction {
    /// `number` after `delta`.
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
    /// By how much.
    pub delta: u64,
    /// Which way.
    pub direction: Direction,
    /// Whether the reply is wanted.
    pub noreply: Noreply,
}

/// touch
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When it expires from now on.
    pub exptime: Exptime,
    /// Whether the reply is wanted.
    pub noreply: Noreply,
}

/// A shorter line names no command and answers differently from a longer one that does not.
const SHORTEST_LINE: usize = 4;

/// Understands a line.
///
/// # Errors
/// What to answer and do instead.
#[inline]
pub fn parse<'a>(line: Line<'a>) -> Result<Command<'a>, Fault> {
    if let Some(rest) = line.text.strip_prefix(b"get ") {
        return get(rest, Unique::Untold);
    }
    if line.length < SHORTEST_LINE {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    let end = memchr::memchr(b' ', line.text).unwrap_or(line.text.len());
    let (word, rest) = line.text.split_at(end);
    match word {
        b"set" => store(rest, Verb::Set),
        b"add" => store(rest, Verb::Add),
        b"replace" => store(rest, Verb::Replace),
        b"append" => store(rest, Verb::Append),
        b"prepend" => store(rest, Verb::Prepend),
        b"cas" => store(rest, Verb::Cas(0)),
        b"mg" => meta::parse(MetaVerb::Get, rest),
        b"ms" => meta::parse(MetaVerb::Set, rest),
        b"md" => meta::parse(MetaVerb::Delete, rest),
        b"ma" => meta::parse(MetaVerb::Arithmetic, rest),
        b"mn" => Ok(Command::Server(ServerCommand::MetaNoop)),
        b"me" => meta::debug(rest),
        b"get" => get(rest, Unique::Untold),
        b"gets" => get(rest, Unique::Told),
        b"gat" => get_and_touch(rest, Unique::Untold),
        b"gats" => get_and_touch(rest, Unique::Told),
        b"delete" => delete(rest),
        b"incr" => arithmetic(rest, Direction::Up),
        b"decr" => arithmetic(rest, Direction::Down),
        b"touch" => touch(rest),
        _ => rare(word, rest),
    }
}

fn rare<'a>(word: &[u8], rest: &'a [u8]) -> Result<Command<'a>, Fault> {
    if let Some(verb) = AdminVerb::of(word) {
        return Ok(Command::Server(ServerCommand::Admin(verb, rest)));
    }
    let command = match word {
        b"flush_all" => flush_all(rest),
        b"version" => ServerCommand::Version,
        b"verbosity" => verbosity(rest)?,
        b"stats" => ServerCommand::Stats(rest),
        b"quit" => ServerCommand::Quit,
        _ => return Err(unknown(rest)),
    };
    Ok(Command::Server(command))
}

/// What to do about a line that names no command.
fn unknown(rest: &[u8]) -> Fault {
    match noreply(rest) {
        _ if last_token(rest).starts_with(b"HTTP/") => Fault::Close,
        Noreply::Yes => Fault::Silent,
        Noreply::No => Fault::Answer(UNKNOWN),
    }
}

#[inline]
fn get(rest: &[u8], unique: Unique) -> Result<Command<'_>, Fault> {
    keys(rest).map(|keys| Command::Get(Get { keys, unique, touch: None }))
}

fn get_and_touch(rest: &[u8], unique: Unique) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let time = tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?;
    if Keys::of(tokens.rest()).next.is_none() {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    let touch = number::exact_exptime(time).ok_or(Fault::Answer("CLIENT_ERROR invalid exptime argument"))?;
    let keys = keys(tokens.rest())?;
    Ok(Command::Get(Get { keys, unique, touch: Some(touch) }))
}

/// One key that is too long spoils the whole command, wherever it stands.
#[inline]
fn keys(text: &[u8]) -> Result<Keys<'_>, Fault> {
    let keys = Keys::of(text);
    if keys.next.is_none() || (text.len() > KEY_MAX && has_long_key(text)) {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    Ok(keys)
}

/// Whether more than [`KEY_MAX`] bytes of `text` follow each other without a blank. Looks for the last blank of as many
/// bytes as a key and a blank may have, and goes on behind it: much shorter than looking at each key.
fn has_long_key(mut text: &[u8]) -> bool {
    while let Some(window) = text.get(..=KEY_MAX) {
        match memchr::memrchr(b' ', window) {
            Some(blank) => text = &text[blank + 1..],
            None => return true,
        }
    }
    false
}

/// `<key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`. Once the length is known, whatever else is wrong leaves a data
/// block to be passed over.
fn store(rest: &[u8], verb: Verb) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let (Some(key), Some(flags), Some(time), Some(length)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Fault::Answer(BAD_FORMAT));
    };
    let length = number::length(length).ok_or(Fault::Answer(BAD_FORMAT))?;
    let noreply = noreply(tokens.rest());
    let swallow = Fault::Swallow { answer: BAD_FORMAT, noreply, bytes: u64::from(length) + 2 };
    let verb = match verb {
        Verb::Cas(_) => Verb::Cas(tokens.next().and_then(number::exact_u64).ok_or(swallow)?),
        other => other,
    };
    let (flags, exptime) = number::wrapping_u32(flags).zip(number::exptime(time)).ok_or(swallow)?;
    if key.len() > KEY_MAX {
        return Err(swallow);
    }
    Ok(Command::Store(Store { verb, key, flags, exptime, length, noreply }))
}

fn key<'a>(tokens: &mut Tokens<'a>) -> Result<&'a [u8], Fault> {
    tokens.next().ok_or(Fault::Answer(BAD_FORMAT))
}

/// What to do about a fault of a command that has no data block.
fn answer(text: &'static str, noreply: Noreply) -> Fault {
    if noreply == Noreply::Yes { Fault::Silent } else { Fault::Answer(text) }
}

fn short(key: &[u8], noreply: Noreply) -> Result<(), Fault> {
    if key.len() > KEY_MAX { Err(answer(BAD_FORMAT, noreply)) } else { Ok(()) }
}

fn delete(rest: &[u8]) -> Result<Command<'_>, Fault> {
    let noreply = noreply(rest);
    let key = key(&mut Tokens::of(rest))?;
    short(key, noreply)?;
    Ok(Command::Delete(Delete { key, noreply }))
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
        // Whatever stands behind it.
        (Some(delay), _) => number::exact_exptime(delay),
    };
    ServerCommand::FlushAll { delay, noreply }
}

fn verbosity(rest: &[u8]) -> Result<ServerCommand<'_>, Fault> {
    let noreply = noreply(rest);
    let level = Tokens::of(rest).next().ok_or(Fault::Answer(BAD_FORMAT))?;
    let level = number::exact_u32(level).ok_or(answer(BAD_FORMAT, noreply))?;
    Ok(ServerCommand::Verbosity { level, noreply })
}

#[cfg(test)]
mod tests;
