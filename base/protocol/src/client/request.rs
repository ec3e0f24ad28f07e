//! Text requests, appended to a buffer.
//!
//! Nothing is checked: a key with a blank or a control character, or one longer than [`crate::KEY_MAX`], makes a request
//! that the server refuses or reads as several. A value longer than [`crate::VALUE_MAX`] does too.

use crate::classic::{Direction, GetForm, Unique, Verb};
use crate::meta::MetaVerb;
use crate::word::verb::{self, spaced};

/// `version`, a request that every server answers.
pub const VERSION: &[u8] = b"version\r\n";
/// `mn`, which is answered by `MN` after the replies to all earlier requests.
pub const META_NOOP: &[u8] = b"mn\r\n";

const LINE_END: &[u8] = b"\r\n";

/// The item of a store, without its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item<'a> {
    /// The client's flags.
    pub flags: u64,
    /// The expiration time as the protocol has it: 0 for never, seconds up to 30 days, else a UNIX time; negative for
    /// at once.
    pub exptime: i64,
    /// The value.
    pub value: &'a [u8],
}

#[inline]
fn digits(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a blank and a number.
#[inline]
fn word(number: u64, out: &mut Vec<u8>) {
    if number < 10 {
        out.extend_from_slice(&[b' ', b'0' + number as u8]);
    } else {
        out.push(b' ');
        digits(number, out);
    }
}

/// Appends a blank and an expiration time.
#[inline]
fn time(exptime: i64, out: &mut Vec<u8>) {
    match u64::try_from(exptime) {
        Ok(seconds) => word(seconds, out),
        Err(_) => {
            out.push(b' ');
            digits(exptime, out);
        }
    }
}

/// Appends get, gets, gat, gats or lease-get of some keys.
#[inline]
pub fn get<'k>(form: GetForm, keys: impl IntoIterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
    begin_get(form, out);
    let mut keys = keys.into_iter();
    out.extend_from_slice(keys.next().unwrap_or_default());
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    end_line(out);
}

/// Appends the part of a get before its first key. The caller appends keys, with a blank between two of them, and
/// [`end_line`].
#[inline]
pub fn begin_get(form: GetForm, out: &mut Vec<u8>) {
    out.extend_from_slice(match form {
        GetForm::Plain(Unique::Omitted) => spaced::GET,
        GetForm::Plain(Unique::Shown) => spaced::GETS,
        GetForm::Touch(Unique::Omitted, _) => spaced::GAT,
        GetForm::Touch(Unique::Shown, _) => spaced::GATS,
        GetForm::Lease => spaced::LEASE_GET,
    });
    if let GetForm::Touch(_, time) = form {
        digits(time.0, out);
        out.push(b' ');
    }
}

/// Appends the end of a line.
#[inline]
pub fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(LINE_END);
}

/// Appends set, add, replace, append, prepend, cas or lease-set.
#[inline]
pub fn store(verb: Verb, key: &[u8], item: Item<'_>, out: &mut Vec<u8>) {
    begin_store(verb, out);
    out.extend_from_slice(key);
    end_store(verb, item, out);
}

/// Appends the part of a store before its key. The caller appends the key and calls [`end_store`].
#[inline]
pub fn begin_store(verb: Verb, out: &mut Vec<u8>) {
    out.extend_from_slice(match verb {
        Verb::Set => spaced::SET,
        Verb::Add => spaced::ADD,
        Verb::Replace => spaced::REPLACE,
        Verb::Append => spaced::APPEND,
        Verb::Prepend => spaced::PREPEND,
        Verb::Cas(_) => spaced::CAS,
        Verb::Lease(_) => spaced::LEASE_SET,
    });
}

/// Appends the part of a store behind its key.
#[inline]
pub fn end_store(verb: Verb, item: Item<'_>, out: &mut Vec<u8>) {
    if let Verb::Lease(token) = verb {
        word(token, out);
    }
    word(item.flags, out);
    time(item.exptime, out);
    word(item.value.len() as u64, out);
    if let Verb::Cas(unique) = verb {
        word(unique, out);
    }
    end_line(out);
    out.extend_from_slice(item.value);
    end_line(out);
}

