//! The reader of one cluster's caches: a thread that disturbs them as little as possible.
//!
//! `mg KEY f v u` does not make an item more recent (`u`), and requests no cas unique, which the
//! server might have to assign first. It counts as a get. For an item that is stale, or that a
//! client is to fill, it may win the right to fill it (`W`), which is given back at once.

use crate::counters::{ClusterCount, ClusterCounts, Health};
use crate::judge::Tag;
use crate::reply::Reply;
use crate::sight::{Cached, Content};
use guira_client::text::{Connection, Target, TextError};
use guira_sql::reload;

use guira_protocol::client::{self, Failure, MetaReply, failure};
use guira_protocol::word::reply;
use guira_protocol::{GetForm, MetaVerb, Unique};
use guira_sync::channel::{Receiver, Sender};
use serde::Deserialize;
use std::sync::Arc;

const TOGETHER: usize = 64;
/// The longest value that is read, in bytes.
const VALUE_MAX: u32 = 64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dialect {
    #[default]
    Meta,
    /// `get KEY`: it makes items more recent, and does not show whether they are stale.
    Classic,
}

/// A cluster, and the channel for its replies.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) dialect: Dialect,
    /// A prefix of every key.
    pub(crate) prefix: String,
    pub(crate) counts: Arc<ClusterCounts>,
    pub(crate) replies: Sender<Reply>,
}

pub(crate) type KeyRequest = (Tag, Box<[u8]>);

impl Cluster {
    /// Reads keys until no more requests can come.
    pub(crate) fn run(self, requests: &Receiver<KeyRequest>) {
        let mut connection = None;
        while let Ok(first) = requests.recv() {
            let batch: Vec<KeyRequest> =
                [first].into_iter().chain(requests.try_iter().take(TOGETHER - 1)).collect();
            let mut found = Vec::new();
            let read = self.read(&mut connection, &batch, &mut found);
            let health = if read.is_ok() { Health::Up } else { Health::Down };
            let before = self.counts.set_up(health);
            if let Err(error) = read {
                // Replies that are still to come are for other keys.
                connection = None;
                if before == Health::Up || self.counts.get(ClusterCount::Failures) == 0 {
                    // Operator: Check that the cluster's address answers. Its keys are counted as unknown
                    // until then.
                    tracing::warn!("cannot query cluster {}: {error}", self.name);
                }
            }
            self.counts.add(ClusterCount::Reads, batch.len() as u64);
            found.resize(batch.len(), Cached::Failed);
            let failed = found.iter().filter(|cached| **cached == Cached::Failed).count();
            self.counts.add(ClusterCount::Failures, failed as u64);
            for ((tag, _), cached) in batch.into_iter().zip(found) {
                if self.replies.send(Reply::Cache { tag, cluster: self.number, cached }).is_err() {
                    return;
                }
            }
        }
    }

    /// Connects with the certificates that the files have now.
    fn connect(&self) -> Result<Connection, TextError> {
        self.target.connector().map(reload);
        Connection::open(&self.target)
    }

    fn read(
        &self,
        connection: &mut Option<Connection>,
        batch: &[KeyRequest],
        found: &mut Vec<Cached>,
    ) -> Result<(), TextError> {
        let connection = match connection {
            Some(open) => open,
            None => connection.insert(self.connect()?),
        };
        let (mut requests, mut name) = (Vec::new(), Vec::new());
        for (_, key) in batch {
            self.name_of(key, &mut name);
            match self.dialect {
                Dialect::Meta => client::meta(MetaVerb::Get, &name, &mut requests).flags(b"f v u").end(),
                Dialect::Classic => client::get(GetForm::Plain(Unique::Omitted), [&name[..]], &mut requests),
            }
        }
        connection.send(&requests)?;
        let mut won = Vec::new();
        for (_, key) in batch {
            let Some(cached) = (match self.dialect {
                Dialect::Meta => meta(connection, || won.push(key))?,
                Dialect::Classic => classic(connection)?,
            }) else {
                return Err(TextError::Closed);
            };
            found.push(cached);
        }
        for key in won {
            self.give_back(connection, key)?;
        }
        Ok(())
    }

    /// The key as the cluster has it, with the prefix.
    fn name_of(&self, key: &[u8], name: &mut Vec<u8>) {
        name.clear();
        name.extend_from_slice(self.prefix.as_bytes());
        name.extend_from_slice(key);
    }

    /// Gives back the right to fill an item that `mg` has won: marks a stale item again, and
    /// removes a missing one.
    fn give_back(&self, connection: &mut Connection, key: &[u8]) -> Result<(), TextError> {
        let (mut request, mut name) = (Vec::new(), Vec::new());
        self.name_of(key, &mut name);
        client::meta(MetaVerb::Get, &name, &mut request).flags(b"c u").end();
        connection.send(&request)?;
        let reply = connection.reply()?;
        let line = MetaReply::of(reply.line());
        // With the unique: another client may have stored a value in between.
        if let (true, Some(unique)) = (line.has(b'Z'), line.number(b'c')) {
            request.clear();
            let delete = client::meta(MetaVerb::Delete, &name, &mut request);
            let delete = if line.has(b'X') { delete.flags(b"I") } else { delete };
            delete.number(b'C', unique).end();
            connection.send(&request)?;
            connection.reply()?;
        }
        self.counts.add(ClusterCount::GivenBack, 1);
        Ok(())
    }
}

