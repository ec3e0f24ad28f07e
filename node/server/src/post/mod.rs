//! Requests that another worker has to execute, since their keys are at home there.
//!
//! A connection's worker leaves a slot in the outbox for each of them and posts them as a *parcel* to their home, where they are executed
//! like a batch of its own; the parcel comes back with the replies, which fill the slots. Nobody waits for anybody: a worker has a fixed
//! number of parcels, so that there is always room for all of them in every inbox, and while all are under way its connections wait, or
//! their requests are executed here, which is slow and never wrong (engines/mica/src/hold.rs). Long replies come in portions: what would come
//! behind them is sent back as it is, and posted again when they were sent. Where room for replies is short nothing is posted, and reads whose
//! replies find no room are executed again later.
//!
//! Whatever depends on the order of requests waits until no slot is open: commands that are about no key, and those that are executed
//! here although their key is at home elsewhere.

mod inbox;
mod parcel;
mod serve;

pub(crate) use inbox::Inbox;
pub(crate) use parcel::{Leftover, Parcel, Part, ReplyEnd, Sender, Trim};

pub(crate) use serve::{Route, use_of};

use crate::outbox::SlotId;
use guira_contract::{Access, KeyHash, Partitioning, ValuePin};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_transport::Mailbox;
use std::sync::Arc;

/// Parcels that a connection may have under way: what comes back is held until the client takes it.
pub(crate) const PARCELS_OF_ONE: usize = 4;

/// Parcels of a worker.
const PARCELS: usize = 64;

/// What a request does with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// The inboxes of all workers.
#[derive(Debug)]
pub(crate) struct Offices<P> {
    inboxes: Vec<Inbox<P>>,
    /// Parcels of each worker that are under way. Relaxed: looked at only to know when all is over.
    out: Vec<AtomicU64>,
    /// Workers that have no connections any more, and get none. SeqCst is not needed: who sees too few looks again when it is rung.
    finished: AtomicU64,
}

impl<P> Offices<P> {
    /// Inboxes for so many workers, with room for all parcels that there are.
    pub(crate) fn new(workers: usize) -> Self {
        Offices {
            inboxes: (0..workers).map(|_| Inbox::with_capacity(workers * PARCELS)).collect(),
            out: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            finished: AtomicU64::new(0),
        }
    }

    /// Whether any parcel is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.out.iter().any(|out| out.load(Ordering::Relaxed) > 0)
    }
}

/// One worker's part in it.
#[derive(Debug)]
pub(crate) struct Post<P> {
    worker: usize,
    offices: Arc<Offices<P>>,
    /// Whose threads may have to be woken.
    bells: Vec<Arc<Mailbox<crate::acceptor::Arrival>>>,
    /// How keys are divided, if it matters which worker executes a request.
    division: Option<Partitioning>,
    /// Parcels that are not under way; they go from hand to hand as they are.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<Parcel<P>>>,
    /// Those that are being filled, for each worker.
    open: Vec<Option<Box<Parcel<P>>>>,
}

impl<P: ValuePin> Post<P> {
    pub(crate) fn new(
        worker: usize,
        offices: Arc<Offices<P>>,
        bells: Vec<Arc<Mailbox<crate::acceptor::Arrival>>>,
        partitioning: Option<Partitioning>,
    ) -> Self {
        let workers = bells.len();
        let division = partitioning.filter(|it| workers > 1 && it.access != Access::Crcw);
        let parcels = if division.is_some() { PARCELS } else { 0 };
        let spare = (0..parcels).map(|_| Box::new(Parcel::new(worker))).collect();
        let open = (0..workers).map(|_| None).collect();
        Post { worker, offices, bells, division, spare, open }
    }

    /// Whether it can matter which worker executes a request.
    #[inline(always)]
    pub(crate) fn is_in_use(&self) -> bool {
        self.division.is_some()
    }

    /// The worker that has to execute a request, if that is another one. `follows` says whether requests of the same connection are under way, one
    /// of which may be about the same key.
    #[inline(always)]
    pub(crate) fn home_elsewhere(&self, hash: KeyHash, what: Use, follows: bool) -> Option<usize> {
        let division = self.division.as_ref()?;
        let may_stay = division.access == Access::Crew && what == Use::Read && !follows;
        let home = division.home(hash, self.bells.len());
        (home != self.worker && !may_stay).then_some(home)
    }

