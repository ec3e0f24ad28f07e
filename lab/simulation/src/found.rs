//! What a run has done and found.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A process is killed and started again.
    Kill,
    /// The host of a process loses power, and with it what its disk has not stored.
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
    /// The database removes the older part of its log.
    Purge,
}

/// What can happen to a region.
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
/// What can happen to programs without disks and databases.
pub(crate) const OF_CACHES: &[Fault] = &[Fault::Kill, Fault::Freeze, Fault::Cut];

#[derive(Clone, Copy, Debug, Default)]
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) counts: Counts,
    /// How often each kind of fault has struck.
    faults: Vec<(Fault, u64)>,
    pub(crate) wrong: Vec<String>,
}

impl Found {
    pub(crate) fn add(&mut self, other: &Found) {
        self.counts.add(other.counts);
        other.faults.iter().for_each(|(kind, count)| self.count(*kind, *count));
    }

    pub(crate) fn struck(&mut self, kind: Fault) {
        self.count(kind, 1);
    }

    /// A line that [`Found::parse`] reads.
    pub(crate) fn line(&self) -> String {
        let Counts { writes, reads, hits, failures } = self.counts;
        let faults: String = self.faults.iter().map(|(kind, count)| format!(" {kind:?}={count}")).collect();
        format!("{writes} {reads} {hits} {failures}{faults}")
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse().ok();
        let counts = Counts { writes: number()?, reads: number()?, hits: number()?, failures: number()? };
        let mut found = Found { counts, ..Found::default() };
        for word in words {
            let (name, count) = word.split_once('=')?;
            let kind = ALL.iter().find(|kind| format!("{kind:?}") == name)?;
            found.count(*kind, count.parse().ok()?);
        }
        Some(found)
    }

    fn count(&mut self, kind: Fault, count: u64) {
        match self.faults.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, counted)) => *counted += count,
            None => self.faults.push((kind, count)),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { writes, reads, hits, failures } = self.counts;
        write!(formatter, "{writes} writes, {reads} reads ({hits} hits), {failures} requests failed; ")?;
        for (kind, count) in &self.faults {
            write!(formatter, "{kind:?} {count}, ")?;
        }
        write!(formatter, "no reply was wrong")
    }
}
