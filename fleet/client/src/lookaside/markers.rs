//! Remote markers: which keys a region has written whose changes have not come back to its replica yet.
//!
//! ```text
//! r:<id>     a write on its way, until the invalidator of this region deletes it, since it is named in the statement
//! r::<key>   the ids of writes of a key: "<id>,<id>,…"; empty while it settles
//! ```
//!
//! Each writer has a marker of its own, so that an arrived change does not remove another writer's
//! marker. A writer first sets its marker and then adds its id to the list: an id without a marker
//! has arrived. A reader of such a list removes the id by the list's cas unique, so that ids which
//! were added in between stay. A list whose ids have all arrived stays for a settling time: the log
//! of a replica may report a change a moment before its readers see it.

use std::collections::HashMap;
use std::time::Duration;

use guira_protocol::MetaVerb;
use guira_protocol::client::{self, Failure, MetaReply, Reply, failure};
use guira_protocol::word::reply;
use guira_sync::simulated::is_planted;

use super::database::Database;
use super::key;
use super::leases::BATCH;
use super::links::{CacheError, Link, Links, Urgency};
use super::random::Random;
use crate::text::Target;

/// The longest key of which a list is named; keys that are longer share the list of their beginning.
const KEY_MAX: usize = 247;

/// The most ids that are read of one list, the oldest first.
const IDS_MAX: usize = 4096;

/// The most arrived ids that are removed from a list in which others stay.
const ARRIVED_MAX: usize = 16;

/// The most attempts to change a list that other clients change.
const TRIES: usize = 4;

/// The remote markers of a replica region, in a pool that all its clients use (*Scaling Memcache at Facebook*, section 5).
///
/// The pool must not evict: a marker that is lost lets its writer read the old row. Give it a server of its own, memcached with `-M` or a node with
/// `--disable-evictions`, or a route of the prefix `r:`; each write takes two small items.
#[derive(Debug)]
pub struct Markers {
    links: Links,
    limit: Duration,
    settling: Duration,
    unreachable: Database,
}

/// The marks of a write.
#[derive(Debug)]
pub(super) struct Mark {
    /// The key of the marker, which the statement names.
    pub(super) key: String,
    pub(super) is_whole: bool,
}

impl Markers {
    /// Markers at `target`: a Guira node, a router, or memcached 1.6.10 or later, by meta commands.
    #[must_use]
    pub fn at(target: Target) -> Self {
        Self {
            links: Links::new(target),
            limit: Duration::from_secs(600),
            settling: Duration::from_secs(2),
            unreachable: Database::Master,
        }
    }

    /// Sets the lifetime of markers whose writer has died or failed. By default 10 minutes; whole
    /// seconds. A replica with a longer lag lets writers read old rows.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the time for which reads go to the master after a change has arrived, plus up to a
    /// second. By default 2 s. It has to exceed the time from the invalidator's reading of a change
    /// until all replicas show it.
    #[must_use]
    pub fn settling(mut self, settling: Duration) -> Self {
        self.settling = settling;
        self
    }

    /// Sets the database to read from while the markers are unreachable: by default the master,
    /// which then serves all misses of the region; the nearest database may show a writer an old
    /// row.
    #[must_use]
    pub fn when_unreachable(mut self, database: Database) -> Self {
        self.unreachable = database;
        self
    }

    /// Marks keys before they are written.
    pub(super) fn mark(&self, keys: &[&str], random: &Random) -> Mark {
        let id = format!("{:016x}", random.bits());
        let key = marker(&id);
        let is_whole = self.links.with(Urgency::Needed, |link| self.set(link, &key, &id, keys));
        Mark { key, is_whole: is_whole.unwrap_or(false) }
    }

    fn set(&self, link: &mut Link, key: &str, id: &str, keys: &[&str]) -> Result<bool, CacheError> {
        let seconds = seconds(self.limit);
        let mut request = Vec::new();
        client::meta_store(key.as_bytes(), 1, &mut request).number(b'T', seconds).end_with(b"1");
        link.connection.send_batch(&request)?;
        if !is_done(link)? {
            return Ok(false);
        }
        let mut lists: Vec<String> = keys.iter().map(|key| list(key)).collect();
        for mode in [Mode::Append, Mode::Add].into_iter().cycle().take(2 * TRIES) {
            let mut left = Vec::new();
            for batch in lists.chunks(BATCH) {
                left.extend(add(link, batch, id, seconds, mode)?);
            }
            if left.is_empty() {
                return Ok(true);
            }
            lists = left;
        }
        Ok(false)
    }

