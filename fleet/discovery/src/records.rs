//! SRV records that pools take their servers from.

use crate::names::{Membership, Names, Target};
use guira_routing::config::{SRV, Texts};
use guira_sync::clock::Stopwatch;
use guira_sync::lock::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a load waits for DNS.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The members of each record. A configuration sees them as the text of an array of servers, so
/// that they are saved like imports.
#[derive(Debug)]
pub struct Records {
    names: Arc<Names>,
    /// The time after which a server that has left its record is dropped.
    hold: Duration,
    since: Stopwatch,
    /// LOCK: records. Leaf.
    known: Mutex<BTreeMap<Arc<str>, Membership>>,
}

impl Records {
    pub fn new(names: Arc<Names>, hold: Duration) -> Self {
        Records { names, hold, since: Stopwatch::start(), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Membership>> {
        self.known.lock()
    }

    /// The servers of a record, which has [`SRV`] in front of its name.
    pub fn text(&self, name: &str) -> Result<String, String> {
        let record: Arc<str> = name.trim_start_matches(SRV).into();
        let answer = self.names.services([record.clone()], PATIENCE).remove(&record);
        match answer.unwrap_or_else(|| Err("the resolver has stopped".to_owned())) {
            Ok(targets) => drop(self.learn(&record, &targets)),
            Err(reason) if self.known().contains_key(&record) => {
                // Operator: Check the DNS record. The pool keeps its last servers.
                tracing::warn!(name, reason, "cannot update the pool's servers; keeping the last known ones");
            }
            Err(reason) => return Err(format!("SRV record {record}: {reason}")),
        }
        let known = self.known();
        let membership = known.get(&record).ok_or_else(|| format!("SRV record {record} names no servers"))?;
        Ok(text_of(membership))
    }

    /// A record has these targets. Whether its list of servers is another one.
    pub fn learn(&self, record: &Arc<str>, targets: &[Target]) -> Learned {
        let now = self.since.elapsed();
        let mut known = self.known();
        let Some(membership) = known.get_mut(record) else {
            match Membership::new(targets, self.hold, now) {
                Ok(new) => {
                    if !new.has_slots() {
                        // Operator: Use the hash `Rendezvous` for this pool, or the names of a
                        // StatefulSet.
                        tracing::warn!(
                            name = &**record,
                            "server names have no ordinals: hashes by position move keys when a server \
                                 joins or leaves; use Rendezvous"
                        );
                    }
                    known.insert(record.clone(), new);
                }
                // Operator: Correct the record: it must name servers of one kind. The pool keeps its last
                // servers.
                Err(error) => tracing::warn!(name = &**record, %error, "cannot use the SRV record"),
            }
            return Learned::New;
        };
        let before = text_of(membership);
        if let Err(error) = membership.update(targets, now) {
            // Operator: Check the DNS record. The pool keeps its last servers.
            tracing::warn!(name = &**record, %error, "cannot update the pool's servers; keeping the last \
                known ones");
        }
        if text_of(membership) == before { Learned::Same } else { Learned::New }
    }

    /// The servers of a configuration that was kept.
    pub fn remember(&self, texts: &Texts) {
        let now = self.since.elapsed();
        for (name, text) in &texts.others {
            let (Some(record), Ok(text)) = (name.strip_prefix(SRV), text) else { continue };
            if let Ok(kept) = Membership::kept(&targets_of(text), self.hold, now) {
                self.known().insert(record.into(), kept);
            }
        }
    }

    /// Drops servers that have left their records for long enough, and says of which records.
    pub fn drop_due(&self) -> Vec<Arc<str>> {
        let now = self.since.elapsed();
        let mut known = self.known();
        let dropped = known.iter_mut().map(|(record, membership)| (record, membership.drop_due(now)));
        dropped.filter(|(_, servers)| *servers > 0).map(|(record, _)| record.clone()).collect()
    }

    /// How long it takes until there are some.
    pub fn patience(&self) -> Option<Duration> {
        let now = self.since.elapsed();
        self.known().values().filter_map(Membership::next).min().map(|due| due.saturating_sub(now))
    }

    /// Servers that are kept although their records do not have them.
    pub fn held(&self) -> usize {
        self.known().values().map(Membership::held).sum()
    }

    /// Records that no configuration names any more are forgotten.
    pub fn keep(&self, records: &HashSet<Arc<str>>) {
        self.known().retain(|record, _| records.contains(record));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    New,
    Same,
}

fn text_of(membership: &Membership) -> String {
    let servers = membership.list().map(|target| format!("\"{target}\"")).collect::<Vec<_>>();
    format!("[{}]", servers.join(", "))
}

fn targets_of(text: &str) -> Vec<Target> {
    let words = text.split('"').skip(1).step_by(2);
    let target = |word: &str| {
        let (host, port) = word.rsplit_once(':')?;
        Some(Target { host: host.into(), port: port.parse().ok()? })
    };
    words.filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let targets = ["cache-0.x", "cache-1.x"].map(|host| Target { host: host.into(), port: 11211 });
        let membership = Membership::new(&targets, Duration::ZERO, Duration::ZERO).unwrap();
        let text = text_of(&membership);
        assert_eq!(text, r#"["cache-0.x:11211", "cache-1.x:11211"]"#);
        assert_eq!(targets_of(&text), targets);
        assert!(targets_of("[]").is_empty() && targets_of("[7, \"x\"]").is_empty());
    }
}
