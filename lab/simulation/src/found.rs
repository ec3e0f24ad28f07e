//! The result of a run: requests, faults, and what was wrong.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// A process is killed and started again.
    Kill,
    /// The host of a process loses power, and its disk unsynced changes.
    Power,
    Freeze,
    /// No packet passes between two hosts, in one direction.
    Cut,
    /// A disk has no room.
    Full,
    /// Writes and syncs of a disk fail now and then.
    DiskErrors,
    /// The router gets another configuration, good or bad.
    Reload,
    /// The database or etcd removes the older part of its log.
    Purge,
    /// A process is killed, and started again many seconds later.
    Loss,
    /// No packet passes between a host and all or most others for many seconds.
    Isolation,
    NoLeader,
}

/// The faults of a region.
pub(crate) const ALL: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Freeze,
    Fault::Cut,
    Fault::Full,
    Fault::DiskErrors,
    Fault::Reload,
    Fault::Purge,
];
/// The faults of programs without disks and databases.
pub(crate) const OF_CACHES: &[Fault] = &[Fault::Kill, Fault::Freeze, Fault::Cut];
/// The faults of nodes whose clients route by themselves.
pub(crate) const OF_POOLS: &[Fault] = &[Fault::Kill, Fault::Power, Fault::Freeze, Fault::Cut, Fault::Reload];
/// The faults of nodes, members, routers and etcd.
pub(crate) const OF_MEMBERSHIP: &[Fault] =
    &[Fault::Kill, Fault::Loss, Fault::Freeze, Fault::Cut, Fault::Isolation, Fault::Purge, Fault::NoLeader];

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    pub(crate) hits: u64,
    pub(crate) failures: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.hits += other.hits;
        self.failures += other.failures;
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) counts: Counts,
    /// How often each kind of fault has struck.
    faults: BTreeMap<Fault, u64>,
    /// Servers whose slots were given to others.
    replaced: u64,
    /// The longest time for which a value was read that was no longer the newest.
    outdated: Duration,
    pub(crate) wrong: Vec<String>,
}

impl Found {
    pub(crate) fn add(&mut self, other: &Found) {
        self.counts.add(other.counts);
        self.replaced += other.replaced;
        self.read_outdated(other.outdated);
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
    }

    pub(crate) fn replaced(&mut self, servers: u64) {
        self.replaced += servers;
    }

    pub(crate) fn read_outdated(&mut self, time: Duration) {
        self.outdated = self.outdated.max(time);
    }

    pub(crate) fn struck(&mut self, kind: Fault) {
        *self.faults.entry(kind).or_default() += 1;
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { writes, reads, hits, failures } = self.counts;
        write!(formatter, "{writes} writes, {reads} reads ({hits} hits), {failures} requests failed; ")?;
        for (kind, count) in &self.faults {
            write!(formatter, "{kind:?} {count}, ")?;
        }
        if self.replaced > 0 {
            write!(formatter, "{} servers replaced, ", self.replaced)?;
            write!(formatter, "values outdated for {:.1} s at most, ", self.outdated.as_secs_f64())?;
        }
        write!(formatter, "no reply was wrong")
    }
}
