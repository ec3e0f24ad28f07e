//! What is kept in etcd, below a prefix:
//!
//! | key | value | lease |
//! |---|---|---|
//! | `pools/POOL` | a [`Pool`] | none: it stays when everything else is gone |
//! | `members/POOL/SERVER` | a [`Registration`] | that of the member beside the server |
//! | `leader` | the member that replaces servers | that of this member |

use crate::etcd::{Condition, Entry, Etcd, EtcdError, Outcome, Put, Snapshot};
use crate::pool::{Pool, PoolError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const POOLS: &str = "pools/";
const MEMBERS: &str = "members/";
const LEADER: &str = "leader";
/// Bytes of the name of a pool.
const NAME_MAX: usize = 100;

/// Why something cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// etcd cannot do it.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A pool cannot be used as it is.
    #[error("pool {name}: {error}")]
    Pool {
        /// Its name.
        name: String,
        /// What is wrong.
        error: PoolError,
    },
    /// No such pool.
    #[error("there is no pool {0} in etcd")]
    Unknown(String),
    /// It was made before.
    #[error("there is a pool {0} already")]
    Exists(String),
    /// Somebody else was faster.
    #[error("pool {0} was changed meanwhile: look at it, and try again")]
    Changed(String),
    /// No such slot.
    #[error("pool {0} has no slot {1}")]
    Slot(String, usize),
    /// It would not be found again.
    #[error("'{0}' is no name of a pool: give 1 to 100 letters, digits, '-', '_' and '.'")]
    Name(String),
}

/// A server that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The pool that it is for.
    #[serde(skip)]
    pub pool: String,
    /// Where it is.
    #[serde(skip)]
    pub server: String,
    /// What fails together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// It was emptied since it last served a slot: it may take another one.
    #[serde(default)]
    pub is_empty: bool,
    /// When it was registered.
    #[serde(skip)]
    pub(crate) revision: i64,
    /// What keeps it.
    #[serde(skip)]
    pub(crate) lease: i64,
}

/// All that is kept, as of one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pools: BTreeMap<String, (Result<Pool, PoolError>, i64)>,
    registered: Vec<Registration>,
    leader: Option<Leader>,
    revision: i64,
}

#[derive(Clone, Debug, PartialEq)]
struct Leader {
    name: String,
    revision: i64,
    lease: i64,
}

impl View {
    fn of(prefix: &str, snapshot: Snapshot) -> Self {
        let mut view = View { revision: snapshot.revision, ..View::default() };
        for entry in snapshot.entries {
            let Some(key) = entry.key.strip_prefix(prefix) else { continue };
            if let Some(name) = key.strip_prefix(POOLS).filter(|name| is_name(name)) {
                view.pools.insert(name.to_owned(), (Pool::parse(&entry.value), entry.revision));
            } else if let Some((pool, server)) = key.strip_prefix(MEMBERS).and_then(|key| key.split_once('/'))
            {
                view.registered.extend(registration(pool, server, &entry));
            } else if key == LEADER {
                let name = String::from_utf8_lossy(&entry.value).into_owned();
                view.leader = Some(Leader { name, revision: entry.revision, lease: entry.lease });
            }
        }
        view
    }

    /// Names of pools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// A pool.
    ///
    /// # Errors
    /// There is none of this name, or it cannot be used.
    pub fn pool(&self, name: &str) -> Result<&Pool, StoreError> {
        match self.pools.get(name) {
            None => Err(StoreError::Unknown(name.to_owned())),
            Some((Ok(pool), _)) => Ok(pool),
            Some((Err(error), _)) => Err(StoreError::Pool { name: name.to_owned(), error: error.clone() }),
        }
    }

    /// Servers that are there for a pool.
    pub fn registered(&self, pool: &str) -> impl Iterator<Item = &Registration> {
        self.registered.iter().filter(move |one| one.pool == pool)
    }

