//! Requests in flight: datagrams, timeouts and retries.

use super::options::{ClientOptions, RETRIES_MAX};
use super::request::{Busy, Request, Ticket};
use super::slots::{Deadline, Slot, Slots, State, may_retry};
use guira_protocol::mica::{
    Directory, HashFunction, Header, Kind, Operation, PartitionAccess, Record, Replied, ReplyRecords, Status,
};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'r> {
    /// The server replied.
    Answered(Replied<'r>),
    /// No reply arrived, even after the retries. The server may or may not have executed the request.
    Lost,
}

/// How a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryMode {
    /// Batched with others, as for the first time.
    Batched,
    /// In a datagram of its own.
    Alone,
}

/// A request that is to be sent again.
#[derive(Debug)]
struct Retry {
    ticket: Ticket,
    operation: Operation,
    key: Box<[u8]>,
    value: Box<[u8]>,
    flags: u32,
    exptime: i32,
    /// The number of attempts so far; 0 if it is batched again.
    tries: u32,
    /// The time at which it was queued.
    since: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) directory: Directory,
    secrets: RapidSecrets,
    pub(super) slots: Slots,
    /// For each thread, the slot that is being filled.
    open: Vec<Option<usize>>,
    /// Complete slots to be sent, in order.
    sealed: VecDeque<usize>,
    /// Deadlines of first attempts, in order, since all have the same timeout.
    deadlines: VecDeque<Deadline>,
    /// Deadlines of retries.
    later: BinaryHeap<Reverse<Deadline>>,
    /// Requests to be sent again, in order.
    again: VecDeque<Retry>,
    /// The opaque value of this client's datagrams; replies repeat it.
    pub(super) id: u64,
    options: ClientOptions,
    /// The thread that received the last read that any thread may serve.
    next_core: usize,
    /// The server has another directory, which has to be requested.
    pub(super) moved: bool,
}

impl InFlight {
    pub(super) fn new(directory: Directory, id: u64, options: ClientOptions) -> Self {
        InFlight {
            directory,
            secrets: RapidSecrets::seed(directory.seed),
            slots: Slots::new(options.window),
            open: vec![None; usize::from(directory.cores)],
            sealed: VecDeque::new(),
            deadlines: VecDeque::new(),
            later: BinaryHeap::new(),
            again: VecDeque::new(),
            id,
            options,
            next_core: 0,
            moved: false,
        }
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        match self.directory.hash {
            HashFunction::RapidMicro => rapidhash_v3_micro_inline::<true, true>(key, &self.secrets),
            HashFunction::Servers => 0,
        }
    }

    /// The thread to send a request to.
    #[inline(always)]
    fn core_of(&mut self, operation: Operation, hash: u64) -> usize {
        let anywhere = match self.directory.access {
            PartitionAccess::Shared => true,
            PartitionAccess::Crew => operation.is_read(),
            PartitionAccess::Erew | PartitionAccess::Crcw => false,
        };
        if !anywhere {
            return self.directory.home(hash);
        }
        self.next_core += 1;
        if self.next_core >= usize::from(self.directory.cores) {
            self.next_core = 0;
        }
        self.next_core
    }

    /// Adds a request to a datagram for its thread.
    #[inline(always)]
    pub(super) fn submit(&mut self, request: &Request<'_>, ticket: Ticket, tries: u32) -> Result<(), Busy> {
        let hash = self.hash(request.key);
        let core = self.core_of(request.operation, hash);
        let record = request.record(hash);
        let index = match self.open[core] {
            Some(index) if tries == 0 => index,
            _ => self.open_slot(core, tries)?,
        };
        if !self.slots.get(index).push(&record, ticket) {
            self.seal(index);
            let index = self.open_slot(core, tries)?;
            assert!(self.slots.get(index).push(&record, ticket), "it fits into a datagram of its own");
            return Ok(());
        }
        // A retry is sent alone: it may be one whose reply did not fit beside others.
        if self.slots.get(index).tickets.len() >= usize::from(self.options.per_datagram) || tries > 0 {
            self.seal(index);
        }
        Ok(())
    }

    fn open_slot(&mut self, core: usize, tries: u32) -> Result<usize, Busy> {
        let index = self.slots.open(core, tries).ok_or(Busy)?;
        if tries == 0 {
            self.open[core] = Some(index);
        }
        Ok(index)
    }

    #[inline(always)]
    fn seal(&mut self, index: usize) {
        let slot = self.slots.get(index);
        slot.seal(self.directory.generation, self.id);
        let core = slot.core;
        if self.open[core] == Some(index) {
            self.open[core] = None;
        }
        self.sealed.push_back(index);
    }