    /// The database to read each of these keys from; `Err` is the database for all of them, since
    /// the pool did not reply.
    pub(super) fn database_of(&self, keys: &[&str]) -> Result<Vec<Database>, Database> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.links.with(Urgency::Optional, |link| {
            let mut found = Vec::with_capacity(keys.len());
            for batch in keys.chunks(BATCH) {
                self.look(link, batch, &mut found)?;
            }
            Ok(found)
        });
        found.map_err(|_| self.unreachable)
    }

    fn look(&self, link: &mut Link, keys: &[&str], found: &mut Vec<Database>) -> Result<(), CacheError> {
        let names: Vec<String> = keys.iter().map(|key| list(key)).collect();
        let mut request = Vec::new();
        for name in &names {
            client::meta(MetaVerb::Get, name.as_bytes(), &mut request).flags(b"v c").end();
        }
        link.connection.send_batch(&request)?;
        let lists = names.iter().map(|_| receive_list(link)).collect::<Result<Vec<_>, _>>()?;
        let mut arrived = HashMap::new();
        let ids = lists.iter().flatten().flat_map(List::ids).take(IDS_MAX);
        let ids: Vec<&str> = ids.filter(|id| arrived.insert(*id, false).is_none()).collect();
        for batch in ids.chunks(BATCH) {
            request.clear();
            for id in batch {
                client::meta(MetaVerb::Get, marker(id).as_bytes(), &mut request).end();
            }
            link.connection.send_batch(&request)?;
            for id in batch {
                match link.connection.reply()? {
                    Reply::Line(reply::META_DONE) => {}
                    Reply::Line(reply::META_MISS) => _ = arrived.insert(id, true),
                    other => return Err(CacheError::unexpected(&other)),
                }
            }
        }
        request.clear();
        let mut writes = 0;
        for (name, list) in names.iter().zip(&lists) {
            let Some(list) = list else {
                found.push(Database::Nearest);
                continue;
            };
            let rest = self.rest_of(list, &arrived);
            let has_arrived = rest.as_ref().is_some_and(|(left, _)| left.is_empty()) || list.text.is_empty();
            let is_near = has_arrived && is_planted("markers-not-settled");
            found.push(if is_near { Database::Nearest } else { Database::Master });
            if let Some((left, seconds)) = rest {
                let line = client::meta_store(name.as_bytes(), left.len(), &mut request);
                line.number(b'C', list.unique).number(b'T', seconds).end_with(left.as_bytes());
                writes += 1;
            }
        }
        if writes > 0 {
            link.connection.send_batch(&request)?;
        }
        // If a list was changed in between, another client removes the arrived ids.
        (0..writes).try_for_each(|_| is_done(link).map(|_| ()))?;
        Ok(())
    }

    /// The rest of a list without its arrived ids, and its lifetime; `None` if the list stays
    /// unchanged.
    fn rest_of(&self, list: &List, arrived: &HashMap<&str, bool>) -> Option<(String, u64)> {
        // Without cas uniques the write would overwrite an id that was added in between.
        if list.unique == 0 {
            return None;
        }
        let has_arrived = |id: &&str| arrived.get(id).copied().unwrap_or(false);
        let number = list.ids().filter(has_arrived).count();
        let left: String = list.ids().filter(|id| !has_arrived(id)).map(|id| format!("{id},")).collect();
        if left.is_empty() && !list.text.is_empty() {
            // Servers count whole seconds that have begun.
            return Some((left, seconds(self.settling) + 1));
        }
        (number >= ARRIVED_MAX).then(|| (left, seconds(self.limit)))
    }
}

/// How an id is added to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Appends to an existing list. memcached creates it since 1.6.19, by N.
    Append,
    /// Adds a new list.
    Add,
}

