//! Reads: from the cache what it has, from the database the rest.

use std::collections::HashMap;

use guira_sync::clock::Stopwatch;
use guira_sync::simulated::sometimes;

use super::backoff::Backoff;
use super::database::{Database, Wanted};
use super::key;
use super::leased::Leased;
use super::leases::{self, Got, Store, Token};
use super::links::{CacheError, Link, Urgency};
use super::policy::StaleValues;
use super::shared::{Manner, Shared};
use super::value::{Item, Value};

pub(super) type Fill<'f, 'k, E> = &'f mut dyn FnMut(&[Wanted<'k>]) -> Result<Vec<Option<Value>>, E>;

/// A key that is to be filled.
struct Missing {
    /// The position of the key in the request.
    place: usize,
    token: Option<Token>,
    stale: Option<Value>,
}

impl Missing {
    fn without_token(place: usize) -> Self {
        Self { place, token: None, stale: None }
    }
}

pub(super) struct Read<'c, 'f, 'k, E> {
    shared: &'c Shared,
    manner: &'c Manner,
    keys: Vec<&'k str>,
    found: Vec<Option<Value>>,
    fill: Fill<'f, 'k, E>,
    /// The connection over which the tokens of missing keys were given, if they are valid only
    /// there.
    lent: Option<Link>,
}

