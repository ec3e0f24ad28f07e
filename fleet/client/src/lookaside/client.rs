//! The client.

use std::sync::Arc;
use std::time::Duration;

use guira_sync::simulated::is_planted;

use super::changed::Changed;
use super::counters::{Counters, Counts};
use super::database::{Database, Wanted};
use super::key;
use super::leases::{self, Leases};
use super::links::{CacheError, Links, Urgency};
use super::markers::Markers;
use super::policy::{Policy, StaleValues};
use super::random::Random;
use super::read::Read;
use super::shared::{Manner, Shared};
use super::value::Value;
use crate::text::Target;

/// A client of a cache next to a database.
///
/// Its calls block. Threads share it, or its clones, which use the same connections: as many as
/// calls use the cache at the same time, and with memcached also during a fill. The [`Target`] has
/// the timeout of connecting and of each reply. A cache that cannot be connected to, or has left
/// three requests in a row without a reply, receives only deletes for a second; then one call tries
/// it again.
///
/// No call fails because of the cache: the client reads from the database, a change stands, and
/// [`LookAside::counters`] count the fault. A change whose delete has failed leaves an old value in
/// the cache, until the invalidator deletes it or it expires.
#[derive(Clone, Debug)]
pub struct LookAside {
    shared: Arc<Shared>,
    manner: Manner,
}

