//! The requests to one server over one connection, and their replies: bytes for the server, bytes
//! from it, and the time as a parameter.
//!
//! Replies repeat the opaque of their request. Nothing is sent again over another connection, since
//! the call that sent it may be over.

use super::text;
use crate::pools::window::Era;
use guira_protocol::client::{self, META_NOOP, Read, Reply};
use guira_protocol::word::reply;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Request};
use guira_sync::simulated::is_planted;
use guira_upstream::{Arrival, InFlight, VALUE_MAX, answers};
use std::collections::VecDeque;

/// A key of a call of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pools) struct Ticket {
    pub(in crate::pools) call: u32,
    pub(in crate::pools) part: u32,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    kind: Kind,
    opaque: u32,
    /// When its timeout began.
    since_ms: u64,
    era: Era,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Request {
        op: Op,
        dialect: Dialect,
        origin: Origin<Ticket>,
    },
    /// Its timeout begins when it is sent: the thread may be busy elsewhere in between.
    Probe {
        is_sent: bool,
    },
}

/// Whether there is a connection that accepts a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connected {
    Yes,
    No,
}

#[derive(Debug, Default)]
pub(super) struct Pipeline {
    /// The bytes of requests, from the first that was not sent completely on.
    bytes: Vec<u8>,
    sent: usize,
    /// The ends of unsent stores in `bytes`.
    stores: VecDeque<usize>,
    requests: InFlight<Outstanding>,
    opaque: u32,
    next: Next,
    /// Whether a probe without a reply was sent over a connection that was open before.
    has_old_probe: bool,
    /// When the server last sent or received a long message.
    burst_ms: u64,
}

/// The kind of input that the connection delivers next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Reply,
    /// Unknown: the server may have executed a value as commands.
    Unknown,
}

/// The first bytes of the input.
#[derive(Debug)]
pub(super) enum Parsed<'i> {
    /// The reply to a request in time, and its length.
    Reply(Origin<Ticket>, Answer<'i>, usize),
    /// A reply to a request that has timed out.
    Late(usize),
    /// The reply to a probe. It counts although it may be late: this thread may not have read the
    /// connection.
    ProbeReply(usize),
    /// An incomplete reply, and its length as far as it is known.
    Incomplete(usize),
    /// No possible reply to the first request.
    Invalid,
    /// The connection has to be closed, so that the server executes no request as a part of a
    /// value.
    Untrusted,
}

/// A server that sends or receives this many bytes at once is not slow, but busy with long
/// messages.
const BURST: usize = 16 << 10;
/// Bytes of requests that were not sent. Further requests are refused.
const BYTES_MAX: usize = 128 << 20;
/// The capacity that an empty buffer keeps.
const CAPACITY_MAX: usize = 64 << 10;

