//! What comes of replies: whom each is for, and whether it can be.

use super::{AfterValue, Awaited, Destination, Expected, Heard, Kind, Next};
use crate::ticket::Ticket;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Outcome};
use guira_upstream::reply::{self, Read, Reply, Value};
use guira_upstream::{answers, words};

/// What ends the reply to a get.
const END: &[u8] = b"END\r\n";
/// What becomes of a request for a value that is not taken.
const TOO_LONG: Answer<'static> =
    Answer { line: b"SERVER_ERROR the value is too long for the router", ..Answer::of(Outcome::RemoteError) };

impl Destination {
    /// The next reply in `input`.
    #[inline]
    pub(crate) fn next<'i>(&mut self, input: &'i [u8]) -> Heard<'i> {
        if self.next == Next::Unknown {
            return Heard::Garbage;
        }
        if input.is_empty() {
            return Heard::Silence(0);
        }
        if let Next::RestOfValue(then) = self.next {
            return self.pass_over(then, input.len());
        }
        if let Some((expected, value, taken)) = self.item(input) {
            return self.key_found(expected, answers::found(&value), taken);
        }
        match reply::read(input) {
            Read::Reply(reply, taken) => self.next_reply(reply, taken),
            Read::Unfinished(wanted) => Heard::Silence(wanted),
            Read::TooLong { line, taken, block } => self.next_too_long(line, taken, block),
            Read::Broken => Heard::Garbage,
        }
    }

    /// Deals with the items in front of `input` that clients wait for themselves: what most replies are. Returns how many bytes they are.
    #[inline]
    pub(crate) fn items<'i>(&mut self, input: &'i [u8], mut each: impl FnMut(Ticket, &Value<'i>)) -> usize {
        let (mut at, mut items) = (0, 0);
        while self.dead == 0
            && let Some(Expected { origin: Origin::Client(ticket), .. }) = self.expected.front().copied()
            && let Some((expected, value, taken)) = self.item(&input[at..])
        {
            if expected.kind == Kind::LastKey {
                self.next = Next::End;
            }
            self.expected.pop_front();
            each(ticket, &value);
            at += taken;
            items += 1;
            if self.next == Next::End && input[at..].starts_with(END) {
                self.next = Next::Reply;
                at += END.len();
            }
        }
        if items > 0 {
            self.given_up = 0;
            self.health.record_success();
            self.meter.ended(Outcome::Found, items);
        }
        at
    }

    /// The item in front of `input`, if it is what comes next.
    #[inline(always)]
    fn item<'i>(&self, input: &'i [u8]) -> Option<(Expected, Value<'i>, usize)> {
        let expected = self.expected.front().filter(|_| self.next == Next::Reply)?;
        let (Kind::Key | Kind::LastKey) = expected.kind else { return None };
        let (value, taken) = reply::value_of(input, self.key_of(expected))?;
        if self.lessor.doubts(&value) {
            return None;
        }
        Some((*expected, value, taken))
    }

    /// The key of a get, as it was asked for.
    #[inline]
    pub(super) fn key_of(&self, expected: &Expected) -> &[u8] {
        let at = (expected.at - self.before) as usize;
        &self.wire[at..at + usize::from(expected.length)]
    }

    fn next_reply<'i>(&mut self, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        match self.next {
            Next::Reply => {}
            Next::End => {
                self.next = Next::Reply;
                // An error in place of the end: all keys were answered.
                return match reply {
                    Reply::End => Heard::Nothing(taken),
                    Reply::Line(line) if answers::failed(line).is_some() => Heard::Nothing(taken),
                    _ => Heard::Garbage,
                };
            }
            Next::RestOfValue(_) | Next::Unknown => return Heard::Garbage,
        }
        let Some(expected) = self.expected.front().copied() else {
            return Heard::Garbage;
        };
        let answer = match (expected.kind, reply) {
            (Kind::Key | Kind::LastKey, reply) => return self.next_of_get(expected, reply, taken),
            (Kind::Lease(asked), reply) => return self.next_of_lease(asked, expected, reply, taken),
            (Kind::Line(op), Reply::Line(line)) => answers::of_line(op, line),
            (Kind::Meta(op), Reply::MetaValue { line, value }) => {
                self.of_meta(op, &expected, line, Some(value))
            }
            (Kind::Meta(op), Reply::Line(line)) => self.of_meta(op, &expected, line, None),
            (Kind::Delete(dialect), Reply::Line(line)) => {
                let answer = match dialect {
                    Dialect::Classic => answers::of_line(Op::Delete, line),
                    Dialect::Meta => self.of_meta(Op::Delete, &expected, line, None),
                };
                let Some(answer) = answer else { return Heard::Garbage };
                return self.answered_delete(expected, answer, taken);
            }
            (Kind::Probe, reply) if answers::is_of_probe(&reply) => {
                self.is_probed = false;
                self.settle();
                return Heard::Nothing(taken);
            }
            _ => None,
        };
        let Some(answer) = answer else { return Heard::Garbage };
        let is_understood = match expected.kind {
            Kind::Line(op) if op.group() == Group::Update => answers::has_passed_over_value(answer.line),
            Kind::Meta(op) if op.group() == Group::Update => answers::has_passed_over_meta_value(answer.line),
            _ => true,
        };
        if !is_understood {
            self.next = Next::Unknown;
        }
        self.answered(expected, answer, taken)
    }

    /// What the reply to a meta command says, if it can belong to it.
    pub(super) fn of_meta<'i>(
        &self,
        op: Op,
        expected: &Expected,
        line: &'i [u8],
        value: Option<&'i [u8]>,
    ) -> Option<Answer<'i>> {
        let request = &self.wire[(expected.begin() - self.before) as usize..];
        // Within the line a carriage return is a byte like others.
        let line_end = memchr::memchr(b'\n', request).unwrap_or(request.len());
        let request = request[..line_end].strip_suffix(b"\r").unwrap_or(&request[..line_end]);
        answers::of_meta(op, line, value)
            .filter(|answer| answer.outcome.is_error() || answers::belongs(request, line, value.is_some()))
    }

    fn next_of_get<'i>(&mut self, expected: Expected, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        let is_last = expected.kind == Kind::LastKey;
        let (value, answer) = match reply {
            Reply::Value(value) => (value, answers::found(&value)),
            Reply::Lease(value) => {
                self.lessor.prove();
                (value, answers::lease(&value))
            }
            Reply::End => {
                let missing = Answer::of(Outcome::NotFound);
                return self.answered(expected, missing, if is_last { taken } else { 0 });
            }
            Reply::Line(line) => {
                let Some(answer) = answers::failed(line) else { return Heard::Garbage };
                let answer = self.explained(&expected, answer);
                return self.answered(expected, answer, if is_last { taken } else { 0 });
            }
            Reply::MetaValue { .. } => return Heard::Garbage,
        };
        if value.key == self.key_of(&expected) {
            if answer.outcome == Outcome::Found && self.lessor.doubts(&value) {
                return self.look_again(expected, taken);
            }
            return self.key_found(expected, answer, taken);
        }
        if is_last { Heard::Garbage } else { self.answered(expected, Answer::of(Outcome::NotFound), 0) }
    }

    /// A value begins that is too long to be taken: it fails, and its bytes are passed over as they come.
    #[cold]
    fn next_too_long<'i>(&mut self, line: &'i [u8], taken: usize, block: u64) -> Heard<'i> {
        let Some(expected) = self.expected.front().copied().filter(|_| self.next == Next::Reply) else {
            return Heard::Garbage;
        };
        let then = match expected.kind {
            Kind::Key | Kind::LastKey if words(line).nth(1) != Some(self.key_of(&expected)) => {
                return match expected.kind {
                    Kind::Key => self.answered(expected, Answer::of(Outcome::NotFound), 0),
                    _ => Heard::Garbage,
                };
            }
            Kind::Key => AfterValue::Reply,
            Kind::LastKey => AfterValue::End,
            Kind::Meta(op) if self.of_meta(op, &expected, line, Some(b"")).is_some() => AfterValue::Reply,
            _ => return Heard::Garbage,
        };
        (self.next, self.passed_over) = (Next::RestOfValue(then), block);
        self.answered(expected, TOO_LONG, taken)
    }

    /// So many bytes have come, of a value that is not taken and perhaps of what comes behind it.
    #[cold]
    fn pass_over<'i>(&mut self, then: AfterValue, length: usize) -> Heard<'i> {
        let passed = usize::try_from(self.passed_over).unwrap_or(length).min(length);
        self.passed_over -= passed as u64;
        if self.passed_over == 0 {
            self.next = match then {
                AfterValue::Reply => Next::Reply,
                AfterValue::End => Next::End,
            };
        }
        Heard::Nothing(passed)
    }

    #[inline]
    fn key_found<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        if expected.kind == Kind::LastKey {
            self.next = Next::End;
        }
        self.answered(expected, answer, taken)
    }

    #[inline]
    pub(super) fn answered<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        match self.settle() {
            Awaited::No => Heard::Nothing(taken),
            Awaited::Yes => {
                self.meter.ended(answer.outcome, 1);
                Heard::Answer(expected.origin, answer, taken)
            }
        }
    }

    /// The oldest request is answered.
    #[inline]
    pub(super) fn settle(&mut self) -> Awaited {
        self.expected.pop_front();
        // Who answers too late is not there.
        if self.dead > 0 {
            self.dead -= 1;
            return Awaited::No;
        }
        self.given_up = 0;
        self.health.record_success();
        Awaited::Yes
    }

    fn answered_delete<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        if !answer.outcome.is_failover_error() {
            return self.answered(expected, answer, taken);
        }
        let lost = self.lost(&expected);
        match self.answered(expected, answer, taken) {
            Heard::Answer(_, answer, taken) => Heard::Failed(lost, answer, taken),
            other => other,
        }
    }
}