impl<'c, 'f, 'k, E> Read<'c, 'f, 'k, E> {
    /// The values of `keys`, in their order.
    pub(super) fn run(
        shared: &'c Shared,
        manner: &'c Manner,
        keys: &[&'k str],
        fill: Fill<'f, 'k, E>,
    ) -> Result<Vec<Option<Value>>, E> {
        let (mut places, mut unique) = (HashMap::new(), Vec::new());
        for key in keys {
            places.entry(*key).or_insert_with(|| {
                unique.push(*key);
                unique.len() - 1
            });
        }
        let found = vec![None; unique.len()];
        let mut read = Read { shared, manner, keys: unique, found, fill, lent: None };
        read.all()?;
        if read.keys.len() == keys.len() {
            return Ok(read.found);
        }
        Ok(keys.iter().map(|key| read.found[places[key]].clone()).collect())
    }

    fn all(&mut self) -> Result<(), E> {
        let (mut requested, bad): (Vec<usize>, Vec<usize>) =
            (0..self.keys.len()).partition(|place| key::is_good(self.keys[*place]));
        self.shared.counts.bad_keys.add(bad.len());
        let mut missing: Vec<Missing> = bad.into_iter().map(Missing::without_token).collect();
        let (waited, mut backoff) = (Stopwatch::start(), Backoff::new(self.manner.policy.wait));
        let mut is_first = true;
        loop {
            let taken = self.request_leases(&requested, &mut missing);
            if is_first {
                if !taken.is_empty() {
                    sometimes("wait-for-a-fill");
                }
                self.shared.counts.waits.add(taken.len());
            }
            is_first = false;
            // Before the wait: others may wait for what this client fills.
            self.fill(std::mem::take(&mut missing))?;
            if taken.is_empty() {
                return Ok(());
            }
            let Some(pause) = backoff.next(waited.elapsed(), &self.shared.random) else {
                sometimes("fill-without-a-lease");
                self.shared.counts.unleased.add(taken.len());
                return self.fill(taken.into_iter().map(Missing::without_token).collect());
            };
            guira_sync::thread::sleep(pause);
            requested = taken;
        }
    }

    /// Requests the keys at these indices from the cache. Keys that this client is to fill are
    /// added to `missing`; returns the indices of keys that another client fills.
    fn request_leases(&mut self, places: &[usize], missing: &mut Vec<Missing>) -> Vec<usize> {
        let counts = &self.shared.counts;
        if places.is_empty() {
            return Vec::new();
        }
        let keys: Vec<&str> = places.iter().map(|place| self.keys[*place]).collect();
        let mut got = Vec::with_capacity(keys.len());
        let requested = self.shared.links.lend(Urgency::Optional, |link| {
            got.clear();
            leases::get(link, &keys, &mut got)
        });
        match requested {
            Ok(((), link)) => {
                let is_bound = |got: &Got| matches!(got, Got::Token(token, _) if token.is_of_connection());
                if got.iter().any(is_bound) {
                    self.lent = Some(link);
                } else {
                    self.shared.links.keep(link);
                }
            }
            // Replies that arrived before the error are valid.
            Err(CacheError::Text(_)) => {}
            Err(_) => got.clear(),
        }
        got.resize(keys.len(), Got::Nothing);
        let mut taken = Vec::new();
        let value_of = |stale: Option<Item>| stale.and_then(|item| item.value().ok()?);
        for (place, got) in places.iter().copied().zip(got) {
            match got {
                Got::Item(item) => match item.value() {
                    Ok(value) => {
                        counts.hits.add(1);
                        self.found[place] = value;
                    }
                    Err(_) => {
                        counts.failures.add(1);
                        missing.push(Missing::without_token(place));
                    }
                },
                Got::Token(token, stale) => {
                    counts.misses.add(1);
                    missing.push(Missing { place, token: Some(token), stale: value_of(stale) });
                }
                Got::Taken(Some(stale)) if self.manner.policy.stale_values == StaleValues::Use => {
                    match stale.value() {
                        Ok(value) => {
                            counts.stale_hits.add(1);
                            self.found[place] = value;
                        }
                        Err(_) => taken.push(place),
                    }
                }
                Got::Taken(_) => taken.push(place),
                Got::Nothing => {
                    counts.failures.add(1);
                    missing.push(Missing::without_token(place));
                }
            }
        }
        taken
    }

    /// Queries the database, and stores the values of keys with a token.
    fn fill(&mut self, missing: Vec<Missing>) -> Result<(), E> {
        if missing.is_empty() {
            return Ok(());
        }
        let keys: Vec<&'k str> = missing.iter().map(|missing| self.keys[missing.place]).collect();
        let tokens = keys.iter().zip(&missing).filter_map(|(key, missing)| Some((*key, missing.token?)));
        let mut leased = Leased::new(self.shared, self.lent.take(), tokens.collect());
        let wanted: Vec<Wanted<'k>> = self.wanted(&keys);
        let values = (self.fill)(&wanted)?;
        assert_eq!(values.len(), wanted.len(), "a fill has a value, or none, for each key");
        let mut stores = Vec::new();
        for (Missing { place, token, stale }, value) in missing.into_iter().zip(values) {
            let is_older = |value: &Value| stale.as_ref().is_some_and(|stale| value.is_older_than(stale));
            if value.as_ref().is_some_and(is_older) {
                self.shared.counts.older.add(1);
                self.found[place] = stale;
                // memcached would not keep the newer value then.
                if token.is_some_and(Token::is_of_connection) {
                    leased.forget(self.keys[place]);
                }
                continue;
            }
            if let Some(token) = token {
                let item = Item::of(value.as_ref());
                let length = if value.is_some() {
                    self.manner.policy.expiry
                } else {
                    self.manner.policy.absent_expiry
                };
                let seconds = self.manner.policy.seconds(length, &self.shared.random);
                stores.push(Store { key: self.keys[place], token, item, seconds });
            }
            self.found[place] = value;
        }
        leased.store(&stores);
        Ok(())
    }

    /// The database to read each key from. Markers are read after the cache: a write in between
    /// voids the lease.
    fn wanted(&self, keys: &[&'k str]) -> Vec<Wanted<'k>> {
        let Some(markers) = &self.manner.markers else {
            let database = Database::Nearest;
            return keys.iter().map(|key| Wanted { key, database }).collect();
        };
        let counts = &self.shared.counts;
        // A key that cannot be sent is not marked by its writer either.
        let good: Vec<&str> = keys.iter().copied().filter(|key| key::is_good(key)).collect();
        let databases = markers.database_of(&good).unwrap_or_else(|unreachable| {
            counts.marker_failures.add(good.len());
            vec![unreachable; good.len()]
        });
        let mut databases = databases.into_iter();
        let database =
            |key: &str| if key::is_good(key) { databases.next() } else { None }.unwrap_or(Database::Master);
        let databases: Vec<Database> = keys.iter().copied().map(database).collect();
        counts.marked_reads.add(databases.iter().filter(|one| **one == Database::Master).count());
        keys.iter().zip(databases).map(|(key, database)| Wanted { key, database }).collect()
    }
}