impl LookAside {
    /// A client of the cache at `target`: a Guira node, a router, or memcached 1.6.10 or later. It
    /// connects on its first use.
    ///
    /// Values live for an hour, missing rows for a minute, ± 10 %; a client waits 250 ms for a
    /// value that another one fills, and uses no stale values.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let (links, counts, random) = (Links::new(target), Counts::default(), Random::of_process());
        let manner = Manner { policy: Policy::DEFAULT, markers: None };
        Self { shared: Arc::new(Shared { links, counts, random }), manner }
    }

    /// Sets the lifetime of filled values, before the jitter. Servers count whole seconds: from one
    /// up to 30 days.
    #[must_use]
    pub fn expiry(mut self, expiry: Duration) -> Self {
        self.manner.policy.expiry = expiry;
        self
    }

    /// Sets the time for which missing rows are cached.
    #[must_use]
    pub fn absent_expiry(mut self, expiry: Duration) -> Self {
        self.manner.policy.absent_expiry = expiry;
        self
    }

    /// The same client with lifetimes that vary by up to `percent`, so that values which were
    /// filled together do not expire together.
    ///
    /// # Panics
    /// If it is more than 100.
    #[must_use]
    pub fn jitter(mut self, percent: u32) -> Self {
        assert!(percent <= 100, "a jitter is at most 100 percent, not {percent}");
        self.manner.policy.jitter_percent = percent;
        self
    }

    /// Sets the longest total wait for values that other clients fill. After it the client reads
    /// from the database, and does not store the value. A wait should exceed the database's time,
    /// and ends early: the pauses between two reads are 1 to 32 ms.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.manner.policy.wait = wait;
        self
    }

    /// The same client, which may use stale values while another client fills their keys. A caller
    /// may then read a value that is older than its own last write.
    #[must_use]
    pub fn stale_values(mut self, stale_values: StaleValues) -> Self {
        self.manner.policy.stale_values = stale_values;
        self
    }

    /// The same client in a region whose databases are replicas of another region's: reads of keys
    /// that this region has written go to the master until the change has come back.
    ///
    /// Then `write_through_delete` sets a marker, sends the write to the master, and names the
    /// marker in the statement, so that the invalidator of this region, which reads the log of the
    /// replica, deletes it. A client does not see values from before its own write, as long as no
    /// marker is lost and none reaches its limit.
    #[must_use]
    pub fn in_replica_region(mut self, markers: Markers) -> Self {
        self.manner.markers = Some(Arc::new(markers));
        self
    }

    /// The value of `key`: from the cache, or else from `fill`, which queries the database. `None`
    /// means that the database has no value, which is cached too.
    ///
    /// On a miss one client gets a lease, and the result of its `fill` is stored, unless the key
    /// was deleted in between: then the value is valid for this call only. Other clients wait, or
    /// take the stale value, or call `fill` when the wait is over. `fill` is called at most once.
    /// It has to read committed data: a snapshot that began before this call may be older than a
    /// delete. When it fails or panics, or the cache does not take the value, the lease is given
    /// back; when its client dies, others wait until the lease expires after 10 s.
    ///
    /// # Errors
    /// Only the errors of `fill`.
    pub fn get_or_fill<E>(
        &self,
        key: &str,
        fill: impl FnOnce(Database) -> Result<Option<Value>, E>,
    ) -> Result<Option<Value>, E> {
        let mut fill = Some(fill);
        let mut once = |wanted: &[Wanted<'_>]| match (fill.take(), wanted) {
            (Some(fill), [one]) => Ok(vec![fill(one.database)?]),
            _ => unreachable!("one key is filled once"),
        };
        let mut found = Read::run(&self.shared, &self.manner, &[key], &mut once)?;
        Ok(found.pop().flatten())
    }

    /// The values of `keys` in their order; see [`LookAside::get_or_fill`]. The cache is read once
    /// for each 64 keys. `fill` is called for all keys with a lease of this client, and then
    /// perhaps for keys that other clients have not filled in time. It returns a value or `None`
    /// for each key that it is given.
    ///
    /// # Errors
    /// The errors of `fill`. Values that it returned before are stored.
    ///
    /// # Panics
    /// If `fill` returns another number of values.
    pub fn get_many<'k, E>(
        &self,
        keys: &[&'k str],
        mut fill: impl FnMut(&[Wanted<'k>]) -> Result<Vec<Option<Value>>, E>,
    ) -> Result<Vec<Option<Value>>, E> {
        Read::run(&self.shared, &self.manner, keys, &mut fill)
    }

    /// Changes the database by `write`, and then deletes the `keys` whose values it changes.
    /// `write` has to commit before it returns. Its argument is the comment for its statement, for
    /// the invalidator.
    ///
    /// The keys are deleted even if `write` fails or panics, since it may have committed. For the
    /// same reason a marker then stays until its limit.
    ///
    /// # Errors
    /// Only the errors of `write`.
    pub fn write_through_delete<T, E>(
        &self,
        keys: &[&str],
        write: impl FnOnce(&Changed) -> Result<T, E>,
    ) -> Result<T, E> {
        let good = self.good(keys);
        let marker = self.mark(&good);
        let changed = Changed::new(good.iter().copied().chain(marker.as_deref()));
        // Also when it panics: it may have committed.
        let _deletes = AtEnd { client: self, keys: good };
        write(&changed)
    }

    /// Deletes keys; returns whether all deletes were acknowledged.
    pub fn delete(&self, keys: &[&str]) -> bool {
        let good = self.good(keys);
        self.delete_good(&good) && good.len() == keys.len()
    }

    /// Probes the commands by which the cache gives leases: to check at the start that it can be
    /// used.
    ///
    /// # Errors
    /// When it cannot.
    pub fn leases(&self) -> Result<Leases, CacheError> {
        self.shared.links.with(Urgency::Needed, leases::of_link)
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counts.values()
    }

    /// The keys that can be sent.
    fn good<'k>(&self, keys: &[&'k str]) -> Vec<&'k str> {
        let good: Vec<&str> = keys.iter().copied().filter(|key| key::is_good(key)).collect();
        self.shared.counts.bad_keys.add(keys.len() - good.len());
        good
    }

    /// Marks keys in a replica region; returns the marker.
    fn mark(&self, keys: &[&str]) -> Option<String> {
        let markers = self.manner.markers.as_ref().filter(|_| !keys.is_empty())?;
        let mark = markers.mark(keys, &self.shared.random);
        if !mark.is_whole && !is_planted("failed-mark-ignored") {
            self.shared.counts.unmarked_writes.add(1);
        }
        Some(mark.key)
    }

    fn delete_good(&self, keys: &[&str]) -> bool {
        if keys.is_empty() {
            return true;
        }
        let deleted = self.shared.links.with(Urgency::Needed, |link| leases::delete(link, keys));
        let deleted = deleted.map_or(0, |deleted| deleted.iter().filter(|deleted| **deleted).count());
        self.shared.counts.deletes.add(deleted);
        self.shared.counts.failed_deletes.add(keys.len() - deleted);
        deleted == keys.len()
    }
}

/// Deletes keys in the end.
struct AtEnd<'c, 'k> {
    client: &'c LookAside,
    keys: Vec<&'k str>,
}

impl Drop for AtEnd<'_, '_> {
    fn drop(&mut self) {
        self.client.delete_good(&self.keys);
    }
}