    /// Puts a request into the parcel for worker `to`, for which there is one.
    pub(crate) fn put(
        &mut self,
        to: usize,
        sender: Sender,
        request: &[&[u8]],
        (trim, what): (Trim, Use),
        slot: SlotId,
    ) {
        if let Some(parcel) = &mut self.open[to] {
            parcel.sender = sender;
            parcel.reads_only &= what == Use::Read;
            parcel.put(request, trim, slot);
        }
    }

    /// Whether there is a parcel for worker `to` that something can be put into.
    pub(crate) fn has_parcel(&mut self, to: usize) -> bool {
        if self.open[to].is_none() {
            self.open[to] = self.spare.pop();
        }
        self.open[to].is_some()
    }

    /// Puts requests that came back into a parcel again, if there is one.
    pub(crate) fn put_again(&mut self, sender: Sender, leftover: &Leftover) -> bool {
        if !self.has_parcel(leftover.to) {
            return false;
        }
        let mut from = 0;
        for part in &leftover.parts {
            let request = &leftover.requests[from..part.request_end];
            let what = if leftover.reads_only { Use::Read } else { Use::Write };
            self.put(leftover.to, sender, &[request], (part.trim, what), part.slot);
            from = part.request_end;
        }
        true
    }

    /// Posts what was put into parcels. Replies of `full` bytes to each of them are enough.
    /// Returns how many were posted.
    pub(crate) fn dispatch(&mut self, full: usize) -> usize {
        // All together are to be no longer than what one worker would make.
        let full = full / self.open.iter().flatten().filter(|parcel| !parcel.is_empty()).count().max(1);
        let mut posted = 0;
        for to in 0..self.open.len() {
            match self.open[to].take() {
                Some(parcel) if parcel.is_empty() => self.spare.push(parcel),
                Some(mut parcel) => {
                    (parcel.to, parcel.full) = (to, full);
                    let out = &self.offices.out[self.worker];
                    out.store(out.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    self.send(to, parcel);
                    posted += 1;
                }
                None => {}
            }
        }
        posted
    }

    /// Whether one parcel more, for worker `to`, would be too many at once.
    pub(crate) fn is_too_much(&self, to: usize) -> bool {
        self.open[to].is_none() && self.open.iter().flatten().count() >= PARCELS_OF_ONE
    }

    fn send(&self, to: usize, parcel: Box<Parcel<P>>) {
        if self.offices.inboxes[to].put(parcel) {
            self.bells[to].ring();
        }
    }

    /// The next parcel for this worker.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Box<Parcel<P>>> {
        if self.division.is_none() { None } else { self.offices.inboxes[self.worker].take() }
    }

    /// Whether a parcel is one of this worker's own, which comes back.
    pub(crate) fn is_own(&self, parcel: &Parcel<P>) -> bool {
        parcel.from == self.worker
    }

    /// Sends a parcel back that was dealt with.
    pub(crate) fn give_back(&self, parcel: Box<Parcel<P>>) {
        self.send(parcel.from, parcel);
    }

    /// A parcel has come back and was emptied.
    pub(crate) fn keep(&mut self, mut parcel: Box<Parcel<P>>) {
        parcel.clear();
        self.spare.push(parcel);
        let out = &self.offices.out[self.worker];
        out.store(out.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// The worker is about to sleep. False if there is a parcel for it.
    pub(crate) fn doze(&self) -> bool {
        self.division.is_none() || self.offices.inboxes[self.worker].doze()
    }

    /// It is awake.
    pub(crate) fn wake(&self) {
        self.offices.inboxes[self.worker].wake();
    }

    /// The worker has no connections any more, and gets none. Told once.
    pub(crate) fn finish(&self) {
        if self.division.is_some() {
            self.offices.finished.fetch_add(1, Ordering::AcqRel);
            self.bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// Whether no worker has anything to post any more.
    pub(crate) fn is_over(&self) -> bool {
        let finished = self.offices.finished.load(Ordering::Acquire);
        self.division.is_none() || (finished == self.bells.len() as u64 && !self.offices.is_busy())
    }
}
