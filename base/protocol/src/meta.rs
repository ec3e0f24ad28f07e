//! The meta protocol: `<cm> <key> [<datalen>] <flag>*`.

use crate::KEY_MAX;
use crate::classic::{Command, Direction, ServerCommand, Verb};
use crate::line::{BAD_FORMAT, Fault, Noreply, Tokens};
use crate::number::{self, Exptime};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The most tokens in a line, command and key included.
const TOKENS_MAX: usize = 20;
/// memcached tokenizes no more than these, and so does not see how a later one begins.
const TOKENS_SEEN: usize = 23;
/// The longest opaque token, its letter included, in bytes.
const OPAQUE_MAX: usize = 32;

/// The meta commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVerb {
    /// mg
    Get,
    /// ms
    Set,
    /// md
    Delete,
    /// ma
    Arithmetic,
}

/// A meta command.
#[derive(Clone, Copy, Debug)]
pub enum Meta<'a> {
    /// mg
    Get(MetaGet<'a>),
    /// ms
    Set(MetaSet<'a>),
    /// md
    Delete(MetaGet<'a>),
    /// ma, with its direction
    Arithmetic(MetaGet<'a>, Direction),
}

/// A key with flags.
#[derive(Clone, Copy, Debug)]
pub struct MetaGet<'a> {
    /// The key.
    pub key: MetaKey<'a>,
    /// The flags.
    pub flags: MetaFlags<'a>,
}

/// ms
#[derive(Clone, Copy, Debug)]
pub struct MetaSet<'a> {
    /// The key.
    pub key: MetaKey<'a>,
    /// The flags.
    pub flags: MetaFlags<'a>,
    /// How the value is stored.
    pub mode: Mode,
    /// Bytes of the data block, without its line end.
    pub length: u32,
}

/// The mode of ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The classic command with the same effect; a cas unique to compare with is in the flags.
    pub verb: Verb,
}

/// A key as the client sent it, in base64 or plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaKey<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) form: KeyForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Plain,
    Base64,
}

/// Space for a decoded or encoded key.
pub type KeyBuffer = [u8; 336];

impl<'a> MetaKey<'a> {
    fn new(text: &'a [u8], form: KeyForm) -> Option<Self> {
        let key = MetaKey { text, form };
        (form == KeyForm::Plain || !key.bytes(&mut [0; 336]).is_empty()).then_some(key)
    }

    /// The key itself, decoded into `buffer` if it is in base64.
    #[inline(always)]
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self.form {
            KeyForm::Plain => self.text,
            KeyForm::Base64 => {
                let length = match STANDARD.decode_slice(self.text, buffer) {
                    Ok(length) => length,
                    Err(_) => decode_loosely(self.text, buffer),
                };
                &buffer[..length]
            }
        }
    }

    /// Whether the client sent it in base64.
    pub fn is_binary(&self) -> bool {
        self.form == KeyForm::Base64
    }
}

/// Decodes malformed base64 as memcached does: it skips other bytes, drops left-over bits, and ignores what follows a
/// group with padding. Returns the number of bytes, or none if the text cannot be decoded.
#[cold]
fn decode_loosely(text: &[u8], buffer: &mut KeyBuffer) -> usize {
    let sextet = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(0),
        _ => None,
    };
    if text.iter().filter_map(sextet).count() % 4 > 0 {
        return 0;
    }
    let (mut group, mut digits, mut padding, mut length) = (0u32, 0, 0, 0);
    for byte in text {
        let Some(digit) = sextet(byte) else {
            continue;
        };
        group = group << 6 | u32::from(digit);
        digits += 1;
        padding += usize::from(*byte == b'=');
        if digits % 4 == 0 {
            let Some(space) = buffer.get_mut(length..length + 3) else {
                return 0;
            };
            space.copy_from_slice(&group.to_be_bytes()[1..]);
            length += 3;
            group = 0;
            if padding > 0 {
                return if padding < 3 { length - padding } else { 0 };
            }
        }
    }
    length
}

/// Whether a line of text can carry a key as it is. A key that came by the binary protocol may have any bytes: a
/// blank or a line feed in it would end it early, and a client would read what follows as something else.
pub fn fits_in_text(key: &[u8]) -> bool {
    memchr::memchr2(b' ', b'\n', key).is_none()
}

/// The base64 form of a key; empty if it is longer than a key can be.
pub fn encode_key<'b>(key: &[u8], buffer: &'b mut KeyBuffer) -> &'b [u8] {
    let length = STANDARD.encode_slice(key, buffer).unwrap_or(0);
    &buffer[..length]
}

