//! Judges reads: the history of commits, and the versions below which no read of a cluster may be.

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::{Stopwatch, wall_clock_millis};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The commits of a row that are kept.
const COMMITS_MAX: usize = 64;

/// Locks a mutex even after a panic of another thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A version of a row that is known to be committed.
#[derive(Clone, Debug)]
pub struct Commit {
    pub version: u64,
    /// When the commit became known, since the start.
    pub at: Duration,
    pub writer: String,
}

impl fmt::Display for Commit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} by {} at {:?}", self.version, self.writer, self.at)
    }
}

#[derive(Debug)]
pub struct History {
    clock: Stopwatch,
    began: Duration,
    rows: Vec<Mutex<VecDeque<Commit>>>,
}

impl History {
    /// The history of this many rows, which starts now.
    pub fn of(rows: usize) -> Self {
        History {
            clock: Stopwatch::start(),
            began: Duration::from_millis(wall_clock_millis()),
            rows: (0..rows).map(|_| Mutex::default()).collect(),
        }
    }

    /// When it began, since 1970.
    pub fn began(&self) -> Duration {
        self.began
    }

    pub fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    pub fn committed(&self, row: usize, version: u64, writer: &str) {
        let mut commits = lock(&self.rows[row]);
        let at = self.now();
        if commits.len() == COMMITS_MAX {
            commits.pop_front();
        }
        // A later commit may be recorded first.
        let place = commits.iter().rposition(|commit| commit.version < version).map_or(0, |place| place + 1);
        commits.insert(place, Commit { version, at, writer: writer.to_owned() });
    }

    /// The highest version of each row.
    pub fn versions(&self) -> Vec<u64> {
        (0..self.rows.len()).map(|row| self.newest(row).map_or(0, |commit| commit.version)).collect()
    }

    /// The last commit of a row.
    pub fn newest(&self, row: usize) -> Option<Commit> {
        lock(&self.rows[row]).back().cloned()
    }

    /// The highest version that was committed by this time, among those that are kept.
    pub fn version_at(&self, row: usize, at: Duration) -> u64 {
        lock(&self.rows[row]).iter().rev().find(|commit| commit.at <= at).map_or(0, |commit| commit.version)
    }

    /// The first commit that is newer than this version.
    pub fn newer(&self, row: usize, version: u64) -> Option<Commit> {
        lock(&self.rows[row]).iter().find(|commit| commit.version > version).cloned()
    }
}

/// Whether a part that clients rely on has a fault, or had one when deletes were sent that have not arrived yet.
#[derive(Debug, Default)]
struct Trouble {
    faults: usize,
    generation: u64,
    /// The last generation all of whose deletes have arrived.
    settled: u64,
}

/// The least versions that reads of a cluster have to return.
#[derive(Debug)]
pub struct Sight {
    /// The version of each row whose deletes have all reached this cluster, as its invalidator and its router report.
    delivered: Vec<AtomicU64>,
    /// The times at which versions of each row were delivered.
    course: Vec<Mutex<Vec<(Duration, u64)>>>,
    /// For each row, the last version whose delete this cluster has confirmed to the writer, and the generation of
    /// the calm period in which it did.
    confirmed: Vec<Mutex<(u64, u64)>>,
    trouble: Mutex<Trouble>,
}

/// The least version that a read which begins now has to return.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// The version whose deletes have reached the cluster.
    pub delivered: u64,
    confirmed: Option<(u64, u64)>,
}

impl Sight {
    /// The state of a cluster with this many rows.
    pub fn of(rows: usize) -> Self {
        Sight {
            delivered: (0..rows).map(|_| AtomicU64::new(0)).collect(),
            course: (0..rows).map(|_| Mutex::default()).collect(),
            confirmed: (0..rows).map(|_| Mutex::default()).collect(),
            trouble: Mutex::default(),
        }
    }

    /// A fault begins in a part that clients rely on.
    pub fn fault_begins(&self) {
        let mut trouble = lock(&self.trouble);
        trouble.faults += 1;
        trouble.generation += 1;
    }

    pub fn fault_ends(&self) {
        lock(&self.trouble).faults -= 1;
    }

