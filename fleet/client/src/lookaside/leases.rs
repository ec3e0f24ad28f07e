//! Leases of a server: by its own commands, or by memcached's meta commands.

use std::fmt::Write;

use guira_protocol::number_from;

use super::links::{CacheError, Link};
use super::value::Item;

/// Keys of one round trip. More are asked for one batch after the other, so that neither side waits for the other to read.
pub(super) const BATCH: usize = 64;

/// The most bytes of keys in a line.
const LINE_MAX: usize = 1000;

/// The key by which a server is asked whether it knows lease-get.
const PROBE: &str = "guira-client-asks";

/// The longest value that is sent, in bytes: servers have none that are longer. A number that is too large for theirs would be refused as a
/// bad line, and the value behind it taken for commands.
const VALUE_MAX: usize = 1 << 30;

/// By which commands a server gives leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leases {
    /// `lease-get` and `lease-set`: Guira's nodes, and routers.
    Native,
    /// `mg` with N, and `ms` with C: memcached since 1.6.10.
    Meta,
}

/// The right to fill a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    leases: Leases,
    number: u64,
}

impl Token {
    #[cfg(test)]
    pub(super) fn of_memcached(number: u64) -> Self {
        Self { leases: Leases::Meta, number }
    }

    /// Whether it is good for the connection only that it was given over. memcached begins to count its cas uniques anew when it is
    /// started anew, so another one may have given the same number to somebody else; as long as a connection lasts it is the same.
    pub(super) fn is_of_connection(self) -> bool {
        self.leases == Leases::Meta
    }
}

/// What the cache says about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Item(Item),
    /// This client is to fill it. There may be a stale item.
    Token(Token, Option<Item>),
    /// Another client fills it.
    Taken(Option<Item>),
    /// No answer, or an error.
    Nothing,
}

/// What is to be stored.
#[derive(Clone, Debug)]
pub(super) struct Store<'k> {
    pub(super) key: &'k str,
    pub(super) token: Token,
    pub(super) item: Item,
    /// How long it lives.
    pub(super) seconds: u64,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Yes,
    /// The token is void.
    Refused,
    Failed,
}

/// By which commands the server of a connection gives leases. A router tells a token of 0 when a server has failed, perhaps since it
/// knows no lease-get. A value that comes with a command that a server does not know would be
/// taken for commands, so each connection is asked. memcached before 1.6.10 has another `ms`, whose value it would take for commands too, and says
/// OK where later ones say HD.
pub(super) fn of_link(link: &mut Link) -> Result<Leases, CacheError> {
    if let Some(leases) = link.leases {
        return Ok(leases);
    }
    link.connection.ask(format!("lease-get {PROBE}\r\nmg {PROBE} N{INTERVAL_S}\r\nmn\r\n").as_bytes())?;
    let said = link.connection.line()?.to_vec();
    let told = length_of(&said, b"VALUE ", 3).or_else(|| length_of(&said, b"LVALUE ", 4));
    let is_native = told.is_some() && !said.starts_with(b"LVALUE guira-client-asks 0 ");
    if let Some(length) = told {
        link.connection.block(length)?;
        if link.connection.line()? != b"END" {
            return Err(CacheError::unexpected(&said));
        }
    }
    let meta = link.connection.line()?.to_vec();
    let is_known = ["HD", "EN", "SERVER_ERROR"].iter().any(|begin| meta.starts_with(begin.as_bytes()));
    let knows_meta = link.connection.line()? == b"MN" && is_known;
    let leases = match (is_native, knows_meta) {
        (true, _) => Leases::Native,
        (false, true) => Leases::Meta,
        (false, false) => return Err(CacheError::NoLeases(meta.escape_ascii().to_string())),
    };
    link.leases = Some(leases);
    Ok(leases)
}

/// The last of so many words behind the beginning of a line.
fn length_of(line: &[u8], begin: &[u8], words: usize) -> Option<usize> {
    let words_of: Vec<&[u8]> = line.strip_prefix(begin)?.split(|byte| *byte == b' ').collect();
    words_of.last().filter(|_| words_of.len() == words).and_then(|word| number(word))
}

fn number<T: TryFrom<u64>>(word: &[u8]) -> Option<T> {
    number_from(word).and_then(|number| T::try_from(number).ok())
}

/// Asks for keys. What has come before an error is in `got` too.
pub(super) fn get(link: &mut Link, keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let leases = of_link(link)?;
    for batch in keys.chunks(BATCH) {
        match leases {
            Leases::Native => get_native(link, batch, got)?,
            Leases::Meta => get_by_meta(link, batch, got)?,
        }
    }
    Ok(())
}

fn get_native(link: &mut Link, mut keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let (mut request, mut lines) = (String::new(), Vec::new());
    while !keys.is_empty() {
        let mut length = 0;
        let fits = |key: &&&str| {
            length += key.len() + 1;
            length <= LINE_MAX
        };
        let (line, rest) = keys.split_at(keys.iter().take_while(fits).count());
        // Writing to a String does not fail.
        let _ = write!(request, "lease-get {}\r\n", line.join(" "));
        lines.push(line);
        keys = rest;
    }
    link.connection.ask(request.as_bytes())?;
    for line in lines {
        hear_native(link, line, got)?;
    }
    Ok(())
}