/// The parsed flags of a meta command; the letters are those of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct MetaFlags<'a> {
    /// The letters that occur: bit `letter - b'A'`.
    pub(crate) letters: u64,
    /// The flags as the client sent them.
    pub(crate) text: &'a [u8],
    /// T: a new expiration time.
    pub exptime: Option<Exptime>,
    /// N: create the item if it is missing, with this expiration time.
    pub vivify: Option<Exptime>,
    /// R: win if less than this time to live is left.
    pub recache: Option<Exptime>,
    /// F: client flags.
    pub client_flags: u32,
    /// C: a cas unique to compare with.
    pub cas: Option<u64>,
    /// E: a cas unique to store.
    pub cas_new: Option<u64>,
    /// J: the value to begin with.
    pub initial: u64,
    /// D: by how much.
    pub delta: u64,
    /// H: for how many seconds nothing may be added under a deleted key.
    pub hold_off: u32,
    /// M: the mode; 0 if none was given.
    pub(crate) mode: u8,
}

impl<'a> MetaFlags<'a> {
    /// Whether the flag occurs.
    #[inline(always)]
    pub fn has(&self, letter: u8) -> bool {
        letter.checked_sub(b'A').is_some_and(|bit| bit < 64 && self.letters & (1 << bit) != 0)
    }

    /// q: leave out the nominal reply.
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// The flags in order, each with its token.
    pub fn in_order(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        Tokens::of(self.text).filter_map(|token| token.first().map(|letter| (*letter, token)))
    }
}

/// Parses a meta command other than `mn` and `me`.
pub(crate) fn parse(verb: MetaVerb, rest: &[u8]) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let key = tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?;
    let mut length = 0;
    if verb == MetaVerb::Set {
        let token = tokens.next().ok_or(Fault::Answer(BAD_FORMAT))?;
        length = number::length(token).ok_or(Fault::Answer(BAD_FORMAT))?;
    }
    understand(verb, key, length, tokens).map_err(|text| fault(verb, length, tokens, text))
}

/// A flag that is neither a letter nor a digit takes precedence over all other faults, and no data block follows.
#[cold]
fn fault(verb: MetaVerb, length: u32, tokens: Tokens<'_>, text: &'static str) -> Fault {
    let seen = TOKENS_SEEN - before_flags(verb);
    if !may_be_flags(tokens, seen) {
        return Fault::Answer(BAD_FORMAT);
    }
    match verb {
        MetaVerb::Set => Fault::Swallow { answer: text, noreply: Noreply::No, bytes: u64::from(length) + 2 },
        _ => Fault::Answer(text),
    }
}

/// Whether a flag may begin with it: a letter, or a character between the two alphabets.
fn is_letter(byte: u8) -> bool {
    (b'A'..=b'z').contains(&byte)
}

/// Whether the first `seen` tokens may be flags. A digit is accepted here, although no flag has that name: the reply
/// then says that the flag is unknown, and the bytes that follow a length are skipped as data.
fn may_be_flags(tokens: Tokens<'_>, seen: usize) -> bool {
    tokens.take(seen).all(|token| is_letter(token[0]) || token[0].is_ascii_digit())
}

/// The number of tokens before the flags, the command's name included.
fn before_flags(verb: MetaVerb) -> usize {
    if verb == MetaVerb::Set { 3 } else { 2 }
}

/// ma's reply to any fault in its flags.
const BAD_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";

fn understand<'a>(
    verb: MetaVerb,
    key: &'a [u8],
    length: u32,
    tokens: Tokens<'a>,
) -> Result<Command<'a>, &'static str> {
    let is_arithmetic = verb == MetaVerb::Arithmetic;
    if key.len() > KEY_MAX {
        return Err(if is_arithmetic { BAD_FLAG } else { BAD_FORMAT });
    }
    if before_flags(verb) + tokens.count() > TOKENS_MAX {
        return Err(if is_arithmetic { BAD_FLAG } else { "CLIENT_ERROR options flags are too long" });
    }
    let flags = flags(tokens).map_err(|text| if is_arithmetic { BAD_FLAG } else { text })?;
    let may_hold_off = verb == MetaVerb::Delete && !flags.has(b'I') && !flags.has(b'x');
    if flags.has(b'H') && !may_hold_off {
        return Err(if is_arithmetic { BAD_FLAG } else { INVALID });
    }
    if flags.has(b'G') && !(verb == MetaVerb::Delete && is_of_prefix(&flags)) {
        return Err(if is_arithmetic { BAD_FLAG } else { INVALID });
    }
    let key = meta_key(key, &flags).map_err(|text| if is_arithmetic { BAD_FLAG } else { text })?;
    let both = MetaGet { key, flags };
    let meta = match verb {
        MetaVerb::Get => Meta::Get(both),
        MetaVerb::Delete => Meta::Delete(both),
        MetaVerb::Arithmetic => Meta::Arithmetic(both, direction(&flags)?),
        MetaVerb::Set => Meta::Set(MetaSet { key, flags, mode: mode(&flags)?, length }),
    };
    if flags.in_order().any(|(letter, token)| letter == b'O' && token.len() > OPAQUE_MAX) {
        return Err("CLIENT_ERROR opaque token too long");
    }
    match meta {
        Meta::Delete(prefix) if flags.has(b'G') => {
            Ok(Command::Server(ServerCommand::MetaFlushPrefix(prefix)))
        }
        meta => Ok(Command::Meta(meta)),
    }
}

