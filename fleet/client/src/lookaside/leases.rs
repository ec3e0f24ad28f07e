//! Leases of a server: by its own commands, or by memcached's meta commands.

use guira_protocol::client::{self, Failure, MetaReply, Reply, failure};
use guira_protocol::word::reply;
use guira_protocol::{GetForm, MetaVerb, Verb};

use super::links::{CacheError, Link};
use super::value::Item;

/// The keys of one round trip. More keys are sent in batches, so that neither side waits for the
/// other to read.
pub(super) const BATCH: usize = 64;

/// The most bytes of keys in a line.
const LINE_MAX: usize = 1000;

/// The key of the request that checks whether a server supports lease-get.
const PROBE: &[u8] = b"guira-client-asks";

/// The longest value that is sent, in bytes; servers store none that are longer. A server refuses a
/// larger number as a bad line, and would take the value behind it for commands.
const VALUE_MAX: usize = 1 << 30;

/// The commands by which a server gives leases.
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

    /// Whether the token is valid only on the connection that it was given over. After a restart
    /// memcached counts its cas uniques from the start, and may give another client the same
    /// number; a connection ends with a restart.
    pub(super) fn is_of_connection(self) -> bool {
        self.leases == Leases::Meta
    }
}

/// The cache's reply about a key.
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

#[derive(Clone, Debug)]
pub(super) struct Store<'k> {
    pub(super) key: &'k str,
    pub(super) token: Token,
    pub(super) item: Item,
    pub(super) seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Yes,
    /// The token is void.
    Refused,
    Failed,
}

/// The commands by which the server of a connection gives leases. A router returns a token of 0
/// when a server has failed, perhaps because it does not support lease-get. A server would take the
/// value of an unknown command for commands, so each connection is probed first. memcached before
/// 1.6.10 has another `ms`, whose value it would take for commands too, and replies OK where later
/// ones reply HD.
pub(super) fn of_link(link: &mut Link) -> Result<Leases, CacheError> {
    if let Some(leases) = link.leases {
        return Ok(leases);
    }
    let mut request = Vec::new();
    client::get(GetForm::Lease, [PROBE], &mut request);
    client::meta(MetaVerb::Get, PROBE, &mut request).number(b'N', INTERVAL_S).end();
    request.extend_from_slice(client::META_NOOP);
    link.connection.send_batch(&request)?;
    let received = match link.connection.reply()? {
        Reply::Value(value) => Some(value),
        Reply::Lease(value) => Some(value),
        _ => None,
    };
    let is_native = received.is_some_and(|value| value.number != Some(0));
    if received.is_some() {
        let end = link.connection.reply()?;
        if end != Reply::End {
            return Err(CacheError::unexpected(&end));
        }
    }
    let meta = link.connection.reply()?.line().to_vec();
    let is_known =
        [reply::META_DONE, reply::META_MISS].contains(&MetaReply::of(&meta).code) || is_failure(&meta);
    let knows_meta = link.connection.reply()? == Reply::Line(reply::META_NOOP) && is_known;
    let leases = match (is_native, knows_meta) {
        (true, _) => Leases::Native,
        (false, true) => Leases::Meta,
        (false, false) => return Err(CacheError::NoLeases(meta.escape_ascii().to_string())),
    };
    link.leases = Some(leases);
    Ok(leases)
}

/// Whether a server could not do something now.
fn is_failure(line: &[u8]) -> bool {
    matches!(failure(line), Some(Failure::Server(_)))
}

/// Reads keys. After an error, `got` has the replies before it.
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
    let (mut request, mut lines) = (Vec::new(), Vec::new());
    while !keys.is_empty() {
        let mut length = 0;
        let fits = |key: &&&str| {
            length += key.len() + 1;
            length <= LINE_MAX
        };
        let (line, rest) = keys.split_at(keys.iter().take_while(fits).count());
        client::get(GetForm::Lease, line.iter().map(|key| key.as_bytes()), &mut request);
        lines.push(line);
        keys = rest;
    }
    link.connection.send_batch(&request)?;
    for line in lines {
        receive_native(link, line, got)?;
    }
    Ok(())
}

/// The answer to one line of keys.
fn receive_native(link: &mut Link, keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let first = got.len();
    let complete = first + keys.len();
    loop {
        let (value, token) = match link.connection.reply()? {
            Reply::Value(value) if value.number.is_none() => (value, None),
            Reply::Lease(value) => (value, value.number),
            other if other == Reply::End || is_failure(other.line()) => {
                // Keys without an answer are those of servers that a router does not reach.
                got.resize(complete, Got::Nothing);
                return Ok(());
            }
            other => return Err(CacheError::unexpected(&other)),
        };
        let place = keys[got.len() - first..].iter().position(|requested| requested.as_bytes() == value.key);
        let skipped = place.ok_or_else(|| CacheError::unexpected(&Reply::Value(value)))?;
        got.resize(got.len() + skipped, Got::Nothing);
        let flags = u32::try_from(value.flags);
        let flags = flags.map_err(|_| CacheError::unexpected(&Reply::Value(value)))?;
        let item = Item { flags, data: value.value.to_vec() };
        let stale = |item: Item| (!item.data.is_empty() || item.flags != 0).then_some(item);
        got.push(match token {
            None => Got::Item(item),
            // The reply of a router that cannot reach the server.
            Some(0) => Got::Nothing,
            Some(1) => Got::Taken(stale(item)),
            Some(number) => Got::Token(Token { leases: Leases::Native, number }, stale(item)),
        });
    }
}

