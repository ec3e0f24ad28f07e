//! Matches replies with the requests that they belong to.

use super::outstanding::{Kind, LeaseStep, Outstanding};
use super::{FailedRequest, Pipeline};
use crate::ticket::Ticket;
use guira_protocol::client::{self, Read, Reply, Value, words};
use guira_routing::config::Leases;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Outcome};
use guira_upstream::{Arrival, VALUE_MAX, answers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The reply to the first request.
    Reply,
    /// The end of a get with replies to all keys.
    End,
    /// The rest of a value that is too long.
    RestOfValue { bytes: u64, then: AfterValue },
    /// Unknown: the server may have executed a data block as commands.
    Unknown,
}

/// The part behind a long value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterValue {
    Reply,
    End,
}

/// The first bytes of the input.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    /// The reply to a request in time, and its length.
    Reply(Origin<Ticket>, Answer<'a>, usize),
    /// The reply to a delete that the server has not executed.
    FailedDelete(FailedRequest, Answer<'a>, usize),
    /// The reply to a request of the router itself.
    OwnReply(usize),
    /// Bytes that no request waits for.
    Discarded(usize),
    /// An incomplete reply, and its length if known.
    Incomplete(usize),
    /// The bytes cannot be a reply to the first request.
    Invalid,
}

#[derive(Debug)]
pub(in crate::upstream) enum Step<'a> {
    Done(Parsed<'a>),
    Lease(Received<'a>),
}

/// A reply, the request that it belongs to by order, and its length.
#[derive(Debug)]
pub(in crate::upstream) struct Received<'a> {
    pub(in crate::upstream) request: Outstanding,
    pub(in crate::upstream) reply: Reply<'a>,
    pub(in crate::upstream) length: usize,
}

/// Hits at the front of the input.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct Hits {
    pub(in crate::upstream) bytes: usize,
    pub(in crate::upstream) count: u64,
}

const END: &[u8] = b"END\r\n";
const TOO_LONG: Answer<'static> =
    Answer { line: b"SERVER_ERROR the value is too long for the router", ..Answer::of(Outcome::RemoteError) };

impl Pipeline {
    /// Passes the hits at the front of `input` to `each`, as far as clients wait for them: most
    /// replies are hits.
    #[inline]
    pub(in crate::upstream) fn take_hits<'i>(
        &mut self,
        input: &'i [u8],
        mut each: impl FnMut(Ticket, &Value<'i>),
    ) -> Hits {
        let mut hits = Hits { bytes: 0, count: 0 };
        while self.next == Next::Reply
            && !self.requests.has_timed_out()
            && let Some(request) = self.requests.first()
            && let Origin::Client(ticket) = request.origin
            && let Some((value, length)) = self.hit(request, &input[hits.bytes..])
        {
            let is_last = matches!(request.kind, Kind::LastKey(_));
            self.requests.complete();
            each(ticket, &value);
            hits.bytes += length;
            hits.count += 1;
            if is_last {
                if input[hits.bytes..].starts_with(END) {
                    hits.bytes += END.len();
                } else {
                    self.next = Next::End;
                }
            }
        }
        if hits.count > 0 {
            self.timeouts_in_a_row = 0;
        }
        hits
    }

