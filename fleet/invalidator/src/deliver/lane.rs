//! What a target has to do, in the order of the log: first what waits in memory, or in its spool if it is unreachable; and after a while once more.
//!
//! A batch is acknowledged for good once it was delivered for the last time, or is in the spool and on the disk. The spool is written when the queue has had no room for a while: all that is not
//! acknowledged yet goes there, in order, and so does what comes next, until the target has read all of it.

use super::spool::{Place, RECORD_KEY_MAX, Spool};
use crate::batch::Batch;
use crate::counters::{TargetCount, TargetCounts};
use crate::ledger::Ledger;
use guira_sync::clock::Stopwatch;
use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use guira_sync::stop::Stopped;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The weight of what waits for its second delivery: a batch has one, and so has each of its keys.
const AWAITING_MAX: usize = 1 << 17;
/// How long it is waited after the disk has failed.
const RETRY: Duration = Duration::from_millis(500);
/// It is looked again after this time, even if nobody says that anything has changed.
const LOOK: Duration = Duration::from_secs(1);

/// How much waits, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most keys that are delivered together.
    pub(crate) batch_keys: usize,
    /// The most that the queue has: keys, and batches without one.
    pub(crate) queue_weight: usize,
    /// How long batches wait for others, to go together.
    pub(crate) linger: Duration,
    /// How long after the first delivery the second is. Without it there is none.
    pub(crate) again_after: Option<Duration>,
    /// For how long a queue without room is waited for before the spool is written.
    pub(crate) spool_after: Duration,
}

impl Limits {
    /// What everything that may be in memory takes in a spool, in bytes.
    pub(crate) fn spool_bytes(&self) -> u64 {
        // A batch is taken if there is room for one key, and another is being added. The one that a batch weighs more than its keys is its head.
        let queue = self.queue_weight + 2 * self.batch_keys;
        let awaiting = if self.again_after.is_some() { AWAITING_MAX + self.batch_keys } else { 0 };
        (queue + awaiting) as u64 * RECORD_KEY_MAX
    }
}

/// What a target has to do.
#[derive(Debug)]
pub(crate) struct Lane {
    number: usize,
    limits: Limits,
    ledger: Arc<Ledger>,
    counts: Arc<TargetCounts>,
    clock: Stopwatch,
    /// LOCK: invalidator_lane. Held while the spool is written; before invalidator_ledger.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What was not delivered yet, and when it came. What is under way is still there.
    queue: VecDeque<(Arc<Batch>, Duration)>,
    queue_weight: usize,
    /// What was delivered once.
    awaiting: VecDeque<Awaiting>,
    awaiting_weight: usize,
    spool: Option<Spool>,
    has_ended: bool,
}

#[derive(Debug)]
struct Awaiting {
    batch: Arc<Batch>,
    origin: Origin,
    due: Duration,
}

/// Where a batch has come from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Log,
    Spool(Place),
}

/// What is to be delivered now, together.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) batches: Vec<Arc<Batch>>,
    pub(super) round: Round,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Round {
    First(FirstRound),
    Again,
}

/// Which of the batches of a first delivery come from the spool: one, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstRound(Origin);

fn weight(batch: &Batch) -> usize {
    1 + batch.keys()
}

impl Lane {
    pub(crate) fn new(
        number: usize,
        limits: Limits,
        spool: Option<Spool>,
        ledger: Arc<Ledger>,
        counts: Arc<TargetCounts>,
    ) -> Self {
        counts.set_spool(spool.as_ref().map_or(0, Spool::bytes));
        let state = Mutex::new(State { spool, ..State::default() });
        Lane { number, limits, ledger, counts, clock: Stopwatch::start(), state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, duration: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, duration)
    }

    pub(crate) fn counts(&self) -> &Arc<TargetCounts> {
        &self.counts
    }