    pub(super) fn seal_all(&mut self) {
        for core in 0..self.open.len() {
            if let Some(index) = self.open[core] {
                self.seal(index);
            }
        }
    }

    /// Passes the next datagram to `send`, and starts its timeout at `now` if `send` returns true. False if there is
    /// no datagram, or it was not sent.
    pub(super) fn send_next(&mut self, now: Duration, send: impl FnOnce(&Slot) -> bool) -> bool {
        let Some(&index) = self.sealed.front() else {
            return false;
        };
        let slot = self.slots.get(index);
        if !send(slot) {
            return false;
        }
        slot.state = State::Sent;
        let (sequence, tries) = (slot.sequence, slot.tries);
        let at = now.saturating_add(self.options.timeout_after(tries));
        let deadline = Deadline { at, sequence };
        self.sealed.pop_front();
        match tries {
            0 => self.deadlines.push_back(deadline),
            _ => self.later.push(Reverse(deadline)),
        }
        true
    }

    #[inline(always)]
    pub(super) fn receive(&mut self, datagram: &[u8], report: &mut dyn FnMut(Ticket, Outcome<'_>)) -> usize {
        let Ok(header) = Header::read(datagram) else {
            return 0;
        };
        if header.kind == Kind::Directory {
            self.adopt_directory(datagram);
            return 0;
        }
        if header.opaque != self.id {
            return 0;
        }
        let Some(index) = self.slots.of(header.sequence) else {
            return 0;
        };
        match header.kind {
            Kind::Replies => self.report_replies(datagram, &header, index, report),
            Kind::Moved => {
                self.moved = true;
                // Nothing was executed: the requests are batched again, in their order.
                self.queue_retries(index, RetryMode::Batched, |_, _| true);
                self.slots.close(index);
                0
            }
            Kind::Malformed => {
                let invalid = Replied { status: Status::Invalid, flags: 0, value: &[] };
                let report = |(_, ticket, _)| report(ticket, Outcome::Answered(invalid));
                let reported = self.slots.get(index).records().map(report).count();
                self.slots.close(index);
                reported
            }
            _ => 0,
        }
    }

    #[inline(always)]
    fn report_replies(
        &mut self,
        datagram: &[u8],
        header: &Header,
        index: usize,
        report: &mut dyn FnMut(Ticket, Outcome<'_>),
    ) -> usize {
        let slot = self.slots.get(index);
        let count = slot.tickets.len();
        // A truncated datagram counts as lost. One with a single reply is parsed only once.
        let is_whole = usize::from(header.count) == count
            && (count == 1 || ReplyRecords::of(datagram, header).count() == count);
        if !is_whole {
            return 0;
        }
        if slot.waits > 0 {
            return self.report_late(datagram, header, index, report);
        }
        let (mut reported, mut alone) = (0, 0);
        for (reply, ticket) in ReplyRecords::of(datagram, header).zip(&slot.tickets) {
            if reply.status == Status::RequestAlone && count > 1 {
                alone += 1;
            } else {
                report(*ticket, Outcome::Answered(reply));
                reported += 1;
            }
        }
        match alone {
            0 if reported == count => self.slots.close(index),
            0 => {}
            _ => self.retry_alone(datagram, header, index),
        }
        reported
    }

    /// Processes a late reply, after some of the datagram's requests were sent again: those wait for the later reply.
    #[cold]
    fn report_late(
        &mut self,
        datagram: &[u8],
        header: &Header,
        index: usize,
        report: &mut dyn FnMut(Ticket, Outcome<'_>),
    ) -> usize {
        let replies: Vec<Replied<'_>> = ReplyRecords::of(datagram, header).collect();
        let answered = |(place, ticket, _): (usize, Ticket, Record<'_>)| {
            let is_answer = replies.len() == 1 || replies[place].status != Status::RequestAlone;
            is_answer.then_some((ticket, replies[place]))
        };
        let slot = self.slots.get(index);
        // A single reply was not counted before.
        if replies.len() != slot.tickets.len() {
            return 0;
        }
        let reported = slot
            .records()
            .filter_map(answered)
            .map(|(ticket, reply)| report(ticket, Outcome::Answered(reply)));
        let reported = reported.count();
        self.retry_alone(datagram, header, index);
        reported
    }

    /// Queues the requests that the server wants alone for another attempt, and closes the datagram.
    #[cold]
    fn retry_alone(&mut self, datagram: &[u8], header: &Header, index: usize) {
        let statuses: Vec<Status> = ReplyRecords::of(datagram, header).map(|it| it.status).collect();
        let wants = |place: usize| statuses.len() > 1 && statuses[place] == Status::RequestAlone;
        self.queue_retries(index, RetryMode::Alone, |place, _| wants(place));
        self.slots.close(index);
    }

    /// Queues the matching requests of a datagram for another attempt.
    #[cold]
    fn queue_retries(
        &mut self,
        index: usize,
        how: RetryMode,
        is_wanted: impl Fn(usize, &Record<'_>) -> bool,
    ) {
        let slot = self.slots.get(index);
        let tries = if how == RetryMode::Alone { slot.tries + 1 } else { 0 };
        let wanted = slot.records().filter(|(place, _, record)| is_wanted(*place, record));
        self.again.extend(wanted.filter_map(|(_, ticket, record)| Retry::of(ticket, &record, tries)));
    }

    /// Handles timeouts: requests are sent again, wait longer, or are lost.
    pub(super) fn check_timeouts(
        &mut self,
        now: Duration,
        report: &mut dyn FnMut(Ticket, Outcome<'_>),
    ) -> usize {
        let mut reported = 0;
        while let Some(deadline) = self.deadlines.front() {
            let index = self.slots.of(deadline.sequence);
            if index.is_some() && deadline.at > now {
                break;
            }
            self.deadlines.pop_front();
            if let Some(index) = index {
                reported += self.time_out(index, now, report);
            }
        }
        while let Some(Reverse(deadline)) = self.later.peek().copied() {
            let index = self.slots.of(deadline.sequence);
            if index.is_some() && deadline.at > now {
                break;
            }
            self.later.pop();
            reported += index.map_or(0, |index| self.time_out(index, now, report));
        }
        if self.moved { reported + self.expire_retries(now, report) } else { reported }
    }

    /// Loses requests that wait for a directory for longer than all timeouts together.
    #[cold]
    fn expire_retries(&mut self, now: Duration, report: &mut dyn FnMut(Ticket, Outcome<'_>)) -> usize {
        let most = self.options.total_timeout();
        let before = self.again.len();
        self.again.retain_mut(|retry| {
            let since = *retry.since.get_or_insert(now);
            let stays = now - since <= most;
            if !stays {
                report(retry.ticket, Outcome::Lost);
            }
            stays
        });
        before - self.again.len()
    }

    #[cold]
    fn time_out(
        &mut self,
        index: usize,
        now: Duration,
        report: &mut dyn FnMut(Ticket, Outcome<'_>),
    ) -> usize {
        let slot = self.slots.get(index);
        let waited = slot.tries + slot.waits;
        if waited >= self.options.retries.min(RETRIES_MAX) {
            let reported = slot.records().map(|(_, ticket, _)| report(ticket, Outcome::Lost)).count();
            self.slots.close(index);
            return reported;
        }
        self.queue_retries(index, RetryMode::Alone, |_, record| may_retry(record));
        let slot = self.slots.get(index);
        if slot.has_unretryable() {
            slot.waits += 1;
            let at = now.saturating_add(self.options.timeout_after(waited + 1));
            let deadline = Deadline { at, sequence: slot.sequence };
            self.later.push(Reverse(deadline));
        } else {
            self.slots.close(index);
        }
        0
    }

    pub(super) fn submit_retries(&mut self) {
        while !self.moved
            && let Some(retry) = self.again.pop_front()
        {
            if self.submit(&retry.request(), retry.ticket, retry.tries).is_err() {
                return self.again.push_front(retry);
            }
        }
    }

    /// Whether datagrams or retries wait to be sent.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.sealed.is_empty() || !self.again.is_empty()
    }

    /// The number of retries that wait to be sent.
    pub(super) fn retry_count(&self) -> usize {
        self.again.len()
    }

    /// Adopts a new directory. The server replies `Moved` to datagrams in flight under the old one.
    fn adopt_directory(&mut self, datagram: &[u8]) {
        let is_ours = Header::read(datagram).is_ok_and(|header| header.opaque == self.id);
        let Some(directory) = Directory::read(datagram).filter(|_| self.moved && is_ours) else {
            return;
        };
        self.seal_all();
        self.directory = directory;
        self.secrets = RapidSecrets::seed(directory.seed);
        self.open = vec![None; usize::from(directory.cores)];
        self.next_core = 0;
        self.moved = false;
    }
}

impl Retry {
    fn of(ticket: Ticket, record: &Record<'_>, tries: u32) -> Option<Self> {
        Some(Retry {
            ticket,
            operation: record.operation?,
            key: record.key.into(),
            value: record.value.into(),
            flags: record.flags,
            exptime: record.exptime.0,
            tries,
            since: None,
        })
    }

    fn request(&self) -> Request<'_> {
        Request {
            operation: self.operation,
            key: &self.key,
            value: &self.value,
            flags: self.flags,
            exptime: self.exptime,
        }
    }
}