/// Interprets a reply without a value; `None` if it is no reply to a get. A failure, such as of a
/// router whose server is down, concerns one key: the replies behind it are for others.
fn without_value(reply: &client::Reply<'_>) -> Option<Cached> {
    match *reply {
        client::Reply::End | client::Reply::Line(reply::META_MISS) => Some(Cached::Miss),
        client::Reply::Line(line) => match failure(line)? {
            Failure::Client(_) | Failure::Server(_) => Some(Cached::Failed),
            Failure::Unknown => None,
        },
        _ => None,
    }
}

/// Reads a reply to `mg`; `None` if it is malformed.
fn meta(connection: &mut Connection, won: impl FnOnce()) -> Result<Option<Cached>, TextError> {
    let (line, value) = match connection.reply_up_to(VALUE_MAX)? {
        client::Reply::MetaValue { line, value } => (MetaReply::of(line), value),
        client::Reply::End => return Ok(None),
        other => return Ok(without_value(&other)),
    };
    let Some(flags) = line.number(b'f') else { return Ok(None) };
    let is_won = line.has(b'W');
    if is_won {
        won();
    }
    // An item without a value is one that a client is to fill.
    let is_empty = value.is_empty() && (is_won || line.has(b'Z'));
    Ok(Some(if line.has(b'X') || is_empty { Cached::Miss } else { item(flags, value) }))
}

/// Reads a reply to `get`; `None` if it is malformed.
fn classic(connection: &mut Connection) -> Result<Option<Cached>, TextError> {
    let value = match connection.reply_up_to(VALUE_MAX)? {
        client::Reply::Value(value) => value,
        client::Reply::Line(reply::META_MISS) => return Ok(None),
        other => return Ok(without_value(&other)),
    };
    let item = item(value.flags, value.value);
    Ok((connection.reply()? == client::Reply::End).then_some(item))
}

/// An item of the look-aside client has flags of 32 bits.
fn item(flags: u64, value: &[u8]) -> Cached {
    u32::try_from(flags).map_or(Cached::Failed, |flags| Cached::Item(Content::of_item(flags, value.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::channel::channel;
    use guira_transport::net::TcpListener;
    use std::io::{Read, Write};
    use std::time::Duration;

    /// What a cluster is said to have under three keys when its cache answers this.
    fn cached_after(dialect: Dialect, answers: &'static str) -> (Vec<Cached>, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string().parse().unwrap();
        let cache = guira_sync::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut requests = Vec::new();
            while requests.iter().filter(|byte| **byte == b'\n').count() < 3 {
                let mut bytes = [0; 100];
                let length = socket.read(&mut bytes).unwrap();
                requests.extend_from_slice(&bytes[..length]);
            }
            socket.write_all(answers.as_bytes()).unwrap();
        });
        let target = Target::new(endpoint, Duration::from_secs(30));
        let ((sender, requests), (replies, received), counts) =
            (channel(), channel(), Arc::<ClusterCounts>::default());
        let (name, prefix) = ("east".to_owned(), String::new());
        let cluster = Cluster { number: 0, name, target, dialect, prefix, counts: counts.clone(), replies };
        for key in [&b"a"[..], b"b", b"c"] {
            sender.send((Tag::default(), key.into())).unwrap();
        }
        drop(sender);
        cluster.run(&requests);
        cache.join().unwrap();
        let cached = received.iter().map(|reply| match reply {
            Reply::Cache { cached, .. } => cached,
            other => panic!("{other:?}"),
        });
        (cached.collect(), counts.get(ClusterCount::Failures))
    }

    #[test]
    fn a_key_that_is_refused_says_nothing_of_the_others() {
        let item = || Cached::Item(Content::of_item(0, b"x".to_vec()));
        let expected = (vec![Cached::Miss, Cached::Failed, item()], 1);
        let answers = "EN\r\nSERVER_ERROR unavailable\r\nVA 1 f0\r\nx\r\n";
        assert_eq!(cached_after(Dialect::Meta, answers), expected);
        let answers = "END\r\nCLIENT_ERROR bad command line format\r\nVALUE c 0 1\r\nx\r\nEND\r\n";
        assert_eq!(cached_after(Dialect::Classic, answers), expected);
    }

    #[test]
    fn what_is_no_answer_ends_what_is_known() {
        let expected = (vec![Cached::Miss, Cached::Failed, Cached::Failed], 2);
        assert_eq!(cached_after(Dialect::Meta, "EN\r\nERROR\r\nEN\r\n"), expected);
        assert_eq!(cached_after(Dialect::Classic, "END\r\nnonsense\r\nEND\r\n"), expected);
    }
}
