//! The requests to one server and their replies, in order, without I/O: bytes for the server, bytes
//! from it, and the time as a parameter.
//!
//! Plain gets that follow each other are combined into one. A request that times out is answered at
//! once, and its late reply is discarded. Over a new connection, requests that were not sent over
//! the last one are sent.

mod latency;
mod outstanding;
mod replies;
mod send_buffer;

pub(super) use latency::Latency;
pub(super) use outstanding::{Kind, LeaseStep, Outstanding};
pub(crate) use replies::Parsed;
pub(super) use replies::{Hits, Received, Step};

use super::Undelivered;
use crate::ticket::Ticket;
use guira_routing::config::Leases;
use guira_routing::{Dialect, LogName, Op, Origin, Request};
use guira_sync::simulated::is_planted;
use guira_upstream::{Attempt, InFlight, Intake, wire};
use latency::Sample;
use replies::Next;
use send_buffer::SendBuffer;

#[derive(Debug)]
pub(super) struct Pipeline {
    buffer: SendBuffer,
    requests: InFlight<Outstanding>,
    next: Next,
    /// Received bytes that are not a complete reply.
    received: Intake,
    timeout_ms: u32,
    /// With meta commands, an empty value may mark a key that is to be filled.
    leases: Leases,
    /// When the server was last in the middle of long replies.
    burst_ms: u32,
    /// Requests that timed out since the last reply in time.
    timeouts_in_a_row: u32,
    /// How many requests were pushed so far …
    pushed: u64,
    /// … when the last flush began, …
    flushed: u64,
    /// … and when all of them were last sent.
    all_sent: u64,
    /// The request whose latency is measured.
    sample: Option<Sample>,
}

#[derive(Debug)]
pub(crate) struct FailedRequest {
    pub(crate) origin: Origin<Ticket>,
    /// Present if the request is a delete that is logged when it fails.
    pub(crate) delete: Option<Undelivered>,
}

/// A request that has timed out.
#[derive(Debug)]
pub(super) struct TimedOut {
    pub(super) request: FailedRequest,
    /// The request is one of the router's own.
    pub(super) is_own: bool,
    /// The connection accepts nothing, or delivers nothing.
    pub(super) is_stuck: bool,
    pub(super) latency: Option<Latency>,
}

/// The state that an ended connection leaves.
#[derive(Debug)]
pub(super) struct Disconnected {
    pub(super) failed: Vec<FailedRequest>,
    /// How many of them were not the router's own.
    pub(super) of_clients: u64,
}

/// What happens to requests that were not sent when a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    Keep,
    Fail,
}

/// A server that sends this many bytes at once is in the middle of long replies, and not slow.
const BURST: usize = 16 << 10;
/// Bytes of requests without a reply. Further requests are refused.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of a TLS record.
const RECORD_MAX: usize = 16 << 10;
/// A connection is closed after this many timeouts in a row.
const TIMEOUTS_MAX: u32 = 3;

impl Pipeline {
    pub(super) fn new(timeout_ms: u32, leases: Leases) -> Self {
        Pipeline {
            buffer: SendBuffer::default(),
            requests: InFlight::default(),
            next: Next::Reply,
            received: Intake::default(),
            timeout_ms,
            leases,
            burst_ms: 0,
            timeouts_in_a_row: 0,
            pushed: 0,
            flushed: 0,
            all_sent: 0,
            sample: None,
        }
    }

    /// The connection continues without new requests, and is not measured any more.
    pub(super) fn detach(&mut self) {
        (self.flushed, self.all_sent, self.sample) = (self.pushed, self.pushed, None);
    }

    /// An empty pipeline to the same server.
    pub(super) fn renewed(&self) -> Self {
        Pipeline { burst_ms: self.burst_ms, ..Self::new(self.timeout_ms, self.leases) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// How many requests are in flight, with those that have timed out.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// How many requests wait for a reply.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.requests.waiting()
    }

    /// How many requests of clients and route handles wait for a reply.
    pub(super) fn waiting_of_clients(&self) -> usize {
        self.requests.iter_waiting().filter(|request| !request.kind.is_own()).count()
    }

    /// How many of the waiting requests were not sent.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        ((self.pushed - self.all_sent) as usize).min(self.waiting())
    }