impl Pipeline {
    /// Whether further requests are refused for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > BYTES_MAX
    }

    /// Appends a request. False if this client does not send such requests.
    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        origin: Origin<Ticket>,
        now_ms: u64,
        era: Era,
    ) -> bool {
        let opaque = self.opaque;
        let is_written = text::write(request, opaque, &mut self.bytes);
        if is_written {
            if request.op.group() == Group::Update {
                self.stores.push_back(self.bytes.len());
            }
            let kind = Kind::Request { op: request.op, dialect: request.dialect, origin };
            self.push_outstanding(Outstanding { kind, opaque, since_ms: now_ms, era });
        }
        is_written
    }

    pub(super) fn push_probe(&mut self, now_ms: u64, connected: Connected, era: Era) {
        self.bytes.extend_from_slice(META_NOOP);
        self.has_old_probe = connected == Connected::Yes;
        let is_sent = connected == Connected::Yes || is_planted("client-probe-unsent");
        let kind = Kind::Probe { is_sent };
        self.push_outstanding(Outstanding { kind, opaque: self.opaque, since_ms: now_ms, era });
    }

    fn push_outstanding(&mut self, request: Outstanding) {
        self.opaque = self.opaque.wrapping_add(1);
        self.requests.push(request);
    }

    /// The bytes to send next.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The bytes to send next in one TLS record. It ends behind a value: memcached (at least
    /// 1.6.18) does not process a request behind a value in the same record before more data
    /// arrives.
    pub(super) fn unsent_record(&self) -> &[u8] {
        let end = self.stores.front().copied().unwrap_or(self.bytes.len());
        &self.bytes[self.sent..end]
    }

    pub(super) fn note_sent(&mut self, bytes: usize, now_ms: u64) {
        self.sent += bytes;
        self.note_burst(bytes, now_ms);
        while self.stores.front().is_some_and(|end| *end <= self.sent) {
            self.stores.pop_front();
        }
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(CAPACITY_MAX);
            self.sent = 0;
            self.start_probe(now_ms);
        }
    }

    /// Everything was sent. A probe is pushed only if no other request waits.
    fn start_probe(&mut self, now_ms: u64) {
        if let Some(oldest) = self.requests.oldest_mut()
            && let Kind::Probe { is_sent: is_sent @ false } = &mut oldest.kind
        {
            (*is_sent, oldest.since_ms) = (true, now_ms);
        }
    }

    /// Notes that this many bytes were sent or received.
    pub(super) fn note_burst(&mut self, bytes: usize, now_ms: u64) {
        if bytes >= BURST {
            self.burst_ms = now_ms;
        }
    }

    /// How many requests wait for a reply.
    pub(super) fn waiting(&self) -> usize {
        self.requests.waiting()
    }

    /// Whether the oldest request has timed out and still has no reply.
    pub(super) fn has_unanswered(&self) -> bool {
        self.requests.has_timed_out()
    }

    pub(super) fn has_old_probe(&self) -> bool {
        self.has_old_probe
    }

    /// The next reply in `input`.
    pub(super) fn next<'i>(&mut self, input: &'i [u8]) -> Parsed<'i> {
        if self.next == Next::Unknown {
            return Parsed::Untrusted;
        }
        if input.is_empty() {
            return Parsed::Incomplete(0);
        }
        if let Some(parsed) = self.next_hit(input) {
            return parsed;
        }
        let (line, value, length) = match client::read(input, VALUE_MAX) {
            Read::Reply(Reply::MetaValue { line, value }, length) => (line, Some(value), length),
            Read::Reply(Reply::Line(line), length) => (line, None, length),
            Read::Unfinished(wanted) => return Parsed::Incomplete(wanted),
            Read::Reply(..) | Read::TooLong { .. } | Read::Broken => return Parsed::Invalid,
        };
        let Some(Outstanding { kind, opaque, .. }) = self.requests.first().copied() else {
            return Parsed::Invalid;
        };
        let Kind::Request { op, dialect, origin } = kind else {
            let is_reply = line == reply::META_NOOP || answers::failed(line).is_some();
            if !is_reply || value.is_some() {
                return Parsed::Invalid;
            }
            self.requests.complete();
            self.has_old_probe = false;
            return Parsed::ProbeReply(length);
        };
        let Some(said) = text::read(op, dialect, line, value) else { return Parsed::Invalid };
        // All replies repeat the opaque, except EN, errors and the reply to flush_all, which has
        // none. Any other reply without it belongs to another request.
        let is_own = match said.opaque {
            Some(repeated) => repeated == opaque,
            None => op == Op::FlushAll || line == reply::META_MISS || said.answer.outcome.is_error(),
        };
        if !is_own && !is_planted("client-late-reply-to-next") {
            return Parsed::Invalid;
        }
        if op.group() == Group::Update && !answers::has_passed_over_meta_value(said.answer.line) {
            self.next = Next::Unknown;
        }
        self.complete(origin, said.answer, length)
    }

    /// The hit at the front of `input`, if the next reply is one.
    #[inline]
    fn next_hit<'i>(&mut self, input: &'i [u8]) -> Option<Parsed<'i>> {
        let Outstanding { kind, opaque, .. } = self.requests.first()?;
        let Kind::Request { op: Op::Get | Op::Gets | Op::Gat | Op::Gats, dialect: Dialect::Classic, origin } =
            *kind
        else {
            return None;
        };
        let (said, length) = text::hit(input).filter(|(said, _)| said.opaque == Some(*opaque))?;
        Some(self.complete(origin, said.answer, length))
    }

    /// Completes the first request.
    fn complete<'i>(&mut self, origin: Origin<Ticket>, answer: Answer<'i>, length: usize) -> Parsed<'i> {
        match self.requests.complete() {
            Arrival::InTime => Parsed::Reply(origin, answer, length),
            Arrival::Late => Parsed::Late(length),
        }
    }

    /// When the oldest request times out.
    pub(super) fn deadline(&self, timeout_ms: u64) -> Option<u64> {
        let oldest = self.requests.oldest()?;
        if let Kind::Probe { is_sent: false } = oldest.kind {
            // The request waits for a connection, which has its own timeout.
            return None;
        }
        Some(oldest.since_ms.max(self.burst_ms) + timeout_ms)
    }

    /// Times the oldest request out, if it has waited too long. A probe has no origin.
    pub(super) fn time_out(&mut self, now_ms: u64, timeout_ms: u64) -> Option<(Option<Origin<Ticket>>, Era)> {
        self.deadline(timeout_ms).filter(|deadline| now_ms >= *deadline)?;
        let oldest = *self.requests.oldest()?;
        if is_planted("client-late-reply-to-next") {
            self.requests.complete();
        } else {
            self.requests.time_out_oldest();
        }
        Some((oldest.origin(), oldest.era))
    }

    /// How many late replies may still arrive.
    #[cfg(test)]
    pub(super) fn timed_out(&self) -> usize {
        self.requests.len() - self.requests.waiting()
    }

    /// The connection has ended. Returns the requests that get no reply.
    pub(super) fn disconnect(&mut self) -> Vec<Origin<Ticket>> {
        let failed = self.requests.iter_waiting().filter_map(Outstanding::origin).collect();
        self.requests.clear();
        self.bytes.clear();
        self.stores.clear();
        (self.sent, self.next, self.has_old_probe) = (0, Next::Reply, false);
        failed
    }
}

