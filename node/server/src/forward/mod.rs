//! Requests that another worker has to execute, since their keys are at home there.
//!
//! A connection's worker leaves a slot in the outbox for each of them and sends them to their home in a *forward batch*, where they are executed like a
//! batch of its own; the batch comes back with the replies, which fill the slots. What is sent is the request as it was understood, with its hash and a
//! copy of its bytes: nothing is parsed or hashed twice. No worker waits for another: each has a fixed number of forward batches, so that every inbox has
//! room for all of them, and while all are under way its connections wait, or their requests are executed here, which is slow and never wrong
//! (engines/mica/src/hold.rs). Long replies come in portions: the requests behind them are sent back as they are, and forwarded again when the replies were
//! sent. While memory for replies is short nothing is forwarded, and reads whose replies find none are executed again later.
//!
//! What depends on the order of requests waits until no slot is open: commands without a key whose effects matter, and requests that are executed here
//! although their key is at home elsewhere.

mod batch;
pub(crate) mod bytes;
mod inbox;
mod route;

pub(crate) use batch::{ForwardBatch, Leftover};
pub(crate) use route::Route;

use bytes::SPARE;
use guira_commands::Effect;
use guira_contract::{Access, KeyHash, Partitioning, ValuePin};
use guira_serving::{Arrival, ReplyTo};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_transport::Mailbox;
use inbox::Inbox;
use std::sync::Arc;

/// Forward batches that a connection may have under way: what comes back is held until the client takes it.
pub(crate) const BATCHES_OF_ONE: usize = 4;

const BATCHES: usize = 64;
#[derive(Debug)]
pub(crate) struct Inboxes<P> {
    of: Vec<Inbox<P>>,
    /// Forward batches of each worker that are under way. Relaxed: looked at only to know when all is over.
    out: Vec<AtomicU64>,
    /// Workers that have no connections any more, and get none. SeqCst is not needed: a worker that sees too few looks again when its bell rings.
    finished: AtomicU64,
}

impl<P> Inboxes<P> {
    /// Inboxes of all workers, each with room for all batches that there are.
    pub(crate) fn new(workers: usize) -> Self {
        Inboxes {
            of: (0..workers).map(|_| Inbox::with_capacity(workers * BATCHES)).collect(),
            out: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            finished: AtomicU64::new(0),
        }
    }

    /// Whether any batch is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.out.iter().any(|out| out.load(Ordering::Relaxed) > 0)
    }
}

#[derive(Debug)]
pub(crate) struct Forwarding<P> {
    worker: usize,
    inboxes: Arc<Inboxes<P>>,
    /// Whose threads may have to be woken.
    bells: Vec<Arc<Mailbox<Arrival>>>,
    /// How keys are divided, if it matters which worker executes a request.
    division: Option<Partitioning>,
    /// Forward batches that are not under way; they go from hand to hand as they are.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<ForwardBatch<P>>>,
    /// Bytes that they keep.
    kept: usize,
    /// Those that are being filled, for each worker.
    open: Vec<Option<Box<ForwardBatch<P>>>>,
}

impl<P: ValuePin> Forwarding<P> {
    pub(crate) fn new(
        worker: usize,
        inboxes: Arc<Inboxes<P>>,
        bells: Vec<Arc<Mailbox<Arrival>>>,
        partitioning: Option<Partitioning>,
    ) -> Self {
        let workers = bells.len();
        let division = partitioning.filter(|it| workers > 1 && it.access != Access::Crcw);
        let batches = if division.is_some() { BATCHES } else { 0 };
        let spare = (0..batches).map(|_| Box::new(ForwardBatch::new(worker))).collect();
        let open = (0..workers).map(|_| None).collect();
        Forwarding { worker, inboxes, bells, division, spare, kept: 0, open }
    }

    /// Whether it can matter which worker executes a request.
    #[inline(always)]
    pub(crate) fn is_in_use(&self) -> bool {
        self.division.is_some()
    }

    /// The worker that has to execute a request, if that is another one. `follows` says whether requests of the same connection are under way, one
    /// of which may be about the same key.
    #[inline(always)]
    pub(crate) fn home_elsewhere(&self, hash: KeyHash, effect: Effect, follows: bool) -> Option<usize> {
        let division = self.division.as_ref()?;
        let may_stay = division.access == Access::Crew && effect == Effect::Read && !follows;
        let home = division.home(hash, self.bells.len());
        (home != self.worker && !may_stay).then_some(home)
    }

