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
    /// The wall clock of a host jumps, and runs faster or slower from then on.
    Clock,
    /// A replica does not apply the master's changes for some seconds.
    Lag,
    /// A server that refuses all requests has the addresses of all or some nodes for some time.
    Impostor,
    /// A pool changes its size, or one of its servers.
    Move,
    /// The network resets a connection now and then.
    Resets,
}

impl Fault {
    const KINDS: [Fault; 16] = [
        Fault::Kill,
        Fault::Power,
        Fault::Freeze,
        Fault::Cut,
        Fault::Full,
        Fault::DiskErrors,
        Fault::Reload,
        Fault::Purge,
        Fault::Loss,
        Fault::Isolation,
        Fault::NoLeader,
        Fault::Clock,
        Fault::Lag,
        Fault::Impostor,
        Fault::Move,
        Fault::Resets,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The kinds that a list names, with commas between them.
    pub(crate) fn parse_list(names: &str) -> Result<Vec<Fault>, String> {
        let kind = |name: &str| {
            let found = Fault::KINDS.into_iter().find(|kind| kind.name() == name);
            let known = || Fault::KINDS.map(Fault::name).join(", ");
            found.ok_or_else(|| format!("unknown kind of fault {name}: known are {}", known()))
        };
        names.split(',').map(kind).collect()
    }

    pub(crate) fn all() -> impl Iterator<Item = Fault> {
        Fault::KINDS.into_iter()
    }
}

/// The faults of a region.
pub(crate) const OF_REGION: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Freeze,
    Fault::Cut,
    Fault::Full,
    Fault::DiskErrors,
    Fault::Reload,
    Fault::Purge,
    Fault::Clock,
    Fault::Impostor,
];
/// The faults of a cold cluster: a gap in the log would flush it, and end its hold-offs.
pub(crate) const OF_COLD: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Freeze,
    Fault::Cut,
    Fault::Full,
    Fault::DiskErrors,
    Fault::Reload,
    Fault::Clock,
];
/// The faults of a master region and a replica region.
pub(crate) const OF_REGIONS: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Freeze,
    Fault::Cut,
    Fault::Full,
    Fault::DiskErrors,
    Fault::Reload,
    Fault::Purge,
    Fault::Clock,
    Fault::Lag,
];
/// The faults of programs without disks and databases.
pub(crate) const OF_CACHES: &[Fault] = &[Fault::Kill, Fault::Freeze, Fault::Cut, Fault::Clock];
/// The faults of nodes whose clients route by themselves.
pub(crate) const OF_POOLS: &[Fault] =
    &[Fault::Kill, Fault::Power, Fault::Freeze, Fault::Cut, Fault::Reload, Fault::Clock];
/// What happens to a pool whose keys move. It happens often.
pub(crate) const OF_MOVES: &[Fault] = &[Fault::Move, Fault::Move, Fault::Clock];
/// The faults of nodes, members, routers and etcd.
pub(crate) const OF_MEMBERSHIP: &[Fault] = &[
    Fault::Kill,
    Fault::Loss,
    Fault::Freeze,
    Fault::Cut,
    Fault::Isolation,
    Fault::Purge,
    Fault::NoLeader,
    Fault::Clock,
];

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