impl Outstanding {
    fn origin(&self) -> Option<Origin<Ticket>> {
        match self.kind {
            Kind::Request { origin, .. } => Some(origin),
            Kind::Probe { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::window::Window;
    use guira_routing::Outcome;

    fn pipeline(ops: &[(Op, &str)]) -> Pipeline {
        let mut pipeline = Pipeline::default();
        for (part, (op, key)) in ops.iter().enumerate() {
            let origin = Origin::Client(Ticket { call: 0, part: part as u32 });
            let request = Request { value: b"v", ..Request::classic(*op, key.as_bytes()) };
            assert!(pipeline.push(&request, origin, 100, Window::default().era()));
        }
        pipeline.note_sent(pipeline.unsent().len(), 100);
        pipeline
    }

    fn part(parsed: &Parsed<'_>) -> Option<(u32, Outcome)> {
        match parsed {
            Parsed::Reply(Origin::Client(ticket), answer, _) => Some((ticket.part, answer.outcome)),
            _ => None,
        }
    }

    #[test]
    fn replies_complete_requests_in_order() {
        let mut pipeline = pipeline(&[(Op::Get, "a"), (Op::Set, "b"), (Op::Get, "c")]);
        let (mut input, mut replies) = (b"VA 1 f0 O0\r\nx\r\nHD O1\r\nEN\r\nrest".as_slice(), Vec::new());
        while let Parsed::Reply(origin, answer, taken) = pipeline.next(input) {
            replies.extend(part(&Parsed::Reply(origin, answer, taken)));
            input = &input[taken..];
        }
        assert_eq!(replies, [(0, Outcome::Found), (1, Outcome::Stored), (2, Outcome::NotFound)]);
        assert!(matches!(pipeline.next(b"HD O3\r\n"), Parsed::Invalid), "no request is left");
    }

    #[test]
    fn a_reply_with_another_opaque_or_without_one_is_invalid() {
        for reply in [
            "VA 1 f0 O1\r\nx\r\n",
            "VA 1 f0\r\nx\r\n",
            "EN O7\r\n",
            "HD O0\r\n",
            "VALUE a 0 1\r\nx\r\n",
            "MN\r\n",
        ] {
            assert!(matches!(pipeline(&[(Op::Get, "a")]).next(reply.as_bytes()), Parsed::Invalid), "{reply}");
        }
        for (op, reply) in [
            (Op::Delete, "HD\r\n"),
            (Op::Delete, "NF\r\n"),
            (Op::Touch, "HD\r\n"),
            (Op::Set, "HD\r\n"),
            (Op::Add, "NS\r\n"),
            (Op::Cas, "EX\r\n"),
            (Op::Incr, "NF\r\n"),
        ] {
            assert!(
                matches!(pipeline(&[(op, "a")]).next(reply.as_bytes()), Parsed::Invalid),
                "{op:?} {reply}"
            );
        }
        assert_eq!(part(&pipeline(&[(Op::FlushAll, "")]).next(b"OK\r\n")), Some((0, Outcome::Ok)));
        let mut own = pipeline(&[(Op::Get, "a")]);
        assert_eq!(part(&own.next(b"VA 1 f0 O0\r\nx\r\n")), Some((0, Outcome::Found)));
    }

    #[test]
    fn a_late_reply_is_discarded() {
        let mut pipeline = pipeline(&[(Op::Get, "a"), (Op::Get, "b")]);
        assert!(pipeline.time_out(149, 50).is_none());
        assert!(pipeline.time_out(150, 50).is_some());
        assert_eq!((pipeline.waiting(), pipeline.timed_out()), (1, 1));
        let Parsed::Late(taken) = pipeline.next(b"VA 1 f0 O0\r\nx\r\n") else { panic!("the reply is late") };
        assert_eq!((taken, pipeline.timed_out()), (15, 0));
        assert_eq!(part(&pipeline.next(b"EN O1\r\n")), Some((1, Outcome::NotFound)));
    }

    #[test]
    fn the_timeout_of_a_probe_begins_when_it_is_sent_and_its_late_reply_counts() {
        let mut pipeline = Pipeline::default();
        pipeline.push_probe(100, Connected::No, Window::default().era());
        assert!(pipeline.deadline(50).is_none() && pipeline.time_out(1000, 50).is_none());
        pipeline.note_sent(4, 1000);
        assert!(pipeline.time_out(1049, 50).is_none());
        assert!(pipeline.time_out(1050, 50).is_some());
        assert!(matches!(pipeline.next(b"MN\r\n"), Parsed::ProbeReply(4)));
        // A probe over a connection that accepts nothing times out.
        pipeline.push_probe(100, Connected::Yes, Window::default().era());
        assert!(pipeline.time_out(150, 50).is_some());
    }

    #[test]
    fn no_reply_is_trusted_behind_a_store_that_was_refused() {
        let mut pipeline = pipeline(&[(Op::Set, "a"), (Op::Get, "b")]);
        assert_eq!(part(&pipeline.next(b"CLIENT_ERROR bad data chunk\r\n")), Some((0, Outcome::ClientError)));
        assert!(matches!(pipeline.next(b""), Parsed::Untrusted), "also before more bytes arrive");
        assert!(matches!(pipeline.next(b"EN O1\r\n"), Parsed::Untrusted));
        assert_eq!(pipeline.disconnect().len(), 1);
    }

    #[test]
    fn a_server_busy_with_a_long_message_is_not_slow() {
        let mut pipeline = pipeline(&[(Op::Get, "a")]);
        pipeline.note_burst(BURST, 140);
        assert_eq!(pipeline.deadline(50), Some(190));
        pipeline.note_burst(BURST - 1, 180);
        assert!(pipeline.time_out(190, 50).is_some());
    }
}