    /// The item at the front of `input`, if it is a hit of this request.
    #[inline(always)]
    fn hit<'i>(&self, request: &Outstanding, input: &'i [u8]) -> Option<(Value<'i>, usize)> {
        let (Kind::Key | Kind::LastKey(_)) = request.kind else { return None };
        let (value, length) = client::value_of(input, self.key_of(request))?;
        (!self.is_doubtful(&value)).then_some((value, length))
    }

    /// Whether an item may be none, and mark a key that is to be filled.
    #[inline]
    fn is_doubtful(&self, value: &Value<'_>) -> bool {
        value.value.is_empty() && value.flags == 0 && self.leases == Leases::Meta
    }

    /// The next reply in `input`.
    #[inline]
    pub(in crate::upstream) fn next<'i>(&mut self, input: &'i [u8]) -> Step<'i> {
        if self.next == Next::Unknown {
            return Step::Done(Parsed::Invalid);
        }
        if input.is_empty() {
            return Step::Done(Parsed::Incomplete(0));
        }
        if let Next::RestOfValue { bytes, then } = self.next {
            return Step::Done(self.skip(bytes, then, input.len()));
        }
        if self.next == Next::Reply
            && let Some(request) = self.requests.first()
            && let Some((value, length)) = self.hit(request, input)
        {
            let request = *request;
            return Step::Done(self.complete_key(&request, answers::found(&value), length));
        }
        match client::read(input, VALUE_MAX) {
            Read::Reply(reply, length) => self.match_reply(reply, length),
            Read::Unfinished(wanted) => Step::Done(Parsed::Incomplete(wanted)),
            Read::TooLong { line, taken, block } => Step::Done(self.begin_skip(line, taken, block)),
            Read::Broken => Step::Done(Parsed::Invalid),
        }
    }

    #[inline]
    fn match_reply<'i>(&mut self, reply: Reply<'i>, length: usize) -> Step<'i> {
        match self.next {
            Next::Reply => {}
            Next::End => return Step::Done(self.end_get(reply, length)),
            Next::RestOfValue { .. } | Next::Unknown => return Step::Done(Parsed::Invalid),
        }
        let Some(request) = self.requests.first().copied() else {
            return Step::Done(Parsed::Invalid);
        };
        let received = Received { request, reply, length };
        if self.concerns_leases(&received) {
            Step::Lease(received)
        } else {
            Step::Done(self.complete(&received))
        }
    }

    /// Whether the lessor interprets a reply: it belongs to a request of the lessor, proves that
    /// the server supports leases, or is an item that may be none.
    #[inline]
    fn concerns_leases(&self, Received { request, reply, .. }: &Received<'_>) -> bool {
        match (request.kind, reply) {
            (Kind::Lease(_), _)
            | (Kind::Key | Kind::LastKey(_), Reply::Lease(_))
            | (Kind::LastKey(Op::LeaseGet), Reply::Line(_)) => true,
            (Kind::Key | Kind::LastKey(_), Reply::Value(value)) => {
                self.is_doubtful(value) && value.key == self.key_of(request)
            }
            _ => false,
        }
    }

    /// The reply to a get behind those to its keys. An error takes the place of the end: all keys
    /// have replies.
    fn end_get<'i>(&mut self, reply: Reply<'i>, length: usize) -> Parsed<'i> {
        self.next = Next::Reply;
        match reply {
            Reply::End => Parsed::Discarded(length),
            Reply::Line(line) if answers::failed(line).is_some() => Parsed::Discarded(length),
            _ => Parsed::Invalid,
        }
    }

    /// Completes the first request with a reply that is no matter of leases.
    #[inline]
    pub(in crate::upstream) fn complete<'i>(&mut self, received: &Received<'i>) -> Parsed<'i> {
        let Received { request, reply, length } = received;
        let length = *length;
        let answer = match (request.kind, *reply) {
            (Kind::Key | Kind::LastKey(_), reply) => return self.complete_get(request, reply, length),
            (Kind::Line(op), Reply::Line(line)) => answers::of_line(op, line),
            (Kind::Meta(op), Reply::MetaValue { line, value }) => {
                self.meta_answer(op, request, line, Some(value))
            }
            (Kind::Meta(op), Reply::Line(line)) => self.meta_answer(op, request, line, None),
            (Kind::Delete(dialect), Reply::Line(line)) => {
                let answer = match dialect {
                    Dialect::Classic => answers::of_line(Op::Delete, line),
                    Dialect::Meta => self.meta_answer(Op::Delete, request, line, None),
                };
                let Some(answer) = answer else { return Parsed::Invalid };
                return self.complete_delete(request, answer, length);
            }
            (Kind::Probe, reply) if answers::is_of_probe(&reply) => return self.complete_own(length),
            _ => None,
        };
        let Some(answer) = answer else { return Parsed::Invalid };
        let has_read_value = match request.kind {
            Kind::Line(op) if op.group() == Group::Update => answers::has_passed_over_value(answer.line),
            Kind::Meta(op) if op.group() == Group::Update => answers::has_passed_over_meta_value(answer.line),
            _ => true,
        };
        if !has_read_value {
            self.distrust();
        }
        self.complete_with(request, answer, length)
    }

    fn complete_get<'i>(&mut self, request: &Outstanding, reply: Reply<'i>, length: usize) -> Parsed<'i> {
        // One reply without a value completes all keys that are left.
        let is_last = matches!(request.kind, Kind::LastKey(_));
        let length_of_last = if is_last { length } else { 0 };
        let (value, answer) = match reply {
            Reply::Value(value) => (value, answers::found(&value)),
            Reply::Lease(value) => (value, answers::lease(&value)),
            Reply::End => return self.complete_with(request, Answer::of(Outcome::NotFound), length_of_last),
            Reply::Line(line) => {
                let Some(answer) = answers::failed(line) else { return Parsed::Invalid };
                return self.complete_with(request, answer, length_of_last);
            }
            Reply::MetaValue { .. } => return Parsed::Invalid,
        };
        if value.key == self.key_of(request) {
            return self.complete_key(request, answer, length);
        }
        self.complete_missing(request)
    }

    /// The reply is that to a later key of the same get.
    fn complete_missing<'i>(&mut self, request: &Outstanding) -> Parsed<'i> {
        match request.kind {
            Kind::Key => self.complete_with(request, Answer::of(Outcome::NotFound), 0),
            _ => Parsed::Invalid,
        }
    }

    /// Completes a key of a get with an item.
    #[inline]
    pub(in crate::upstream) fn complete_key<'i>(
        &mut self,
        request: &Outstanding,
        answer: Answer<'i>,
        length: usize,
    ) -> Parsed<'i> {
        if let Kind::LastKey(_) = request.kind {
            self.next = Next::End;
        }
        self.complete_with(request, answer, length)
    }

    fn complete_delete<'i>(
        &mut self,
        request: &Outstanding,
        answer: Answer<'i>,
        length: usize,
    ) -> Parsed<'i> {
        if !answer.outcome.is_failover_error() {
            return self.complete_with(request, answer, length);
        }
        let failed = self.failed(request);
        match self.complete_first() {
            Arrival::InTime => Parsed::FailedDelete(failed, answer, length),
            Arrival::Late => Parsed::Discarded(length),
        }
    }

    /// Completes a request of the router itself.
    pub(in crate::upstream) fn complete_own<'i>(&mut self, length: usize) -> Parsed<'i> {
        match self.complete_first() {
            Arrival::InTime => Parsed::OwnReply(length),
            Arrival::Late => Parsed::Discarded(length),
        }
    }

    #[inline]
    pub(in crate::upstream) fn complete_with<'i>(
        &mut self,
        request: &Outstanding,
        answer: Answer<'i>,
        length: usize,
    ) -> Parsed<'i> {
        match self.complete_first() {
            Arrival::InTime => Parsed::Reply(request.origin, answer, length),
            Arrival::Late => Parsed::Discarded(length),
        }
    }

    #[inline]
    fn complete_first(&mut self) -> Arrival {
        let arrival = self.requests.complete();
        if arrival == Arrival::InTime {
            self.timeouts_in_a_row = 0;
        }
        arrival
    }

    /// Expects the end of a get next.
    pub(in crate::upstream) fn expect_end(&mut self) {
        self.next = Next::End;
    }

    /// Trusts no further bytes: the server may have executed a value as commands.
    pub(in crate::upstream) fn distrust(&mut self) {
        self.next = Next::Unknown;
    }

    /// The meaning of a meta reply; `None` if it cannot belong to the request.
    pub(in crate::upstream) fn meta_answer<'i>(
        &self,
        op: Op,
        request: &Outstanding,
        line: &'i [u8],
        value: Option<&'i [u8]>,
    ) -> Option<Answer<'i>> {
        let text = self.text_of(request);
        // Within the line a carriage return is a byte like others.
        let line_end = memchr::memchr(b'\n', text).unwrap_or(text.len());
        let text = text[..line_end].strip_suffix(b"\r").unwrap_or(&text[..line_end]);
        answers::of_meta(op, line, value)
            .filter(|answer| answer.outcome.is_error() || client::belongs(text, line, value.is_some()))
    }

    /// The key of a get in the request's form.
    #[inline]
    pub(in crate::upstream) fn key_of(&self, request: &Outstanding) -> &[u8] {
        self.buffer.slice(request.position, usize::from(request.key_length))
    }

    /// The bytes from the beginning of a request on.
    pub(in crate::upstream) fn text_of(&self, request: &Outstanding) -> &[u8] {
        self.buffer.from(request.begin())
    }

    /// A value begins that is too long for the router: its request fails, and its bytes are skipped
    /// as they arrive.
    #[cold]
    fn begin_skip<'i>(&mut self, line: &'i [u8], length: usize, block: u64) -> Parsed<'i> {
        let Some(request) = self.requests.first().copied().filter(|_| self.next == Next::Reply) else {
            return Parsed::Invalid;
        };
        let then = match request.kind {
            Kind::Key | Kind::LastKey(_) if words(line).nth(1) != Some(self.key_of(&request)) => {
                return self.complete_missing(&request);
            }
            Kind::Key => AfterValue::Reply,
            Kind::LastKey(_) => AfterValue::End,
            Kind::Meta(op) if self.meta_answer(op, &request, line, Some(b"")).is_some() => AfterValue::Reply,
            _ => return Parsed::Invalid,
        };
        self.next = Next::RestOfValue { bytes: block, then };
        self.complete_with(&request, TOO_LONG, length)
    }

    /// Skips the rest of a value, of which `length` bytes may have arrived.
    #[cold]
    fn skip<'i>(&mut self, bytes: u64, then: AfterValue, length: usize) -> Parsed<'i> {
        let skipped = usize::try_from(bytes).unwrap_or(length).min(length);
        let bytes = bytes - skipped as u64;
        self.next = match (bytes, then) {
            (0, AfterValue::Reply) => Next::Reply,
            (0, AfterValue::End) => Next::End,
            _ => Next::RestOfValue { bytes, then },
        };
        Parsed::Discarded(skipped)
    }
}

impl Outstanding {
    /// The step of the lessor that the request is.
    pub(in crate::upstream) fn lease_step(&self) -> Option<LeaseStep> {
        match self.kind {
            Kind::Lease(step) => Some(step),
            _ => None,
        }
    }
}