    /// Another pool than `pool` that this server has a slot of.
    pub(crate) fn other_pool_of(&self, server: &str, pool: &str) -> Option<&str> {
        let serves = |name: &str| self.pool(name).is_ok_and(|pool| pool.slot_of(server).is_some());
        self.names().find(|name| *name != pool && serves(name))
    }

    /// The member that replaces lost servers.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_ref().map(|leader| leader.name.as_str())
    }

    /// As of when.
    pub fn revision(&self) -> i64 {
        self.revision
    }
}

/// Whether a pool may have this name. Others are not looked at: what is behind a slash of theirs would be taken for a server.
fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(is_good)
}

impl Registration {
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn registration(pool: &str, server: &str, entry: &Entry) -> Option<Registration> {
    // What is not understood is not there: a later version may have written it.
    let read: Registration = serde_json::from_slice(&entry.value).ok()?;
    let (revision, lease) = (entry.revision, entry.lease);
    Some(Registration { pool: pool.to_owned(), server: server.to_owned(), revision, lease, ..read })
}

/// Pools, servers and leader in etcd.
#[derive(Debug)]
pub struct Store {
    etcd: Etcd,
}

impl Store {
    /// What is kept in this cluster.
    pub fn new(etcd: Etcd) -> Self {
        Store { etcd }
    }

    /// All of it, as of now.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn view(&mut self) -> Result<View, EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        Ok(View::of(&prefix, self.etcd.range(&prefix)?))
    }

    /// The pools alone.
    pub(crate) fn pools(&mut self) -> Result<View, EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        Ok(View::of(&prefix, self.etcd.range(&format!("{prefix}{POOLS}"))?))
    }

    /// Waits until something is not as in `view` any more, for `patience` at the most.
    pub(crate) fn wait(&mut self, view: &View, patience: Duration) -> Result<(), EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        self.etcd.wait(&prefix, view.revision, patience)
    }

    /// The same for the pools alone.
    pub(crate) fn wait_for_pools(&mut self, view: &View, patience: Duration) -> Result<(), EtcdError> {
        let prefix = format!("{}{POOLS}", self.etcd.prefix());
        self.etcd.wait(&prefix, view.revision, patience)
    }

    /// Makes a pool.
    ///
    /// # Errors
    /// There is one, its name or itself cannot be used, or etcd does not answer.
    pub fn create(&mut self, name: &str, pool: &Pool) -> Result<(), StoreError> {
        if !is_name(name) {
            return Err(StoreError::Name(name.to_owned()));
        }
        pool.check().map_err(|error| StoreError::Pool { name: name.to_owned(), error })?;
        let key = self.key(POOLS, name);
        let put = Put { key: &key, value: &pool.text(), lease: None };
        match self.etcd.change(&[Condition::IsAbsent(&key)], &[put])? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(StoreError::Exists(name.to_owned())),
        }
    }

    /// Gives a slot to a spare if all is as it was, the spare is still there, and `leader`, if it is one who asks, still leads.
    ///
    /// # Errors
    /// Something is not as it was, what becomes of the pool cannot be used, or etcd does not answer.
    pub fn give(
        &mut self,
        view: &View,
        name: &str,
        slot: usize,
        spare: &Registration,
        leader: Option<Leadership>,
    ) -> Result<(), StoreError> {
        let mut pool = view.pool(name)?.clone();
        let place = pool.slots.get_mut(slot).ok_or_else(|| StoreError::Slot(name.to_owned(), slot))?;
        place.server = Some(spare.server.clone());
        if spare.zone.is_some() {
            place.zone.clone_from(&spare.zone);
        }
        pool.check().map_err(|error| StoreError::Pool { name: name.to_owned(), error })?;
        let (_, revision) = view.pools.get(name).ok_or_else(|| StoreError::Unknown(name.to_owned()))?;
        let (pool_key, leader_key) = (self.key(POOLS, name), self.key(LEADER, ""));
        let member_key = self.member_key(name, &spare.server);
        let mut conditions = vec![
            Condition::IsUnchanged(&pool_key, *revision),
            Condition::IsUnchanged(&member_key, spare.revision),
        ];
        conditions.extend(leader.map(|leader| Condition::IsUnchanged(&leader_key, leader.revision)));
        // From now on it has items: if it loses the slot at once, it is no spare before it was emptied.
        let serving = Registration { is_empty: false, ..spare.clone() }.text();
        let puts = [
            Put { key: &pool_key, value: &pool.text(), lease: None },
            Put { key: &member_key, value: &serving, lease: Some(spare.lease) },
        ];
        match self.etcd.change(&conditions, &puts)? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(StoreError::Changed(name.to_owned())),
        }
    }

    /// Registers a server that nobody else has registered, or changes what was registered with the same lease.
    pub(crate) fn register(
        &mut self,
        view: &View,
        registration: &Registration,
        lease: i64,
    ) -> Result<Outcome, EtcdError> {
        let key = self.member_key(&registration.pool, &registration.server);
        let known = view.registered(&registration.pool).find(|one| one.server == registration.server);
        let condition = match known {
            Some(known) => Condition::IsUnchanged(&key, known.revision),
            None => Condition::IsAbsent(&key),
        };
        let value = registration.text();
        self.etcd.change(&[condition], &[Put { key: &key, value: &value, lease: Some(lease) }])
    }

    /// Becomes the leader if there is none.
    pub(crate) fn lead(&mut self, name: &str, lease: i64) -> Result<Outcome, EtcdError> {
        let key = self.key(LEADER, "");
        let put = Put { key: &key, value: name, lease: Some(lease) };
        self.etcd.change(&[Condition::IsAbsent(&key)], &[put])
    }

    /// For leases.
    pub(crate) fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    fn key(&self, folder: &str, name: &str) -> String {
        format!("{}{folder}{name}", self.etcd.prefix())
    }

    fn member_key(&self, pool: &str, server: &str) -> String {
        format!("{}{MEMBERS}{pool}/{server}", self.etcd.prefix())
    }
}

