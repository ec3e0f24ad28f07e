//! The known addresses of names of one kind, and when each name is resolved again. Time is a
//! parameter, and nothing here does I/O.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A reply of DNS is used for at least and at most this time, whatever its TTL.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(300);
/// The wait after a failed lookup; it doubles with each failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The records of a name, and their lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    pub(crate) records: Vec<T>,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Learned<T> {
    /// These records replace others, or none.
    Changed(Vec<T>),
    Same,
    /// The lookup failed, this many times in a row.
    Failed(u32),
}

/// Receives the first result for a name.
pub(crate) type Waiting<T> = Box<dyn FnOnce(Arc<str>, Result<Vec<T>, String>) + Send>;

pub(crate) struct Book<T> {
    entries: HashMap<Arc<str>, Entry<T>>,
}

struct Entry<T> {
    /// In order, each once. Empty if nothing was ever found.
    known: Vec<T>,
    state: State,
    failures: u32,
    waiting: Vec<Waiting<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Due(Duration),
    UnderWay,
}

impl<T> Default for Book<T> {
    fn default() -> Self {
        Book { entries: HashMap::new() }
    }
}

impl<T: Clone + Ord> Book<T> {
    /// Passes the known records of a name to `waiting`, or those of the next lookup.
    pub(crate) fn look_up(&mut self, name: Arc<str>, waiting: Waiting<T>, now: Duration) {
        let entry = self.entries.entry(name.clone()).or_insert_with(|| Entry {
            known: Vec::new(),
            state: State::Due(now),
            failures: 0,
            waiting: Vec::new(),
        });
        if !entry.known.is_empty() {
            return waiting(name, Ok(entry.known.clone()));
        }
        entry.waiting.push(waiting);
        if let State::Due(due) = &mut entry.state {
            *due = now;
        }
    }

    pub(crate) fn follow(&mut self, names: &HashSet<Arc<str>>) {
        self.entries.retain(|name, _| names.contains(name));
    }

    /// Starts lookups of up to `most` due names. Names with waiting callers come first, then those
    /// that were due first: otherwise many names that fail slowly would keep other names from ever
    /// being resolved.
    pub(crate) fn begin(&mut self, now: Duration, most: usize) -> Vec<Arc<str>> {
        if most == 0 {
            return Vec::new();
        }
        let mut all: Vec<_> = self
            .entries
            .iter_mut()
            .filter_map(|(name, entry)| match entry.state {
                State::Due(due) if due <= now => Some((due, name, entry)),
                _ => None,
            })
            .collect();
        all.sort_by_key(|(due, _, entry)| (entry.waiting.is_empty(), *due));
        let first = all.into_iter().take(most);
        first
            .map(|(_, name, entry)| {
                entry.state = State::UnderWay;
                name.clone()
            })
            .collect()
    }

    /// When the next lookup is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        let due = self.entries.values().filter_map(|entry| match entry.state {
            State::Due(due) => Some(due),
            State::UnderWay => None,
        });
        due.min()
    }

    /// All names are due: what they were looked up with has changed.
    pub(crate) fn expire(&mut self, now: Duration) {
        for entry in self.entries.values_mut() {
            if let State::Due(due) = &mut entry.state {
                *due = now;
            }
        }
    }

    /// Records the result of a lookup. The previous records stay if it failed or found none.
    pub(crate) fn learn(
        &mut self,
        name: &Arc<str>,
        result: Result<Found<T>, String>,
        now: Duration,
    ) -> Learned<T> {
        // The name may have been removed since.
        let Some(entry) = self.entries.get_mut(name) else { return Learned::Same };
        let found = result.and_then(|found| {
            if found.records.is_empty() { Err("the name has no records".to_owned()) } else { Ok(found) }
        });
        let waiting = std::mem::take(&mut entry.waiting);
        match found {
            Ok(Found { mut records, ttl }) => {
                records.sort();
                records.dedup();
                entry.failures = 0;
                entry.state = State::Due(now + spread(name, ttl.clamp(TTL_MIN, TTL_MAX)));
                waiting.into_iter().for_each(|it| it(name.clone(), Ok(records.clone())));
                if records == entry.known {
                    return Learned::Same;
                }
                entry.known.clone_from(&records);
                Learned::Changed(records)
            }
            Err(reason) => {
                let wait = RETRY_FIRST.saturating_mul(1 << entry.failures.min(16)).min(RETRY_MAX);
                entry.failures += 1;
                entry.state = State::Due(now + spread(name, wait));
                waiting.into_iter().for_each(|it| it(name.clone(), Err(reason.clone())));
                Learned::Failed(entry.failures)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of names that keep earlier records, and of those that never had any.
    pub(crate) fn stale_and_unknown(&self) -> (usize, usize) {
        let failed = || self.entries.values().filter(|entry| entry.failures > 0);
        let unknown = failed().filter(|entry| entry.known.is_empty()).count();
        (failed().count() - unknown, unknown)
    }
}

/// Up to an eighth more, by the name, so that names which were found together are not resolved
/// together.
fn spread(name: &str, time: Duration) -> Duration {
    let hash =
        name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    time + time / 8 * (hash >> 24) / 255
}

#[cfg(test)]
mod tests;
