//! Tracks the batches in flight, and the position up to which every target has acknowledged them.

use crate::source::Place;
use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use guira_sync::simulated::is_planted;
use std::collections::VecDeque;
use std::time::Duration;

/// The state of all batches in flight. Their number is bounded by the queues of the targets. The
/// default has no targets.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// LOCK: invalidator_ledger. Leaf.
    state: Mutex<State>,
    advanced: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: VecDeque<Sent>,
    /// For each target, the last batch that was delivered once or is in its spool.
    given: Vec<u64>,
    /// For each target, the last acknowledged batch; targets acknowledge in order.
    acknowledged: Vec<u64>,
    /// A position that may be saved, until it is taken.
    reached: Option<String>,
    /// The place up to which all targets have acknowledged everything.
    place: Option<Place>,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    /// The commit time of its first change, in seconds since 1970.
    since: u64,
    /// The position at which the log is read once the batch is acknowledged, if it moves.
    position: Option<String>,
    /// How far the log was read while this was the last batch.
    place: Option<Place>,
}

impl Ledger {
    /// A ledger without batches. Batches are numbered from 1.
    pub(crate) fn new(targets: usize) -> Self {
        let state = State { given: vec![0; targets], acknowledged: vec![0; targets], ..State::default() };
        Ledger { state: Mutex::new(state), advanced: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Records a batch before it is pushed to the lanes.
    pub(crate) fn sent(&self, number: u64, since: u64, position: Option<String>) {
        if is_planted("position-early") {
            self.state().reached.clone_from(&position);
        }
        self.state().under_way.push_back(Sent { number, since, position, place: None });
    }

    /// Records that the reader has come to `place`, with all changes before it in batches.
    pub(crate) fn passed(&self, place: Place) {
        let mut state = self.state();
        match state.under_way.back_mut() {
            Some(last) => last.place = Some(place),
            None => state.place = Some(place),
        }
    }

    /// The place up to which all targets have acknowledged everything, if known.
    pub(crate) fn place(&self) -> Option<Place> {
        self.state().place
    }

    /// A target has executed the deletes up to this batch once; a second delivery may follow.
    pub(crate) fn given(&self, target: usize, number: u64) {
        let given = &mut self.state().given[target];
        *given = number.max(*given);
    }

    /// A target has acknowledged a batch for good, and all batches before it.
    pub(crate) fn acknowledged(&self, target: usize, number: u64) {
        let mut state = self.state();
        state.given[target] = number.max(state.given[target]);
        state.acknowledged[target] = number.max(state.acknowledged[target]);
        let by_all = state.acknowledged.iter().copied().min().unwrap_or(0);
        while state.under_way.front().is_some_and(|sent| sent.number <= by_all) {
            if let Some(sent) = state.under_way.pop_front() {
                state.reached = sent.position.or(state.reached.take());
                state.place = sent.place.or(state.place);
            }
        }
        if state.reached.is_some() {
            self.advanced.notify_all();
        }
    }

    /// Takes the newest position that may be saved; waits up to `duration` for one.
    pub(crate) fn take(&self, duration: Duration) -> Option<String> {
        let has_none = |state: &mut State| state.reached.is_none();
        self.advanced.wait_timeout_while(self.state(), duration, has_none).reached.take()
    }

    /// The commit time of the oldest change that some target has neither executed nor spooled.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let state = self.state();
        let by_all = state.given.iter().copied().min().unwrap_or(0);
        let at = state.under_way.partition_point(|sent| sent.number <= by_all);
        state.under_way.get(at).map(|sent| sent.since)
    }

    /// Whether no batch is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.state().under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(ledger: &Ledger) -> Option<String> {
        ledger.take(Duration::ZERO)
    }

    #[test]
    fn a_position_counts_once_all_targets_have_acknowledged_what_is_before() {
        let ledger = Ledger::new(2);
        ledger.sent(1, 100, Some("a".to_owned()));
        ledger.sent(2, 101, None);
        ledger.sent(3, 102, Some("b".to_owned()));
        ledger.acknowledged(0, 1);
        ledger.acknowledged(0, 2);
        ledger.acknowledged(0, 3);
        assert_eq!((taken(&ledger), ledger.oldest()), (None, Some(100)));
        ledger.acknowledged(1, 1);
        assert_eq!((taken(&ledger).as_deref(), ledger.oldest()), (Some("a"), Some(101)));
        ledger.acknowledged(1, 2);
        assert_eq!(taken(&ledger), None, "the middle of a transaction is no position");
        ledger.acknowledged(1, 3);
        assert_eq!((taken(&ledger).as_deref(), ledger.oldest()), (Some("b"), None));
    }

    #[test]
    fn what_was_given_is_no_lag_and_no_position() {
        let ledger = Ledger::new(2);
        ledger.sent(1, 100, Some("a".to_owned()));
        ledger.sent(2, 101, Some("b".to_owned()));
        ledger.given(0, 2);
        assert_eq!(ledger.oldest(), Some(100));
        ledger.given(1, 1);
        assert_eq!((ledger.oldest(), taken(&ledger)), (Some(101), None));
        ledger.given(1, 2);
        assert_eq!((ledger.oldest(), ledger.is_settled()), (None, false));
        ledger.acknowledged(0, 2);
        ledger.acknowledged(0, 1);
        ledger.acknowledged(1, 2);
        assert_eq!((taken(&ledger).as_deref(), ledger.is_settled()), (Some("b"), true));
    }

    #[test]
    fn the_newest_position_is_taken_once() {
        let ledger = Ledger::new(1);
        ledger.sent(1, 1, Some("a".to_owned()));
        ledger.sent(2, 1, Some("b".to_owned()));
        ledger.acknowledged(0, 2);
        assert_eq!((taken(&ledger).as_deref(), taken(&ledger)), (Some("b"), None));
    }
}