    /// Nothing more is taken or given.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Adds a batch; waits if there is no room, and no disk either.
    pub(crate) fn push(&self, batch: &Arc<Batch>) -> Result<(), Stopped> {
        let since = self.clock.elapsed();
        let mut state = self.state();
        loop {
            if state.has_ended {
                return Err(Stopped);
            }
            let now = self.clock.elapsed();
            let is_spooling = state.spool.as_ref().is_some_and(|spool| !spool.is_read());
            let has_room = state.queue_weight < self.limits.queue_weight;
            let mut duration = LOOK;
            if !is_spooling && has_room {
                state.queue_weight += weight(batch);
                state.queue.push_back((batch.clone(), now));
                self.changed.notify_all();
                return Ok(());
            }
            let patience = self.limits.spool_after.saturating_sub(now.saturating_sub(since));
            if is_spooling || patience.is_zero() && state.spool.is_some() {
                if self.spool(&mut state, batch) {
                    self.changed.notify_all();
                    return Ok(());
                }
                duration = RETRY;
            } else if state.spool.is_some() {
                duration = patience.min(LOOK);
            }
            state = self.wait(state, duration);
        }
    }

    /// Puts everything that is not acknowledged, and this, into the spool; returns whether it is on the disk.
    fn spool(&self, state: &mut State, batch: &Batch) -> bool {
        let State { queue, awaiting, spool: Some(spool), .. } = state else { return false };
        let of_log = awaiting.iter().filter(|it| matches!(it.origin, Origin::Log)).map(|it| &*it.batch);
        let waiting = of_log.chain(queue.iter().map(|(batch, _)| &**batch));
        let all = waiting.chain([batch]).filter(|batch| !batch.is_empty());
        let mut count = 0;
        let added = spool.append(all.inspect(|_| count += 1).map(Batch::work));
        let name = self.counts.name();
        if let Err(error) = added {
            if self.counts.add(TargetCount::SpoolFailures, 1) == 0 {
                // Operator: Free space in the spool's folder. No target receives deletes until then.
                tracing::error!(
                    "cannot write the spool of target {name}; reading of the log is paused for all \
                         targets: {error}"
                );
            }
            return false;
        }
        if !queue.is_empty() {
            // Operator: Check the target. Its deletes are kept on disk and sent when it answers.
            tracing::warn!("target {name} is unreachable or slow; spooling its deletes");
        }
        self.counts.add(TargetCount::Spooled, count);
        self.counts.set_spool(spool.bytes());
        awaiting.retain(|it| matches!(it.origin, Origin::Spool(_)));
        queue.clear();
        state.queue_weight = 0;
        state.awaiting_weight = state.awaiting.iter().map(|it| weight(&it.batch)).sum();
        self.ledger.acknowledged(self.number, batch.number());
        true
    }