    /// The current generation, if there is no fault; it is settled once all deletes until now have arrived.
    pub fn calms(&self) -> Option<u64> {
        let trouble = lock(&self.trouble);
        (trouble.faults == 0).then_some(trouble.generation)
    }

    /// The generation of the current calm period: no fault, and no delete from before is missing.
    pub fn calm(&self) -> Option<u64> {
        let trouble = lock(&self.trouble);
        (trouble.faults == 0 && trouble.settled == trouble.generation).then_some(trouble.generation)
    }

    /// All deletes of these versions have arrived by `now`, and those of this generation.
    pub fn arrived(&self, versions: &[u64], calms: Option<u64>, now: Duration) {
        for ((delivered, course), version) in self.delivered.iter().zip(&self.course).zip(versions) {
            if delivered.fetch_max(*version, Ordering::SeqCst) < *version {
                lock(course).push((now, *version));
            }
        }
        if let Some(generation) = calms {
            lock(&self.trouble).settled = generation;
        }
    }

    /// The version that had been delivered at this time.
    pub fn delivered_at(&self, row: usize, time: Duration) -> u64 {
        let course = lock(&self.course[row]);
        course[..course.partition_point(|(at, _)| *at <= time)].last().map_or(0, |(_, version)| *version)
    }

    /// The cluster has confirmed the delete of a written row to its writer, in this calm period.
    pub fn confirmed(&self, row: usize, version: u64, calm: u64) {
        let mut confirmed = lock(&self.confirmed[row]);
        if confirmed.1 != calm || confirmed.0 < version {
            *confirmed = (version, calm);
        }
    }

    /// The least version that a read which begins now has to return.
    pub fn least(&self, row: usize) -> Least {
        let delivered = self.delivered[row].load(Ordering::SeqCst);
        let (version, generation) = *lock(&self.confirmed[row]);
        Least {
            delivered,
            confirmed: self.calm().filter(|calm| *calm == generation).map(|calm| (version, calm)),
        }
    }

    /// The version that a read which has ended had to see because its delete was confirmed, if no fault began during
    /// the read.
    pub fn still(&self, least: Least) -> Option<u64> {
        least.confirmed.filter(|(_, calm)| self.calm() == Some(*calm)).map(|(version, _)| version)
    }
}

#[cfg(test)]
mod tests {
    use super::{History, Sight};
    use std::time::Duration;

    #[test]
    fn what_a_writer_was_told_counts_in_its_time_without_trouble() {
        let sight = Sight::of(1);
        let calm = sight.calm().expect("nothing has happened");
        sight.confirmed(0, 5, calm);
        let before = sight.least(0);
        assert_eq!(sight.still(before), Some(5));
        sight.fault_begins();
        assert_eq!((sight.still(before), sight.calms()), (None, None));
        sight.fault_ends();
        assert_eq!(
            (sight.still(sight.least(0)), sight.calm()),
            (None, None),
            "its deletes may not have arrived"
        );
        sight.arrived(&[7], sight.calms(), Duration::from_secs(3));
        let after = sight.least(0);
        assert_eq!((after.delivered, sight.still(after), sight.calm().is_some()), (7, None, true));
    }

    #[test]
    fn what_was_delivered_is_known_for_each_time() {
        let sight = Sight::of(1);
        for (second, version) in [(1, 4), (2, 4), (3, 9)] {
            sight.arrived(&[version], None, Duration::from_secs(second));
        }
        let found = [0, 1, 2, 3, 4].map(|second| sight.delivered_at(0, Duration::from_secs(second)));
        assert_eq!(found, [0, 4, 4, 9, 9]);
    }

    #[test]
    fn commits_are_in_the_order_of_their_versions() {
        let history = History::of(1);
        [2, 3, 1].into_iter().for_each(|version| history.committed(0, version, "x"));
        assert_eq!(
            (history.versions(), history.newer(0, 1).map(|commit| commit.version)),
            (vec![3], Some(2))
        );
        assert!(history.newer(0, 3).is_none());
    }

    #[test]
    fn what_was_committed_by_some_time_is_the_highest_version_until_then() {
        let history = History::of(1);
        assert_eq!(history.version_at(0, Duration::from_secs(9)), 0);
        history.committed(0, 4, "x");
        assert_eq!((history.version_at(0, Duration::ZERO), history.version_at(0, history.now())), (0, 4));
    }
}
