//! What a cluster of etcd keeps, as far as membership uses it: keys with revisions, transactions, leases that end with
//! the world's time, and the changes that watches report. `gateway` serves it by HTTP, as each etcd member does.

mod gateway;
mod request;

pub(crate) use gateway::serve;

use guira_world::time;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    mod_revision: i64,
    lease: i64,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Duration,
    end: Duration,
}

/// A condition of a transaction: the revision of a key's last change, 0 if there is no such key.
#[derive(Debug)]
struct Compare {
    key: Vec<u8>,
    mod_revision: i64,
}

#[derive(Debug)]
struct Put {
    key: Vec<u8>,
    value: Vec<u8>,
    lease: i64,
}

/// The state that the members have agreed on.
#[derive(Debug)]
pub(crate) struct Etcd {
    keys: BTreeMap<Vec<u8>, Entry>,
    leases: BTreeMap<i64, Lease>,
    leases_granted: i64,
    revision: i64,
    /// Each change: its revision and its key.
    changes: Vec<(i64, Vec<u8>)>,
    /// Changes up to this revision are no longer known.
    compacted: i64,
    /// Without a leader nothing is read, changed or ended.
    has_leader: bool,
    /// All values that a key below `pools/` has had, and since when.
    pub(crate) pools: Vec<(Duration, Vec<u8>)>,
}

/// As etcd words it.
const NO_LEASE: &str = "etcdserver: requested lease not found";

impl Etcd {
    pub(crate) fn new() -> Self {
        Etcd {
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            leases_granted: 7_587_869_134_655_000_000,
            revision: 1,
            changes: Vec::new(),
            compacted: 0,
            has_leader: true,
            pools: Vec::new(),
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&[u8]> {
        self.keys.get(key.as_bytes()).map(|entry| &*entry.value)
    }

    /// The keys below a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.keys.keys().map(|key| String::from_utf8_lossy(key).into_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    pub(crate) fn lose_leader(&mut self) {
        self.end_leases();
        self.has_leader = false;
    }

    /// A new leader gives each lease its whole time again.
    pub(crate) fn elect_leader(&mut self) {
        if !std::mem::replace(&mut self.has_leader, true) {
            self.leases.values_mut().for_each(|lease| lease.end = time::now() + lease.ttl);
        }
    }

    /// Forgets the changes so far.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        self.changes.clear();
    }

    fn end_leases(&mut self) {
        if !self.has_leader {
            return;
        }
        let now = time::now();
        let ended: Vec<i64> =
            self.leases.iter().filter(|(_, lease)| lease.end <= now).map(|(id, _)| *id).collect();
        for id in ended {
            tracing::info!("the lease {id} has ended");
            self.leases.remove(&id);
            self.remove_keys_of(id);
        }
    }

    fn remove_keys_of(&mut self, lease: i64) {
        let keys: Vec<Vec<u8>> =
            self.keys.iter().filter(|(_, entry)| entry.lease == lease).map(|(key, _)| key.clone()).collect();
        if !keys.is_empty() {
            self.revision += 1;
        }
        for key in keys {
            self.keys.remove(&key);
            self.changes.push((self.revision, key));
        }
    }

    fn range(&self, keys: Range<Vec<u8>>) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.keys.range(keys)
    }

    /// Whether all conditions hold; then all values are put.
    fn change(&mut self, conditions: &[Compare], puts: Vec<Put>) -> Result<bool, &'static str> {
        let revision = |key: &[u8]| self.keys.get(key).map_or(0, |entry| entry.mod_revision);
        if !conditions.iter().all(|condition| revision(&condition.key) == condition.mod_revision) {
            return Ok(false);
        }
        if puts.iter().any(|put| put.lease != 0 && !self.leases.contains_key(&put.lease)) {
            return Err(NO_LEASE);
        }
        self.revision += 1;
        for Put { key, value, lease } in puts {
            if key.windows(7).any(|part| part == b"/pools/") {
                tracing::info!("{} is {}", key.escape_ascii(), String::from_utf8_lossy(&value));
                self.pools.push((time::now(), value.clone()));
            }
            self.changes.push((self.revision, key.clone()));
            self.keys.insert(key, Entry { value, mod_revision: self.revision, lease });
        }
        Ok(true)
    }

    fn grant(&mut self, ttl: Duration) -> i64 {
        self.leases_granted += 1;
        self.leases.insert(self.leases_granted, Lease { ttl, end: time::now() + ttl });
        self.leases_granted
    }

    /// The time that a lease has from now on; `None` if it has ended.
    fn keep_alive(&mut self, id: i64) -> Option<Duration> {
        let lease = self.leases.get_mut(&id)?;
        lease.end = time::now() + lease.ttl;
        Some(lease.ttl)
    }

    fn revoke(&mut self, id: i64) -> Result<(), &'static str> {
        self.leases.remove(&id).ok_or(NO_LEASE)?;
        self.remove_keys_of(id);
        Ok(())
    }

    /// The revision of the newest change of these keys since `first`.
    fn changed_since(&self, keys: &Range<Vec<u8>>, first: i64) -> Option<i64> {
        let newest = self.changes.iter().rev().take_while(|(revision, _)| *revision >= first);
        newest.filter(|(_, key)| keys.contains(key)).map(|(revision, _)| *revision).next()
    }
}