    /// Whether no request but probes waits for a reply.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.iter_waiting().all(|request| request.kind == Kind::Probe)
    }

    pub(super) fn has_probe(&self) -> bool {
        self.requests.iter().any(|request| request.kind == Kind::Probe)
    }

    #[inline]
    pub(super) fn has_too_many_bytes(&self) -> bool {
        self.buffer.len() > BYTES_MAX
    }

    /// Appends a plain get, to the last request if that is an unsent get with room for the key.
    #[inline(always)]
    pub(super) fn push_get(
        &mut self,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        let begin = match self.buffer.extend_get(request.op, request.key) {
            Some(begin) => begin,
            None => {
                self.close_get();
                self.buffer.open_get(request.op, request.key)
            }
        };
        // The key is the last word.
        let position = self.buffer.end() - request.key.len() as u64;
        self.push_outstanding(Outstanding {
            origin,
            position,
            back: (position - begin) as u32,
            key_length: request.key.len() as u8,
            kind: Kind::Key,
            since_ms: now_ms as u32,
            log,
        });
    }

    /// Appends a request that is no plain get.
    #[inline]
    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        let kind = match (request.dialect, request.op) {
            (dialect, Op::Delete) => Kind::Delete(dialect),
            (Dialect::Meta, op) => Kind::Meta(op),
            (_, op @ (Op::Gat | Op::Gats | Op::LeaseGet)) => Kind::LastKey(op),
            (_, op) => Kind::Line(op),
        };
        self.push_as(kind, request, log, origin, now_ms);
    }

    /// Appends a request whose reply is one of this kind.
    #[inline]
    pub(super) fn push_as(
        &mut self,
        kind: Kind,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        self.close_get();
        let begin = self.buffer.end();
        self.buffer.append(|bytes| wire::write(request, bytes));
        let position = match kind {
            Kind::LastKey(_) => self.buffer.end() - request.key.len() as u64 - 2,
            _ => begin,
        };
        self.push_outstanding(Outstanding {
            origin,
            position,
            back: (position - begin) as u32,
            key_length: request.key.len() as u8,
            kind,
            since_ms: now_ms as u32,
            log,
        });
    }

    /// Appends a request of the router itself.
    pub(super) fn push_own(&mut self, kind: Kind, text: &[u8], now_ms: u64) {
        self.close_get();
        let position = self.buffer.end();
        self.buffer.append(|bytes| bytes.extend_from_slice(text));
        self.push_outstanding(Outstanding {
            origin: Origin::NoClient,
            position,
            back: 0,
            key_length: 0,
            kind,
            since_ms: now_ms as u32,
            log: None,
        });
    }

    #[inline(always)]
    fn push_outstanding(&mut self, request: Outstanding) {
        self.requests.push(request);
        self.pushed += 1;
    }

    fn close_get(&mut self) {
        if let Some(op) = self.buffer.close_get()
            && let Some(last) = self.requests.last_mut()
        {
            last.kind = Kind::LastKey(op);
        }
    }

    /// Holds back the requests that follow, until [`Self::release`].
    pub(super) fn hold(&mut self) {
        self.buffer.hold();
    }

    pub(super) fn is_holding(&self) -> bool {
        self.buffer.held_from().is_some()
    }

    /// Sends requests that were held back. True if any were.
    pub(super) fn release(&mut self) -> bool {
        self.buffer.release().is_some()
    }

    /// Sends `text` in place of each lease-set that was held back, and the other requests as they
    /// are. True if requests were held back.
    pub(super) fn release_without_lease_sets(&mut self, text: &[u8]) -> bool {
        let Some(held_from) = self.buffer.release() else { return false };
        assert!(self.buffer.sent() <= held_from, "values of leases were sent before the check");
        let first = self.requests.partition_point(|request| request.begin() < held_from);
        let (mut ranges, mut removed) = (Vec::new(), 0);
        for index in first..self.requests.len() {
            let end = self.requests.get(index + 1).map_or(self.buffer.end(), Outstanding::begin);
            let Some(request) = self.requests.get_mut(index) else { break };
            let begin = request.begin();
            request.position -= removed;
            if request.kind.is_lease_set() {
                request.kind = Kind::Lease(LeaseStep::Placeholder);
                removed += end - begin - text.len() as u64;
                ranges.push(begin..end);
            }
        }
        self.buffer.replace_unsent(&ranges, text);
        true
    }

    /// The requests that were pushed since the last flush are about to be sent: their timeouts
    /// begin. The round that has pushed them may have begun long before, if it has copied long
    /// values.
    pub(super) fn begin_flush(&mut self, now_us: u64) {
        let now_ms = (now_us / 1000) as u32;
        let new = (self.pushed - self.flushed) as usize;
        self.flushed = self.pushed;
        let first = self.requests.len().saturating_sub(new);
        // The first was pushed before the others: mostly in the same millisecond as the flush.
        if self.requests.get(first).is_some_and(|request| request.since_ms != now_ms) {
            for request in self.requests.iter_mut_from(first).filter(|it| !it.continues_another()) {
                request.since_ms = now_ms;
            }
        }
        self.begin_sample(now_us);
    }

    /// Completes the last request before bytes are sent.
    pub(super) fn complete_last(&mut self) {
        self.close_get();
    }

    /// Ends a flush: the connection has accepted all it could.
    #[inline]
    pub(super) fn end_flush(&mut self) {
        if self.buffer.is_sent() {
            self.all_sent = self.pushed;
        }
    }

    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.buffer.is_sent()
    }

    /// The bytes to send next.
    #[inline]
    pub(super) fn unsent(&self) -> &[u8] {
        self.buffer.unsent()
    }

    /// The bytes to send next in one TLS record: as many whole requests as fit, or one that needs
    /// several records. memcached (at least 1.6.18) does not process a request behind a data block
    /// in the same record before more data arrives.
    pub(super) fn unsent_record(&self) -> &[u8] {
        let unsent = self.buffer.unsent();
        &unsent[..record_length(&self.requests, self.buffer.sent(), unsent.len())]
    }

    #[inline]
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.buffer.note_sent(bytes);
    }

    /// A buffer to receive into, behind an incomplete reply.
    #[inline]
    pub(super) fn take_intake(&mut self, shared: &mut Option<Intake>) -> Intake {
        Intake::lent(&mut self.received, shared)
    }

    /// Keeps an incomplete reply, and returns a shared buffer.
    #[inline]
    pub(super) fn keep_intake(&mut self, intake: Intake, shared: &mut Option<Intake>) {
        intake.keep(&mut self.received, shared);
    }

    /// Notes that this many bytes have arrived.
    #[inline]
    pub(super) fn note_received(&mut self, bytes: usize, now_ms: u64) {
        if bytes >= BURST {
            self.burst_ms = now_ms as u32;
        }
    }

    /// Discards the bytes of requests that have replies.
    #[inline]
    pub(super) fn trim(&mut self) {
        self.buffer.trim(self.requests.first().map(Outstanding::begin));
    }

    /// How long a request has waited, without the time in which the server sent long replies to
    /// earlier requests. `attempt` is the present attempt to connect: a request of an earlier
    /// connection has waited since it began.
    fn waited_ms(&self, request: &Outstanding, now_ms: u64, attempt: Option<Attempt>) -> u32 {
        let since = |then: u32| (now_ms as u32).wrapping_sub(then);
        let begun = attempt.map_or(self.burst_ms, |attempt| attempt.started_ms as u32);
        since(request.since_ms).min(since(begun))
    }

    fn timeout_ms(&self, attempt: Option<Attempt>) -> u32 {
        attempt.map_or(self.timeout_ms, |attempt| attempt.timeout_ms.min(self.timeout_ms))
    }

    /// When the oldest request times out.
    #[inline]
    pub(super) fn deadline(&self, now_ms: u64, attempt: Option<Attempt>) -> Option<u64> {
        let oldest = self.requests.oldest()?;
        let left = self.timeout_ms(attempt).saturating_sub(self.waited_ms(oldest, now_ms, attempt));
        Some(now_ms + u64::from(left))
    }

    /// Times the oldest request out, if it has waited too long.
    pub(super) fn time_out(&mut self, now_ms: u64, attempt: Option<Attempt>) -> Option<TimedOut> {
        let oldest = *self.requests.oldest()?;
        let number = self.pushed - self.requests.waiting() as u64;
        if self.waited_ms(&oldest, now_ms, attempt) < self.timeout_ms(attempt) {
            return None;
        }
        if is_planted("late-reply-to-next") {
            let failed = self.failed(&oldest);
            self.requests.remove_first();
            return Some(TimedOut { request: failed, is_own: false, is_stuck: false, latency: None });
        }
        self.requests.time_out_oldest();
        self.timeouts_in_a_row += 1;
        let is_own = oldest.kind.is_own();
        let was_sent = oldest.begin() < self.buffer.sent();
        let is_measured = self.is_sample(number);
        Some(TimedOut {
            request: self.failed(&oldest),
            is_own,
            is_stuck: is_own || !was_sent || self.timeouts_in_a_row >= TIMEOUTS_MAX,
            latency: if is_measured { self.end_sample(now_ms * 1000) } else { None },
        })
    }

    /// The connection has ended. `unsent` decides about requests that were not sent.
    pub(super) fn disconnect(&mut self, unsent: Unsent) -> Disconnected {
        let sent = self.buffer.sent();
        // The next connection may lead to a server that does not support leases.
        let keeps = unsent == Unsent::Keep && !self.has_unsent_lease_set();
        let fails = |request: &&Outstanding| !keeps || request.begin() < sent;
        let failed: Vec<Outstanding> = self.requests.iter_waiting().take_while(fails).copied().collect();
        let of_clients = failed.iter().filter(|request| !request.kind.is_own()).count() as u64;
        let kept = self.requests.iter_waiting().nth(failed.len()).map(Outstanding::begin);
        let failed = failed.iter().map(|request| self.failed(request)).collect();
        // A key that has timed out is requested again with the other keys of its get.
        while self.requests.first().is_some_and(|first| kept.is_none_or(|kept| first.begin() < kept)) {
            self.requests.remove_first();
        }
        self.buffer.rewind(kept);
        self.received = Intake::default();
        (self.timeouts_in_a_row, self.next, self.sample) = (0, Next::Reply, None);
        self.all_sent = self.pushed - self.requests.len() as u64;
        Disconnected { failed, of_clients }
    }

    fn has_unsent_lease_set(&self) -> bool {
        let sent = self.buffer.sent();
        let unsent = self.requests.iter().rev().take_while(|request| request.begin() >= sent);
        unsent.map(|request| request.kind).any(Kind::is_lease_set)
    }

    #[cold]
    fn failed(&self, request: &Outstanding) -> FailedRequest {
        let log = request.log.filter(|_| matches!(request.kind, Kind::Delete(_)));
        let delete = log.and_then(|log| Undelivered::read(self.buffer.from(request.position), log));
        FailedRequest { origin: request.origin, delete }
    }

    /// When the timeouts of the requests in flight began.
    #[cfg(test)]
    pub(super) fn timeouts_began(&self) -> impl Iterator<Item = u32> {
        self.requests.iter().map(|request| request.since_ms)
    }

    #[cfg(any(test, feature = "laws"))]
    pub(super) fn pretend_to_send(&mut self) {
        self.close_get();
        self.note_sent(self.unsent().len());
        self.end_flush();
    }
}

/// How many of the `available` bytes from `from` on fit into one TLS record: whole requests, or one
/// that needs several records.
fn record_length(requests: &InFlight<Outstanding>, from: u64, available: usize) -> usize {
    let next = requests.partition_point(|request| request.begin() <= from);
    let last = next.checked_sub(1).and_then(|last| requests.get(last));
    let is_at_a_request = last.is_some_and(|last| last.begin() == from);
    let begins = (next..requests.len()).filter_map(|index| requests.get(index)).map(Outstanding::begin);
    let mut ends =
        begins.map(|begin| (begin - from) as usize).take_while(|end| *end < available).chain([available]);
    let first = ends.next().unwrap_or(available);
    if !is_at_a_request || first > RECORD_MAX {
        return first;
    }
    ends.take_while(|end| *end <= RECORD_MAX).last().unwrap_or(first)
}

#[cfg(test)]
mod tests;