    /// What is to be delivered next; waits for it. `None` at the end.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return None;
            }
            match self.look(&mut state, self.clock.elapsed()) {
                Ok(task) => return Some(task),
                Err(duration) => state = self.wait(state, duration),
            }
        }
    }

    /// What is to be delivered at this time, or how long nothing is if nothing changes.
    fn look(&self, state: &mut State, now: Duration) -> Result<Task, Duration> {
        let mut wait = LOOK;
        if let Some(front) = state.awaiting.front() {
            if front.due <= now {
                return Ok(self.again(state, now));
            }
            wait = wait.min(front.due - now);
        }
        if state.awaiting_weight >= AWAITING_MAX {
            return Err(wait);
        }
        if let Some((_, came)) = state.queue.front() {
            let ready = *came + self.limits.linger;
            if ready > now && state.queue_weight < self.limits.batch_keys {
                return Err(wait.min(ready - now));
            }
            let batches = together(state.queue.iter().map(|(batch, _)| batch), self.limits.batch_keys);
            return Ok(Task { batches, round: Round::First(FirstRound(Origin::Log)) });
        }
        match state.spool.as_mut().map(Spool::next) {
            Some(Ok(Some((work, place)))) => {
                let batches = vec![Arc::new(Batch::new(0, work))];
                Ok(Task { batches, round: Round::First(FirstRound(Origin::Spool(place))) })
            }
            Some(Err(error)) => {
                if self.counts.add(TargetCount::SpoolFailures, 1) == 0 {
                    // Operator: Check the disk and the permissions of the folder.
                    tracing::error!("cannot read the spool of target {}: {error}", self.counts.name());
                }
                Err(wait.min(RETRY))
            }
            Some(Ok(None)) | None => Err(wait),
        }
    }

    /// Those whose time has come, and those whose time is near.
    fn again(&self, state: &State, now: Duration) -> Task {
        let near = now + self.limits.again_after.unwrap_or_default() / 4;
        let due = state.awaiting.iter().take_while(|it| it.due <= near).map(|it| &it.batch);
        Task { batches: together(due, self.limits.batch_keys), round: Round::Again }
    }

    pub(super) fn delivered(&self, task: &Task) {
        let mut state = self.state();
        for batch in &task.batches {
            match task.round {
                Round::First(first) => self.first(&mut state, batch, first),
                Round::Again => {
                    // What went to the spool meanwhile is there.
                    let is_it = state.awaiting.front().is_some_and(|it| Arc::ptr_eq(&it.batch, batch));
                    if let Some(done) = is_it.then(|| state.awaiting.pop_front()).flatten() {
                        state.awaiting_weight -= weight(&done.batch);
                        self.done(&mut state, &done);
                    }
                }
            }
        }
        self.changed.notify_all();
    }

    fn first(&self, state: &mut State, batch: &Arc<Batch>, FirstRound(origin): FirstRound) {
        if matches!(origin, Origin::Log) {
            // What went to the spool meanwhile is delivered again from there.
            if !state.queue.front().is_some_and(|(front, _)| Arc::ptr_eq(front, batch)) {
                return;
            }
            state.queue.pop_front();
            state.queue_weight -= weight(batch);
            self.ledger.given(self.number, batch.number());
        }
        let again_after = self.limits.again_after.filter(|_| !batch.is_empty()).unwrap_or_default();
        let due = self.clock.elapsed() + again_after;
        let entry = Awaiting { batch: batch.clone(), origin, due };
        // The number of a batch stands for all before it.
        if again_after.is_zero() && state.awaiting.is_empty() {
            self.done(state, &entry);
        } else {
            state.awaiting_weight += weight(batch);
            state.awaiting.push_back(entry);
        }
    }

    fn done(&self, state: &mut State, entry: &Awaiting) {
        match (entry.origin, &mut state.spool) {
            (Origin::Spool(place), Some(spool)) => {
                spool.release(place);
                self.counts.set_spool(spool.bytes());
            }
            _ => self.ledger.acknowledged(self.number, entry.batch.number()),
        }
    }
}

/// The first of these batches, and those behind that may go with it.
fn together<'a>(mut batches: impl Iterator<Item = &'a Arc<Batch>>, keys_max: usize) -> Vec<Arc<Batch>> {
    let is_flush = |batch: &Batch| batch.keys() == 0 && !batch.is_empty();
    let Some(first) = batches.next() else { return Vec::new() };
    let mut keys = first.keys();
    let mut taken = vec![first.clone()];
    if !is_flush(first) {
        let more = batches.take_while(|batch| {
            keys += batch.keys();
            keys <= keys_max && !is_flush(batch)
        });
        taken.extend(more.cloned());
    }
    taken
}

#[cfg(test)]
impl Lane {
    /// One that nobody empties, for tests of who fills it.
    pub(crate) fn for_tests(ledger: Arc<Ledger>) -> Self {
        Lane::new(0, tests::LIMITS, None, ledger, Arc::new(TargetCounts::new("east")))
    }

    pub(crate) fn pop(&self) -> Option<Arc<Batch>> {
        self.state().queue.pop_front().map(|(batch, _)| batch)
    }
}

#[cfg(test)]
mod tests;