/// That a member is the leader, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    revision: i64,
}

impl View {
    /// Whether the leader is the member that has this lease, and since when.
    pub(crate) fn led_by(&self, lease: i64) -> Option<Leadership> {
        let leader = self.leader.as_ref().filter(|leader| leader.lease == lease)?;
        Some(Leadership { revision: leader.revision })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(entries: &[(&str, &str)]) -> View {
        let entry = |(key, value): &(&str, &str)| Entry {
            key: format!("/guira/{key}"),
            value: value.as_bytes().to_vec(),
            revision: 3,
            lease: 0,
        };
        View::of("/guira/", Snapshot { revision: 7, entries: entries.iter().map(entry).collect() })
    }

    #[test]
    fn a_server_has_a_slot_of_another_pool_or_of_none() {
        let view = view(&[
            ("pools/a", r#"{"slots": [{"server": "x:1:ascii"}, {}]}"#),
            ("pools/b", r#"{"slots": [{"server": "y:1"}]}"#),
            ("pools/broken", "nonsense"),
        ]);
        for (server, pool, expected) in [
            ("x:1", "a", None),
            ("x:1", "b", Some("a")),
            ("y:1", "a", Some("b")),
            ("z:1", "a", None),
            ("y:1", "broken", Some("b")),
        ] {
            assert_eq!(view.other_pool_of(server, pool), expected, "{server} of {pool}");
        }
    }

    #[test]
    fn names_that_no_pool_can_have_are_not_looked_at() {
        let view = view(&[("pools/a/b", r#"{"slots": [{}]}"#), ("members/a/unix:/run/x", "{}")]);
        assert_eq!(view.names().count(), 0);
        let servers: Vec<&str> = view.registered("a").map(|one| one.server.as_str()).collect();
        assert_eq!(servers, ["unix:/run/x"]);
    }
}