/// Appends delete. Nothing may be added under the key for `hold_off` seconds, if that is not 0: memcached ignores it.
#[inline]
pub fn delete(key: &[u8], hold_off: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(spaced::DELETE);
    out.extend_from_slice(key);
    if hold_off != 0 {
        word(hold_off, out);
    }
    end_line(out);
}

/// Appends incr or decr.
pub fn arithmetic(direction: Direction, key: &[u8], delta: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(match direction {
        Direction::Up => spaced::INCR,
        Direction::Down => spaced::DECR,
    });
    out.extend_from_slice(key);
    word(delta, out);
    end_line(out);
}

/// Appends touch. The expiration time is as in [`Item`].
pub fn touch(key: &[u8], exptime: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(spaced::TOUCH);
    out.extend_from_slice(key);
    time(exptime, out);
    end_line(out);
}

/// Appends flush_all, which takes effect after `delay` seconds.
pub fn flush_all(delay: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(verb::FLUSH_ALL);
    if delay != 0 {
        time(delay, out);
    }
    end_line(out);
}

/// Appends stats of a group; the general ones if it is empty.
pub fn stats(group: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(verb::STATS);
    if !group.is_empty() {
        out.push(b' ');
        out.extend_from_slice(group);
    }
    end_line(out);
}

/// Appends the login of a text connection: a set whose value is the user and the password.
pub fn login(user: &str, password: &str, out: &mut Vec<u8>) {
    let value = format!("{user} {password}");
    store(Verb::Set, b"login", Item { value: value.as_bytes(), ..Item::default() }, out);
}

/// A meta request whose line takes flags. It is complete after [`MetaRequest::end`].
#[derive(Debug)]
#[must_use = "the line has no end"]
pub struct MetaRequest<'o> {
    out: &'o mut Vec<u8>,
}

/// Begins mg, md or ma, or an ms without its length: that is [`meta_store`].
#[inline]
pub fn meta<'o>(verb: MetaVerb, key: &[u8], out: &'o mut Vec<u8>) -> MetaRequest<'o> {
    out.extend_from_slice(match verb {
        MetaVerb::Get => spaced::META_GET,
        MetaVerb::Set => spaced::META_SET,
        MetaVerb::Delete => spaced::META_DELETE,
        MetaVerb::Arithmetic => spaced::META_ARITHMETIC,
    });
    out.extend_from_slice(key);
    MetaRequest { out }
}

/// Begins me, of which the only flag is `b`.
pub fn debug<'o>(key: &[u8], out: &'o mut Vec<u8>) -> MetaRequest<'o> {
    out.extend_from_slice(spaced::META_DEBUG);
    out.extend_from_slice(key);
    MetaRequest { out }
}

/// Begins ms of a value of `length` bytes, which [`MetaRequest::end_with`] appends.
#[inline]
pub fn meta_store<'o>(key: &[u8], length: usize, out: &'o mut Vec<u8>) -> MetaRequest<'o> {
    let request = meta(MetaVerb::Set, key, out);
    word(length as u64, request.out);
    request
}

impl MetaRequest<'_> {
    /// Appends flags, which are separated by blanks.
    #[inline]
    pub fn flags(self, flags: &[u8]) -> Self {
        self.out.push(b' ');
        self.out.extend_from_slice(flags);
        self
    }

    /// Appends a flag with a number.
    #[inline]
    pub fn number(self, letter: u8, token: impl itoa::Integer) -> Self {
        self.out.extend_from_slice(&[b' ', letter]);
        digits(token, self.out);
        self
    }

    /// Ends a line without a value.
    #[inline]
    pub fn end(self) {
        end_line(self.out);
    }

    /// Ends the line, and appends the value.
    #[inline]
    pub fn end_with(self, value: &[u8]) {
        end_line(self.out);
        self.out.extend_from_slice(value);
        end_line(self.out);
    }
}

#[cfg(test)]
mod tests;