/// Whether all flags make sense for a prefix.
fn is_of_prefix(flags: &MetaFlags<'_>) -> bool {
    flags.in_order().all(|(letter, _)| matches!(letter, b'G' | b'b' | b'k' | b'q' | b'O' | b'L' | b'P'))
}

fn meta_key<'a>(text: &'a [u8], flags: &MetaFlags<'_>) -> Result<MetaKey<'a>, &'static str> {
    let form = if flags.has(b'b') { KeyForm::Base64 } else { KeyForm::Plain };
    MetaKey::new(text, form).ok_or("CLIENT_ERROR error decoding key")
}

fn direction(flags: &MetaFlags<'_>) -> Result<Direction, &'static str> {
    match flags.mode {
        _ if !flags.has(b'M') => Ok(Direction::Up),
        b'I' | b'+' => Ok(Direction::Up),
        b'D' | b'-' => Ok(Direction::Down),
        _ => Err("CLIENT_ERROR invalid mode for ma M token"),
    }
}

fn mode(flags: &MetaFlags<'_>) -> Result<Mode, &'static str> {
    let verb = match flags.mode {
        _ if !flags.has(b'M') => Verb::Set,
        b'S' => Verb::Set,
        b'E' => Verb::Add,
        b'R' => Verb::Replace,
        b'A' => Verb::Append,
        b'P' => Verb::Prepend,
        _ => return Err("CLIENT_ERROR invalid mode for ms M token"),
    };
    Ok(Mode { verb })
}

/// The reply to a malformed number.
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

fn flags(tokens: Tokens<'_>) -> Result<MetaFlags<'_>, &'static str> {
    let mut flags = MetaFlags {
        letters: 0,
        text: tokens.rest(),
        exptime: None,
        vivify: None,
        recache: None,
        client_flags: 0,
        cas: None,
        cas_new: None,
        initial: 0,
        delta: 1,
        hold_off: 0,
        mode: 0,
    };
    // Of several malformed numbers the last is reported; any other fault precedes them.
    let mut fault = None;
    for token in tokens {
        let letter = token[0];
        // A flag that is neither letter nor digit was reported before.
        if !is_letter(letter) {
            return Err(INVALID);
        }
        if flags.has(letter) {
            return Err("CLIENT_ERROR duplicate flag");
        }
        flags.letters |= 1 << (letter - b'A');
        if let Err(text) = flags.take(letter, &token[1..]) {
            if text == INVALID {
                return Err(text);
            }
            fault = Some(text);
        }
    }
    fault.map_or(Ok(flags), Err)
}

const INVALID: &str = "CLIENT_ERROR invalid flag";

impl MetaFlags<'_> {
    fn take(&mut self, letter: u8, token: &[u8]) -> Result<(), &'static str> {
        match letter {
            b'T' => self.exptime = Some(number::exact_exptime(token).ok_or(BAD_TOKEN)?),
            b'N' => self.vivify = Some(number::exact_exptime(token).ok_or(BAD_TOKEN)?),
            b'R' => self.recache = Some(number::exact_exptime(token).ok_or(BAD_TOKEN)?),
            b'F' => self.client_flags = number::exact_u32(token).ok_or(BAD_FORMAT)?,
            b'C' => self.cas = Some(number::exact_u64(token).ok_or(BAD_TOKEN)?),
            b'E' => self.cas_new = Some(number::exact_u64(token).ok_or(BAD_TOKEN)?),
            b'J' => {
                self.initial = number::exact_u64(token).ok_or("CLIENT_ERROR invalid numeric initial value")?
            }
            b'D' => {
                self.delta = number::exact_u64(token).ok_or("CLIENT_ERROR invalid numeric delta value")?
            }
            b'H' => self.hold_off = number::exact_u32(token).ok_or(BAD_TOKEN)?,
            b'M' => self.mode = token.first().copied().unwrap_or(0),
            b'G' | b'O' | b'P' | b'L' | b'I' | b'b' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's'
            | b't' | b'u' | b'v' | b'x' => {}
            _ => return Err(INVALID),
        }
        Ok(())
    }
}

/// Parses `me <key> [b]`.
pub(crate) fn debug(rest: &[u8]) -> Result<Command<'_>, Fault> {
    let mut tokens = Tokens::of(rest);
    let text = tokens.next().filter(|key| key.len() <= KEY_MAX).ok_or(Fault::Answer(BAD_FORMAT))?;
    if !may_be_flags(tokens, TOKENS_SEEN - 2) {
        return Err(Fault::Answer(BAD_FORMAT));
    }
    let form = if tokens.next() == Some(b"b") { KeyForm::Base64 } else { KeyForm::Plain };
    MetaKey::new(text, form).map(Command::MetaDebug).ok_or(Fault::Answer(BAD_FORMAT))
}

#[cfg(test)]
mod tests;