/// Another client may fill a key after this many seconds.
const INTERVAL_S: u32 = 10;

fn get_by_meta(link: &mut Link, keys: &[&str], got: &mut Vec<Got>) -> Result<(), CacheError> {
    let mut request = Vec::new();
    for key in keys {
        let line = client::meta(MetaVerb::Get, key.as_bytes(), &mut request);
        line.flags(b"v f c").number(b'N', INTERVAL_S).end();
    }
    link.connection.send_batch(&request)?;
    for _ in keys {
        got.push(receive_meta(link)?);
    }
    Ok(())
}

fn receive_meta(link: &mut Link) -> Result<Got, CacheError> {
    let reply = link.connection.reply()?;
    let (line, value) = match reply {
        Reply::MetaValue { line, value } => (MetaReply::of(line), value),
        Reply::Line(line) if line == reply::META_MISS || is_failure(line) => return Ok(Got::Nothing),
        other => return Err(CacheError::unexpected(&other)),
    };
    let flags = line.number(b'f').and_then(|flags| u32::try_from(flags).ok());
    let (Some(flags), Some(number)) = (flags, line.number(b'c')) else {
        return Err(CacheError::unexpected(&reply));
    };
    let (wins, is_taken, is_stale) = (line.has(b'W'), line.has(b'Z'), line.has(b'X'));
    let item = Item { flags, data: value.to_vec() };
    let is_empty = item.data.is_empty() && item.flags == 0;
    let token = Token { leases: Leases::Meta, number };
    Ok(match (wins, is_taken, is_stale) {
        // A server without cas uniques would take any store.
        (true, ..) if number == 0 => Got::Nothing,
        (true, _, true) => Got::Token(token, Some(item)),
        (true, ..) => Got::Token(token, None),
        (_, true, true) => Got::Taken(Some(item)),
        (_, true, _) if is_empty => Got::Taken(None),
        // Fresh, though another client renews it already.
        _ => Got::Item(item),
    })
}

/// Stores values with their tokens. A token from other commands than this server's is refused, and
/// so is a value that is longer than any server accepts.
pub(super) fn set(link: &mut Link, stores: &[Store<'_>]) -> Result<Vec<Stored>, CacheError> {
    let leases = of_link(link)?;
    let (mut request, mut stored) = (Vec::new(), Vec::with_capacity(stores.len()));
    let is_sent = |store: &&Store<'_>| store.token.leases == leases && store.item.data.len() <= VALUE_MAX;
    for Store { key, token, item, seconds } in stores.iter().filter(is_sent) {
        let (key, value, out) = (key.as_bytes(), &item.data[..], &mut request);
        match leases {
            Leases::Native => {
                let exptime = i64::try_from(*seconds).unwrap_or(i64::MAX);
                let item = client::Item { flags: item.flags.into(), exptime, value };
                client::store(Verb::Lease(token.number), key, item, out);
            }
            Leases::Meta => {
                let line = client::meta_store(key, value.len(), out).number(b'F', item.flags);
                line.number(b'T', *seconds).number(b'C', token.number).end_with(value);
            }
        }
    }
    if !request.is_empty() {
        link.connection.send_batch(&request)?;
    }
    for store in stores {
        stored.push(if is_sent(&store) {
            match link.connection.reply()? {
                Reply::Line(reply::STORED | reply::META_DONE) => Stored::Yes,
                Reply::Line(reply::NOT_STORED | reply::STALE_STORED) => Stored::Refused,
                Reply::Line(reply::META_EXISTS | reply::META_NOT_FOUND | reply::META_NOT_STORED) => {
                    Stored::Refused
                }
                Reply::Line(line) if is_failure(line) => Stored::Failed,
                other => return Err(CacheError::unexpected(&other)),
            }
        } else if store.token.leases == leases {
            Stored::Failed
        } else {
            Stored::Refused
        });
    }
    Ok(stored)
}

/// Gives tokens back, so that other clients need not wait for the end of the interval. A token that
/// a router made from a cas unique is not a unique itself: then this has no effect.
pub(super) fn give_back(link: &mut Link, tokens: &[(&str, Token)]) -> Result<(), CacheError> {
    for batch in tokens.chunks(BATCH) {
        let mut request = Vec::new();
        for (key, token) in batch {
            client::meta(MetaVerb::Delete, key.as_bytes(), &mut request).number(b'C', token.number).end();
        }
        link.connection.send_batch(&request)?;
        batch.iter().try_for_each(|_| link.connection.reply().map(|_| ()))?;
    }
    Ok(())
}

/// Deletes keys; returns for each whether the delete was acknowledged.
pub(super) fn delete(link: &mut Link, keys: &[&str]) -> Result<Vec<bool>, CacheError> {
    let mut deleted = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let mut request = Vec::new();
        batch.iter().for_each(|key| client::delete(key.as_bytes(), 0, &mut request));
        link.connection.send_batch(&request)?;
        for _ in batch {
            let reply = link.connection.reply()?;
            deleted.push(matches!(reply, Reply::Line(reply::DELETED | reply::NOT_FOUND)));
        }
    }
    Ok(deleted)
}