    /// Whether a request is executed here, as far as is known before those in front of it are.
    #[inline(always)]
    pub(crate) fn is_local(&self, hash: KeyHash, effect: impl FnOnce() -> Effect) -> bool {
        !self.is_in_use() || self.home_elsewhere(hash, effect(), false).is_none()
    }

    /// The batch that is being filled for worker `to`, unless all are under way.
    fn batch_for(&mut self, to: usize) -> Option<&mut ForwardBatch<P>> {
        let batch = &mut self.open[to];
        if batch.is_none() {
            *batch = self.spare.pop();
            self.kept -= batch.as_ref().map_or(0, |batch| batch.kept);
        }
        batch.as_deref_mut()
    }

    /// Forwards requests again that came back. False if all batches are under way.
    pub(crate) fn forward_again(&mut self, sender: ReplyTo, leftover: &Leftover) -> bool {
        let Some(batch) = self.batch_for(leftover.to) else {
            return false;
        };
        for (request, item) in leftover.requests.items() {
            batch.push(sender, &item, request.hash, request.slot);
        }
        true
    }

    /// Forwards the batches. Replies of `full` bytes to each of them are enough.
    /// Returns how many were forwarded.
    pub(crate) fn dispatch(&mut self, full: usize) -> usize {
        // All together are to be no longer than what one worker would make.
        let full = full / self.open.iter().flatten().filter(|batch| !batch.is_empty()).count().max(1);
        let mut forwarded = 0;
        for to in 0..self.open.len() {
            match self.open[to].take() {
                Some(batch) if batch.is_empty() => {
                    self.kept += batch.kept;
                    self.spare.push(batch);
                }
                Some(mut batch) => {
                    (batch.to, batch.full) = (to, full);
                    let out = &self.inboxes.out[self.worker];
                    out.store(out.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    self.send(to, batch);
                    forwarded += 1;
                }
                None => {}
            }
        }
        forwarded
    }

    /// Whether one batch more, for worker `to`, would be too many at once.
    fn is_too_much(&self, to: usize) -> bool {
        self.open[to].is_none() && self.open.iter().flatten().count() >= BATCHES_OF_ONE
    }

    fn send(&self, to: usize, batch: Box<ForwardBatch<P>>) {
        if self.inboxes.of[to].put(batch) {
            self.bells[to].ring();
        }
    }

    /// The next batch for this worker.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Box<ForwardBatch<P>>> {
        if self.division.is_none() { None } else { self.inboxes.of[self.worker].take() }
    }

    /// Whether a batch is one of this worker's own, which comes back.
    pub(crate) fn is_own(&self, batch: &ForwardBatch<P>) -> bool {
        batch.from == self.worker
    }

    /// Sends a batch back that was dealt with.
    pub(crate) fn give_back(&self, batch: Box<ForwardBatch<P>>) {
        self.send(batch.from, batch);
    }

    /// A batch has come back and was emptied.
    pub(crate) fn keep(&mut self, mut batch: Box<ForwardBatch<P>>) {
        self.kept += batch.clear(SPARE - self.kept);
        self.spare.push(batch);
        let out = &self.inboxes.out[self.worker];
        out.store(out.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// The worker is about to sleep. False if there is a batch for it.
    pub(crate) fn park(&self) -> bool {
        self.division.is_none() || self.inboxes.of[self.worker].park()
    }

    pub(crate) fn unpark(&self) {
        self.inboxes.of[self.worker].unpark();
    }

    /// The worker has no connections any more, and gets none. Called once.
    pub(crate) fn finish(&self) {
        if self.division.is_some() {
            self.inboxes.finished.fetch_add(1, Ordering::AcqRel);
            self.bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// Whether no worker has anything to forward any more.
    pub(crate) fn is_over(&self) -> bool {
        let finished = self.inboxes.finished.load(Ordering::Acquire);
        self.division.is_none() || (finished == self.bells.len() as u64 && !self.inboxes.is_busy())
    }
}
