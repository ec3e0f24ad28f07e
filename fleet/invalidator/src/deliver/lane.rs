//! The batches that one target has still to receive, in the order of the log. They wait in memory,
//! or in the target's spool while the target is unreachable; each is delivered a second time later.
//!
//! A batch is acknowledged after its second delivery, or once it is in the spool and synced. The
//! spool is written when the queue has been full for a while: the queue moves there as a whole, and
//! all later batches follow, until the target has read the spool to its end.

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

/// The most batches that may wait for their second delivery, by weight: one for the batch and one
/// for each of its keys.
const AWAITING_MAX: usize = 1 << 17;
/// The wait after an error of the disk.
const RETRY: Duration = Duration::from_millis(500);
/// The lane is checked again after this time even without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// The limits of a target's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most keys that are delivered together.
    pub(crate) batch_keys: usize,
    /// The capacity of the queue: keys, and batches without keys.
    pub(crate) queue_weight: usize,
    /// A batch waits this long for others, so that they are delivered together.
    pub(crate) linger: Duration,
    /// The time from the first delivery to the second; `None` turns the second off.
    pub(crate) again_after: Option<Duration>,
    /// The spool is written after the queue was full for this time.
    pub(crate) spool_after: Duration,
}

impl Limits {
    /// The bytes that a spool needs for everything that may be in memory.
    pub(crate) fn spool_bytes(&self) -> u64 {
        // A batch is accepted if there is room for one key, while another batch is being added. The
        // one by which a batch weighs more than its keys covers its head in the file.
        let queue = self.queue_weight + 2 * self.batch_keys;
        let awaiting = if self.again_after.is_some() { AWAITING_MAX + self.batch_keys } else { 0 };
        (queue + awaiting) as u64 * RECORD_KEY_MAX
    }
}

/// The queue of one target.
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
    /// Batches that were not delivered yet, and when each arrived. A batch stays here during its
    /// delivery.
    queue: VecDeque<(Arc<Batch>, Duration)>,
    queue_weight: usize,
    /// Batches that were delivered once.
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

/// The place from which a batch was taken.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Log,
    Spool(Place),
}

/// Batches to be delivered now, in one write.
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

/// Where the batches of a first delivery come from.
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

    /// Ends the lane: `push` fails, and `next` returns `None`.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Adds a batch. Blocks while neither the queue nor the spool has room.
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

    /// Moves every unacknowledged batch and this one into the spool; returns whether they are
    /// synced.
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

    /// Waits for the next delivery; `None` at the end.
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

    /// The delivery that is due now, or the time to wait if no batch arrives.
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

    /// The batches whose second delivery is due, and those that are due soon.
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
                    // The batch may have moved to the spool during its delivery.
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
            // The batch moved to the spool during its delivery, and is delivered again from there.
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
        // The acknowledgement of a batch includes all batches before it.
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

/// The first of these batches, and the following ones that fit into the same delivery.
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
    /// A lane without a delivery thread, for tests of its producers.
    pub(crate) fn for_tests(ledger: Arc<Ledger>) -> Self {
        Lane::new(0, tests::LIMITS, None, ledger, Arc::new(TargetCounts::new("east")))
    }

    pub(crate) fn pop(&self) -> Option<Arc<Batch>> {
        self.state().queue.pop_front().map(|(batch, _)| batch)
    }
}

#[cfg(test)]
mod tests;
