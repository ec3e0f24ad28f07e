//! Gathers the keys of several transactions into one batch.

use crate::batch::{Batch, Work};
use crate::counters::{Count, Counts};
use crate::deliver::Lane;
use crate::ledger::Ledger;
use crate::source::Place;
use guira_sync::stop::Stopped;
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::sync::Arc;

/// Without any key to delete, a position is still passed on after this many transactions.
const TRANSACTIONS_MAX: u32 = 1000;

/// Gathers keys into batches, and gives each batch to the lanes of all targets.
#[derive(Debug)]
pub(crate) struct Batcher {
    lanes: Vec<Arc<Lane>>,
    ledger: Arc<Ledger>,
    counts: Arc<Counts>,
    keys_max: usize,
    keys: BTreeSet<Box<[u8]>>,
    /// The commit time of the first change since the last batch.
    since: Option<u64>,
    /// The end of the last transaction that was read, if the last batch does not have it already.
    position: String,
    transactions: u32,
    number: u64,
}

impl Batcher {
    pub(crate) fn new(
        lanes: Vec<Arc<Lane>>,
        ledger: Arc<Ledger>,
        counts: Arc<Counts>,
        keys_max: usize,
    ) -> Self {
        Batcher {
            lanes,
            ledger,
            counts,
            keys_max,
            keys: BTreeSet::new(),
            since: None,
            position: String::new(),
            transactions: 0,
            number: 0,
        }
    }

    /// Adds a key that a transaction with this commit time has changed. Blocks while the queues of
    /// the targets are full.
    pub(crate) fn add(&mut self, key: &[u8], when: u64) -> Result<(), Stopped> {
        self.since.get_or_insert(when);
        if !self.keys.contains(key) {
            self.keys.insert(key.into());
        }
        if self.keys.len() >= self.keys_max { self.send() } else { Ok(()) }
    }