/// Adds an id to lists; returns the lists that it was not added to, since they do not exist, or
/// exist already. An append does not change the lifetime of a list, so that is set separately: if
/// the list is gone by then, so is the id.
fn add(
    link: &mut Link,
    lists: &[String],
    id: &str,
    seconds: u64,
    mode: Mode,
) -> Result<Vec<String>, CacheError> {
    let (mut request, value) = (Vec::new(), format!("{id},"));
    for list in lists {
        let list = list.as_bytes();
        let line = client::meta_store(list, value.len(), &mut request);
        let line = match mode {
            Mode::Append => line.flags(b"MA").number(b'N', seconds),
            Mode::Add => line.flags(b"ME"),
        };
        line.number(b'T', seconds).end_with(value.as_bytes());
        client::meta(MetaVerb::Get, list, &mut request).number(b'T', seconds).end();
    }
    link.connection.send_batch(&request)?;
    let mut left = Vec::new();
    for list in lists {
        let is_added = is_done(link)?;
        let has_time = is_done(link)?;
        if !(is_added && has_time) {
            left.push(list.clone());
        }
    }
    Ok(left)
}

/// Whether a command took effect. Any other reply is an error: a server that does not know a
/// command also replies to its value, and that reply would be taken for the next one.
fn is_done(link: &mut Link) -> Result<bool, CacheError> {
    match link.connection.reply()? {
        Reply::Line(reply::META_DONE) => Ok(true),
        Reply::Line(reply::META_NOT_STORED | reply::META_MISS) => Ok(false),
        Reply::Line(reply::META_NOT_FOUND | reply::META_EXISTS) => Ok(false),
        Reply::Line(line) if matches!(failure(line), Some(Failure::Server(_))) => Ok(false),
        other => Err(CacheError::unexpected(&other)),
    }
}

/// The ids of writes of a key.
#[derive(Debug, PartialEq, Eq)]
struct List {
    text: String,
    unique: u64,
}

impl List {
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.text.split(',').filter(|id| key::is_good(id))
    }
}

/// Reads the reply to a request for a list; `None` if it is missing.
fn receive_list(link: &mut Link) -> Result<Option<List>, CacheError> {
    let reply = link.connection.reply()?;
    let (line, value) = match reply {
        Reply::MetaValue { line, value } => (MetaReply::of(line), value),
        Reply::Line(reply::META_MISS) => return Ok(None),
        other => return Err(CacheError::unexpected(&other)),
    };
    let unique = line.number(b'c').ok_or_else(|| CacheError::unexpected(&reply))?;
    Ok(Some(List { text: String::from_utf8_lossy(value).into_owned(), unique }))
}

fn marker(id: &str) -> String {
    format!("r:{id}")
}

fn list(key: &str) -> String {
    let end = (0..=key.len().min(KEY_MAX)).rev().find(|end| key.is_char_boundary(*end)).unwrap_or(0);
    format!("r::{}", &key[..end])
}

/// Whole seconds, of which 0 would be for ever.
fn seconds(length: Duration) -> u64 {
    length.as_millis().div_ceil(1000).clamp(1, 30 * 24 * 3600) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys_and_times_are_not_for_ever() {
        assert_eq!((&*marker("1f"), &*list("user:7")), ("r:1f", "r::user:7"));
        let long = "ü".repeat(125);
        assert_eq!(list(&long).len(), 3 + 246);
        assert_eq!([0, 1, 1000, 1001].map(|ms| seconds(Duration::from_millis(ms))), [1, 1, 1, 2]);
        assert_eq!(seconds(Duration::MAX), 2_592_000);
    }

    #[test]
    fn ids_that_have_arrived_go_when_they_are_all_or_many() {
        let markers = Markers::at(Target::new("unix:/nowhere".parse().unwrap(), Duration::from_secs(1)));
        let left = |number: usize, arrived: usize| {
            let ids: Vec<String> = (0..number).map(|id| format!("{id}")).collect();
            let text = ids.iter().map(|id| format!("{id},")).collect();
            let map = ids.iter().enumerate().map(|(place, id)| (id.as_str(), place < arrived)).collect();
            markers.rest_of(&List { text, unique: 1 }, &map)
        };
        assert_eq!(left(0, 0), None, "it settles already");
        assert_eq!(left(2, 2), Some((String::new(), 3)));
        assert_eq!((left(1, 0), left(17, 15)), (None, None));
        assert_eq!(left(17, 16), Some(("16,".to_owned(), 600)));
        let unordered = List { text: "x,".to_owned(), unique: 0 };
        assert_eq!(markers.rest_of(&unordered, &HashMap::from([("x", true)])), None, "no cas uniques");
        let strange = List { text: "a b,,x,".to_owned(), unique: 1 };
        assert_eq!(markers.rest_of(&strange, &HashMap::from([("x", true)])), Some((String::new(), 3)));
    }
}
