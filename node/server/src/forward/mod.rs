//! Forwards requests to other workers: those whose partition belongs to another worker.
//!
//! For each such request the connection's worker leaves a slot in the outbox, and sends the request
//! to its home worker in a *forward batch*. The home worker executes the batch like one of its own,
//! and returns it with the replies, which fill the slots. The batch has the parsed request, its
//! hash and a copy of its bytes, so nothing is parsed or hashed twice. No worker waits for another:
//! each has a fixed number of forward batches, and every inbox has room for all of them. While all
//! batches of a worker are in flight, its connections wait, or their requests are executed locally,
//! which is slow but correct (engines/mica/src/hold.rs). Long replies arrive in portions: the
//! requests behind them come back unexecuted, and are forwarded again after the replies were sent.
//! While memory for replies is short nothing is forwarded, and reads whose replies find no room are
//! executed again later.
//!
//! Requests that depend on the order wait until no slot is open: commands without a key that have
//! effects, and requests that are executed locally although their key has another home.

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

/// The most forward batches of one connection in flight: replies are held until the client reads
/// them.
pub(crate) const BATCHES_OF_ONE: usize = 4;

const BATCHES: usize = 64;
#[derive(Debug)]
pub(crate) struct Inboxes<P> {
    of: Vec<Inbox<P>>,
    /// The number of each worker's forward batches in flight. Relaxed: only the check for the end
    /// reads it.
    out: Vec<AtomicU64>,
    /// The number of workers whose connections have all ended. SeqCst is not needed: a worker that
    /// reads too low a number reads it again when its bell rings.
    finished: AtomicU64,
}

impl<P> Inboxes<P> {
    /// The inboxes of all workers, each with room for all batches.
    pub(crate) fn new(workers: usize) -> Self {
        Inboxes {
            of: (0..workers).map(|_| Inbox::with_capacity(workers * BATCHES)).collect(),
            out: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            finished: AtomicU64::new(0),
        }
    }

    /// Whether any batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.out.iter().any(|out| out.load(Ordering::Relaxed) > 0)
    }
}

#[derive(Debug)]
pub(crate) struct Forwarding<P> {
    worker: usize,
    inboxes: Arc<Inboxes<P>>,
    /// The workers' mailboxes, which wake their threads.
    bells: Vec<Arc<Mailbox<Arrival>>>,
    /// The partitioning of keys, if it matters which worker executes a request.
    division: Option<Partitioning>,
    /// Forward batches that are not in flight. They are boxed, since they are passed between
    /// workers.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<ForwardBatch<P>>>,
    /// The bytes that the spare batches keep.
    kept: usize,
    /// The batch that is being filled for each worker.
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

    /// The worker that has to execute a request, if it is another one. `follows` says whether
    /// requests of the same connection are in flight, one of which may have the same key.
    #[inline(always)]
    pub(crate) fn home_elsewhere(&self, hash: KeyHash, effect: Effect, follows: bool) -> Option<usize> {
        let division = self.division.as_ref()?;
        let may_stay = division.access == Access::Crew && effect == Effect::Read && !follows;
        let home = division.home(hash, self.bells.len());
        (home != self.worker && !may_stay).then_some(home)
    }

    /// Whether a request is executed here, as far as is known before the requests in front of it
    /// are executed.
    #[inline(always)]
    pub(crate) fn is_local(&self, hash: KeyHash, effect: impl FnOnce() -> Effect) -> bool {
        !self.is_in_use() || self.home_elsewhere(hash, effect(), false).is_none()
    }

    /// The batch that is being filled for worker `to`, unless all are in flight.
    fn batch_for(&mut self, to: usize) -> Option<&mut ForwardBatch<P>> {
        let batch = &mut self.open[to];
        if batch.is_none() {
            *batch = self.spare.pop();
            self.kept -= batch.as_ref().map_or(0, |batch| batch.kept);
        }
        batch.as_deref_mut()
    }

    /// Forwards requests again that came back unexecuted. False if all batches are in flight.
    pub(crate) fn forward_again(&mut self, sender: ReplyTo, leftover: &Leftover) -> bool {
        let Some(batch) = self.batch_for(leftover.to) else {
            return false;
        };
        for (request, item) in leftover.requests.items() {
            batch.push(sender, &item, request.hash, request.slot);
        }
        true
    }

    /// Forwards the batches, which may return `full` bytes of replies together. Returns the number
    /// of batches.
    pub(crate) fn dispatch(&mut self, full: usize) -> usize {
        // All batches together may return as much as one worker would.
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

    /// Whether a further batch, for worker `to`, would exceed the limit.
    fn is_too_much(&self, to: usize) -> bool {
        self.open[to].is_none() && self.open.iter().flatten().count() >= BATCHES_OF_ONE
    }

    fn send(&self, to: usize, batch: Box<ForwardBatch<P>>) {
        if self.inboxes.of[to].put(batch) {
            self.bells[to].ring();
        }
    }

    /// The next batch in this worker's inbox.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Box<ForwardBatch<P>>> {
        if self.division.is_none() { None } else { self.inboxes.of[self.worker].take() }
    }

    /// Whether this worker has sent the batch.
    pub(crate) fn is_own(&self, batch: &ForwardBatch<P>) -> bool {
        batch.from == self.worker
    }

    /// Returns an executed batch to its sender.
    pub(crate) fn give_back(&self, batch: Box<ForwardBatch<P>>) {
        self.send(batch.from, batch);
    }

    /// Keeps a batch that has returned and was emptied.
    pub(crate) fn keep(&mut self, mut batch: Box<ForwardBatch<P>>) {
        self.kept += batch.clear(SPARE - self.kept);
        self.spare.push(batch);
        let out = &self.inboxes.out[self.worker];
        out.store(out.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Announces that the worker is about to sleep. False if its inbox has a batch.
    pub(crate) fn park(&self) -> bool {
        self.division.is_none() || self.inboxes.of[self.worker].park()
    }

    pub(crate) fn unpark(&self) {
        self.inboxes.of[self.worker].unpark();
    }

    /// Announces that the worker's connections have all ended. Called once.
    pub(crate) fn finish(&self) {
        if self.division.is_some() {
            self.inboxes.finished.fetch_add(1, Ordering::AcqRel);
            self.bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// Whether no worker can forward anything any more.
    pub(crate) fn is_over(&self) -> bool {
        let finished = self.inboxes.finished.load(Ordering::Acquire);
        self.division.is_none() || (finished == self.bells.len() as u64 && !self.inboxes.is_busy())
    }
}