    /// A transaction ends at `position`; all of its keys were added.
    pub(crate) fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
        self.since.get_or_insert(when);
        self.position.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.position, "{position}");
        self.transactions += 1;
        if self.transactions >= TRANSACTIONS_MAX { self.send() } else { Ok(()) }
    }

    /// The log has nothing more to read at the moment: the keys gathered so far are sent.
    pub(crate) fn pause(&mut self) -> Result<(), Stopped> {
        if self.keys.is_empty() && self.transactions == 0 { Ok(()) } else { self.send() }
    }

    /// Records that the reader has come to `place`, unless a batch is still being gathered.
    pub(crate) fn passed(&mut self, place: Place) {
        if self.keys.is_empty() && self.transactions == 0 {
            self.ledger.passed(place);
        }
    }

    /// Reports a gap: the changes before `position` are lost, so that all targets have to be
    /// flushed.
    pub(crate) fn skipped(&mut self, position: &str, when: u64) -> Result<(), Stopped> {
        self.pause()?;
        self.give(Work::Flush, when, Some(position.to_owned()))
    }

    fn send(&mut self) -> Result<(), Stopped> {
        let position = (self.transactions > 0).then(|| std::mem::take(&mut self.position));
        self.transactions = 0;
        let keys = std::mem::take(&mut self.keys).into_iter().collect();
        let since = self.since.take().unwrap_or(0);
        self.give(Work::Delete(keys), since, position)
    }

    fn give(&mut self, work: Work, since: u64, position: Option<String>) -> Result<(), Stopped> {
        self.number += 1;
        self.ledger.sent(self.number, since, position);
        let batch = Arc::new(Batch::new(self.number, work));
        self.counts.add(Count::Batches);
        self.lanes.iter().try_for_each(|lane| lane.push(&batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn batcher(keys_max: usize) -> (Batcher, Arc<Lane>, Arc<Ledger>) {
        let ledger = Arc::new(Ledger::new(1));
        let lane = Arc::new(Lane::for_tests(ledger.clone()));
        (Batcher::new(vec![lane.clone()], ledger.clone(), Arc::default(), keys_max), lane, ledger)
    }

    fn keys(lane: &Lane) -> Vec<String> {
        let batch = lane.pop().expect("a batch");
        let Work::Delete(keys) = batch.work() else { panic!("{batch:?}") };
        keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    #[test]
    fn transactions_share_a_batch_in_which_each_key_is_once() {
        let (mut batcher, batches, ledger) = batcher(10);
        for (key, position) in [("b", "0-1-1"), ("a", "0-1-2"), ("b", "0-1-3")] {
            batcher.add(key.as_bytes(), 7).unwrap();
            batcher.committed(&position, 7).unwrap();
        }
        assert!(batches.pop().is_none(), "more may come");
        batcher.pause().unwrap();
        assert_eq!(keys(&batches), ["a", "b"]);
        ledger.acknowledged(0, 1);
        assert_eq!(ledger.take(Duration::ZERO).as_deref(), Some("0-1-3"));
        batcher.pause().unwrap();
        assert!(batches.pop().is_none(), "nothing is left");
    }

    #[test]
    fn a_long_transaction_goes_in_several_batches_of_which_the_last_has_its_end() {
        let (mut batcher, batches, ledger) = batcher(2);
        batcher.committed(&"0-1-1", 7).unwrap();
        for key in ["a", "b", "c"] {
            batcher.add(key.as_bytes(), 7).unwrap();
        }
        assert_eq!(keys(&batches), ["a", "b"]);
        ledger.acknowledged(0, 1);
        assert_eq!(ledger.take(Duration::ZERO).as_deref(), Some("0-1-1"), "the transaction before");
        batcher.committed(&"0-1-2", 7).unwrap();
        batcher.pause().unwrap();
        assert_eq!(keys(&batches), ["c"]);
        ledger.acknowledged(0, 2);
        assert_eq!(ledger.take(Duration::ZERO).as_deref(), Some("0-1-2"));
    }

    #[test]
    fn positions_advance_without_keys_as_well() {
        let (mut batcher, batches, _) = batcher(2);
        for number in 0..TRANSACTIONS_MAX {
            assert!(batches.pop().is_none(), "after {number}");
            batcher.committed(&number, 7).unwrap();
        }
        assert_eq!(keys(&batches), [""; 0]);
    }

    #[test]
    fn a_gap_is_followed_by_the_position_behind_it() {
        let (mut batcher, batches, ledger) = batcher(10);
        batcher.add(b"a", 7).unwrap();
        batcher.skipped("0-1-9", 7).unwrap();
        assert_eq!(keys(&batches), ["a"]);
        assert!(matches!(batches.pop().unwrap().work(), Work::Flush));
        ledger.acknowledged(0, 1);
        assert_eq!(ledger.take(Duration::ZERO), None);
        ledger.acknowledged(0, 2);
        assert_eq!(ledger.take(Duration::ZERO).as_deref(), Some("0-1-9"));
    }

    #[test]
    fn a_place_is_passed_once_the_keys_before_it_are_deleted() {
        let (mut batcher, batches, ledger) = batcher(10);
        let place = |offset| Place { file: 1, offset };
        batcher.passed(place(1));
        assert_eq!(ledger.place(), Some(place(1)));
        batcher.add(b"a", 7).unwrap();
        batcher.passed(place(2));
        batcher.committed(&"0-1-1", 7).unwrap();
        batcher.passed(place(3));
        batcher.pause().unwrap();
        assert_eq!((keys(&batches), ledger.place()), (vec!["a".to_owned()], Some(place(1))));
        batcher.passed(place(4));
        assert_eq!(ledger.place(), Some(place(1)));
        ledger.acknowledged(0, 1);
        assert_eq!(ledger.place(), Some(place(4)));
    }

    #[test]
    fn it_ends_when_the_targets_do() {
        let (mut batcher, batches, _) = batcher(1);
        batches.end();
        assert_eq!(batcher.add(b"a", 7), Err(Stopped));
    }
}