/// The answer to one line of keys.
fn hear_native(link: &mut Link, keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let first = got.len();
    let complete = first + keys.len();
    loop {
        let line = link.connection.line()?;
        if line == b"END" || line.starts_with(b"SERVER_ERROR") {
            // Keys without an answer are those of servers that a router does not reach.
            got.resize(complete, Got::Nothing);
            return Ok(());
        }
        let unexpected = CacheError::unexpected(line);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (key, token, flags, length) = match words[..] {
            [b"VALUE", key, flags, length] => (key, None, flags, length),
            [b"LVALUE", key, token, flags, length] => (key, Some(token), flags, length),
            _ => return Err(unexpected),
        };
        let place = keys[got.len() - first..].iter().position(|asked| asked.as_bytes() == key);
        let token = token.map(number::<u64>);
        let (Some(skipped), Some(flags), Some(length)) = (place, number(flags), number(length)) else {
            return Err(unexpected);
        };
        if token == Some(None) {
            return Err(unexpected);
        }
        got.resize(got.len() + skipped, Got::Nothing);
        let item = Item { flags, data: link.connection.block(length)? };
        let stale = |item: Item| (!item.data.is_empty() || item.flags != 0).then_some(item);
        got.push(match token.flatten() {
            None => Got::Item(item),
            // What a router says that does not reach the server.
            Some(0) => Got::Nothing,
            Some(1) => Got::Taken(stale(item)),
            Some(number) => Got::Token(Token { leases: Leases::Native, number }, stale(item)),
        });
    }
}

/// Another client may fill a key after so many seconds.
const INTERVAL_S: u32 = 10;

fn get_by_meta(link: &mut Link, keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let request: String = keys.iter().map(|key| format!("mg {key} v f c N{INTERVAL_S}\r\n")).collect();
    link.connection.ask(request.as_bytes())?;
    for _ in keys {
        got.push(hear_meta(link)?);
    }
    Ok(())
}

fn hear_meta(link: &mut Link) -> Result<Got, CacheError> {
    let line = link.connection.line()?;
    if line == b"EN" || line.starts_with(b"SERVER_ERROR") {
        return Ok(Got::Nothing);
    }
    let unexpected = CacheError::unexpected(line);
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(b"VA"), Some(length)) = (words.next(), words.next().and_then(number)) else {
        return Err(unexpected);
    };
    let (mut flags, mut unique, mut wins, mut is_taken, mut is_stale) = (None, None, false, false, false);
    for word in words {
        match word {
            b"W" => wins = true,
            b"Z" => is_taken = true,
            b"X" => is_stale = true,
            [b'f', digits @ ..] => flags = number(digits),
            [b'c', digits @ ..] => unique = number(digits),
            _ => {}
        }
    }
    let (Some(flags), Some(number)) = (flags, unique) else { return Err(unexpected) };
    let item = Item { flags, data: link.connection.block(length)? };
    let is_empty = item.data.is_empty() && item.flags == 0;
    let token = Token { leases: Leases::Meta, number };
    Ok(match (wins, is_taken, is_stale) {
        // A server without cas uniques would take any store.
        (true, ..) if number == 0 => Got::Nothing,
        (true, _, true) => Got::Token(token, Some(item)),
        (true, ..) => Got::Token(token, None),
        (_, true, true) => Got::Taken(Some(item)),
        (_, true, _) if is_empty => Got::Taken(None),
        // Fresh, though somebody renews it already.
        _ => Got::Item(item),
    })
}

/// Stores what tokens were given for. What a token was given for by other commands than this server's is refused.
/// What is longer than any server has is not sent.
pub(super) fn set(link: &mut Link, stores: &[Store<'_>]) -> Result<Vec<Stored>, CacheError> {
    let leases = of_link(link)?;
    let (mut request, mut stored) = (Vec::new(), Vec::with_capacity(stores.len()));
    let is_sent = |store: &&Store<'_>| store.token.leases == leases && store.item.data.len() <= VALUE_MAX;
    for Store { key, token, item, seconds } in stores.iter().filter(is_sent) {
        let (number, flags, length) = (token.number, item.flags, item.data.len());
        let line = match leases {
            Leases::Native => format!("lease-set {key} {number} {flags} {seconds} {length}\r\n"),
            Leases::Meta => format!("ms {key} {length} F{flags} T{seconds} C{number}\r\n"),
        };
        request.extend_from_slice(line.as_bytes());
        request.extend_from_slice(&item.data);
        request.extend_from_slice(b"\r\n");
    }
    if !request.is_empty() {
        link.connection.ask(&request)?;
    }
    for store in stores {
        stored.push(if is_sent(&store) {
            let line = link.connection.line()?;
            match line {
                b"STORED" | b"HD" => Stored::Yes,
                b"NOT_STORED" | b"STALE_STORED" | b"EX" | b"NF" | b"NS" => Stored::Refused,
                _ if line.starts_with(b"SERVER_ERROR") => Stored::Failed,
                _ => return Err(CacheError::unexpected(line)),
            }
        } else if store.token.leases == leases {
            Stored::Failed
        } else {
            Stored::Refused
        });
    }
    Ok(stored)
}

/// Gives tokens back, so that others need not wait until the interval is over. A token that a router has made of a cas unique is not one
/// itself: then this does nothing.
pub(super) fn give_back(link: &mut Link, tokens: &[(&str, Token)]) -> Result<(), CacheError> {
    for batch in tokens.chunks(BATCH) {
        let request: String =
            batch.iter().map(|(key, token)| format!("md {key} C{}\r\n", token.number)).collect();
        link.connection.ask(request.as_bytes())?;
        batch.iter().try_for_each(|_| link.connection.line().map(|_| ()))?;
    }
    Ok(())
}

/// Deletes keys; tells of each whether that was acknowledged.
pub(super) fn delete(link: &mut Link, keys: &[&str]) -> Result<Vec<bool>, CacheError> {
    let mut deleted = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let request: String = batch.iter().map(|key| format!("delete {key}\r\n")).collect();
        link.connection.ask(request.as_bytes())?;
        for _ in batch {
            deleted.push(matches!(link.connection.line()?, b"DELETED" | b"NOT_FOUND"));
        }
    }
    Ok(deleted)
}
