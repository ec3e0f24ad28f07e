//! Judges whether a read is as fresh as the documents promise.
//!
//! There are two promises. A read is not older than the deletes that all caches have received
//! (docs/guide/invalidator.md). While there is no fault, a deleted value is gone once the writer
//! has its reply (docs/guide/client.md). The gutter receives no deletes (docs/guide/freshness.md):
//! its values may be as old as the lifetime of an item plus that of the lease by which the item was
//! filled.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use guira_regions::judge::{History, Least, Sight, lock};

use crate::programs::GUTTER_S;
use crate::rows::ROWS;

/// The lifetime of a lease, with the longest time that a fill is in flight.
const LEASE_S: u64 = 12;
/// The greatest age of a value in the gutter.
const GUTTER_MAX: Duration = Duration::from_secs(GUTTER_S + LEASE_S);

/// The history of commits, the deletes that caches have received, and the fills of the gutter.
#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) history: History,
    pub(crate) sight: Sight,
    /// The number of items that the gutter was given by some times; `None` if it did not reply.
    /// LOCK: demo_gutter. Leaf.
    gutter: Mutex<VecDeque<(Duration, Option<u64>)>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    row: usize,
    at: Duration,
    least: Least,
    newest: u64,
}

/// The judgement of a read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The read is older than the last commit before it began.
    pub(crate) is_stale: bool,
    /// A lower bound of the version was known.
    pub(crate) is_judged: bool,
    /// The reason that the read is wrong.
    pub(crate) wrong: Option<String>,
}

impl Truth {
    pub(crate) fn new() -> Self {
        Truth { history: History::of(ROWS), sight: Sight::of(ROWS), gutter: Mutex::default() }
    }

    pub(crate) fn begin(&self, row: usize) -> Begun {
        let newest = self.history.newest(row).map_or(0, |commit| commit.version);
        Begun { row, at: self.history.now(), least: self.sight.least(row), newest }
    }

    /// Judges a read. `given` returns the number of items that the gutter was given so far.
    pub(crate) fn judge(&self, read: Begun, seen: u64, given: impl FnOnce() -> Option<u64>) -> Verdict {
        let delivered = self.sight.still(read.least);
        let least = read.least.delivered.max(delivered.unwrap_or(0));
        let mut verdict = Verdict { is_stale: seen < read.newest, is_judged: least > 0, wrong: None };
        if seen >= least {
            return verdict;
        }
        let bound = self.history.version_at(read.row, read.at.saturating_sub(GUTTER_MAX));
        self.note_gutter(given());
        if seen >= bound && self.gutter_was_given(read.at.saturating_sub(GUTTER_MAX)) {
            return verdict;
        }
        let newer = self.history.newer(read.row, seen).map_or_else(String::new, |newer| newer.to_string());
        verdict.wrong = Some(format!(
            "row {} was read with version {seen} from {:?} to {:?}: deletes of {} had reached all caches, a writer had received {delivered:?}; the first newer one is {newer}",
            read.row,
            read.at,
            self.history.now(),
            read.least.delivered,
        ));
        verdict
    }

    /// Whether the gutter may hold this version.
    pub(crate) fn may_be_in_gutter(&self, row: usize, version: u64) -> bool {
        version >= self.history.version_at(row, self.history.now().saturating_sub(GUTTER_MAX))
    }

    /// Records the number of items that the gutter was given so far.
    pub(crate) fn note_gutter(&self, given: Option<u64>) {
        let now = self.history.now();
        let mut gutter = lock(&self.gutter);
        gutter.push_back((now, given));
        // The last sample before the bound stays.
        while gutter.get(1).is_some_and(|(at, _)| *at + GUTTER_MAX * 2 < now) {
            gutter.pop_front();
        }
    }

    /// Whether the gutter was given an item since then, as far as known.
    fn gutter_was_given(&self, since: Duration) -> bool {
        let gutter = lock(&self.gutter);
        let before = gutter.iter().rev().find(|(at, _)| *at <= since).or(gutter.front());
        let later = gutter.iter().filter(|(at, _)| *at > since);
        let mut all = before.into_iter().chain(later).map(|(_, given)| *given);
        let first = all.next().flatten();
        first.is_none() || all.any(|given| given != first)
    }
}

#[cfg(test)]
mod tests {
    use super::Truth;

    #[test]
    fn what_is_older_than_its_deletes_is_wrong_unless_the_gutter_may_have_had_it() {
        let truth = Truth::new();
        truth.note_gutter(Some(0));
        let read = |seen, given| truth.judge(truth.begin(7), seen, || Some(given)).wrong.is_some();
        truth.history.committed(7, 1, "a");
        truth.history.committed(7, 2, "b");
        let before = truth.judge(truth.begin(7), 1, || Some(0));
        assert_eq!((before.is_stale, before.is_judged, before.wrong), (true, false, None));
        truth.sight.arrived(&truth.history.versions(), truth.sight.calms(), truth.history.now());
        assert!(read(1, 0) && !read(2, 0));
        assert!(!read(1, 3), "it was given items a moment ago");
    }

    #[test]
    fn what_a_writer_was_told_is_gone_while_nothing_is_wrong() {
        let truth = Truth::new();
        truth.note_gutter(Some(0));
        truth.history.committed(7, 5, "a");
        truth.sight.confirmed(7, 5, truth.sight.calm().unwrap());
        let read = truth.begin(7);
        assert!(truth.judge(read, 4, || Some(0)).wrong.is_some());
        truth.sight.fault_begins();
        assert_eq!(truth.judge(read, 4, || Some(0)).wrong, None);
    }
}
