//! What one server was asked over one connection, and what it answers.

use super::text;
use crate::pools::window::Era;
use guira_protocol::client::META_NOOP;
use guira_protocol::word::reply;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Request};
use guira_upstream::answers;
use guira_upstream::reply::{Read, Reply, read};
use std::collections::VecDeque;

/// A key of a call of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pools) struct Ticket {
    pub(in crate::pools) call: u32,
    pub(in crate::pools) part: u32,
}

/// A reply that has to come.
#[derive(Clone, Copy, Debug)]
struct Expected {
    kind: Kind,
    opaque: u32,
    asked_ms: u64,
    era: Era,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Request {
        op: Op,
        dialect: Dialect,
        origin: Origin<Ticket>,
    },
    /// It is asked whether it is there. Its time begins when it is sent: the thread that asks may be away in between.
    Probe {
        is_sent: bool,
    },
}

/// Whether there is a connection already, which takes what is asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connected {
    Yes,
    No,
}

/// What a server was asked and has not answered.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// What is to be sent, from the first request on of which something was not.
    wire: Vec<u8>,
    sent: usize,
    /// Where stores end in it that were not sent.
    stores: VecDeque<usize>,
    expected: VecDeque<Expected>,
    /// How many at the front of it nobody waits for any more.
    given_up: usize,
    opaque: u32,
    next: Next,
    /// When it was last seen to be at work on something long.
    busy_ms: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Reply,
    /// Nobody knows: the server may have taken a value for requests.
    Unknown,
}

/// What a server has said.
#[derive(Debug)]
pub(super) enum Heard<'i> {
    /// The answer to what was asked for `origin`, and how much of the input is dealt with.
    Answer(Origin<Ticket>, Answer<'i>, usize),
    /// What nobody waits for any more.
    Late(usize),
    /// It is there, however late it says so: perhaps this thread has not listened.
    Alive(usize),
    /// No more replies: the next has so many bytes, as far as is known.
    Silence(usize),
    /// Nothing that makes sense.
    Garbage,
    /// What comes next belongs to nothing that is known: the connection is to be closed, so that no request is sent to where a value is expected.
    End,
}

/// A server that this much is sent to or comes from at once is not slow, but has much to do.
const LONG: usize = 16 << 10;
/// Bytes that a server may be asked without having taken them.
const WIRE_MAX: usize = 128 << 20;
/// So much of a buffer is kept.
const KEPT_MAX: usize = 64 << 10;

impl Lane {
    /// Whether it takes no more requests for now.
    pub(super) fn is_full(&self) -> bool {
        self.wire.len() > WIRE_MAX
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
        let is_written = text::write(request, opaque, &mut self.wire);
        if is_written {
            if request.op.group() == Group::Update {
                self.stores.push_back(self.wire.len());
            }
            let kind = Kind::Request { op: request.op, dialect: request.dialect, origin };
            self.expect(Expected { kind, opaque, asked_ms: now_ms, era });
        }
        is_written
    }

    /// Asks whether the server is there.
    pub(super) fn push_probe(&mut self, now_ms: u64, connected: Connected, era: Era) {
        self.wire.extend_from_slice(META_NOOP);
        let kind = Kind::Probe { is_sent: connected == Connected::Yes };
        self.expect(Expected { kind, opaque: self.opaque, asked_ms: now_ms, era });
    }

    fn expect(&mut self, expected: Expected) {
        self.opaque = self.opaque.wrapping_add(1);
        self.expected.push_back(expected);
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// What of it may be sent in one record of TLS: nothing behind a value, which memcached (1.6.18 at least) does not see until more is sent.
    pub(super) fn unsent_record(&self) -> &[u8] {
        let end = self.stores.front().copied().unwrap_or(self.wire.len());
        &self.wire[self.sent..end]
    }

    /// So much of it was sent.
    pub(super) fn sent(&mut self, bytes: usize, now_ms: u64) {
        self.sent += bytes;
        self.note_work(bytes, now_ms);
        while self.stores.front().is_some_and(|end| *end <= self.sent) {
            self.stores.pop_front();
        }
        if self.sent == self.wire.len() {
            self.wire.clear();
            self.wire.shrink_to(KEPT_MAX);
            self.sent = 0;
            self.note_sent_probe(now_ms);
        }
    }

    /// Everything was sent, a probe too if there is one: it is only asked when nothing else is.
    fn note_sent_probe(&mut self, now_ms: u64) {
        let first = self.expected.get_mut(self.given_up);
        if let Some(Expected { kind: Kind::Probe { is_sent: is_sent @ false }, asked_ms, .. }) = first {
            (*is_sent, *asked_ms) = (true, now_ms);
        }
    }

    /// So much has come of it, or went to it.
    pub(super) fn note_work(&mut self, bytes: usize, now_ms: u64) {
        if bytes >= LONG {
            self.busy_ms = now_ms;
        }
    }

    /// How many requests somebody waits for.
    pub(super) fn outstanding(&self) -> usize {
        self.expected.len() - self.given_up
    }

    /// The next reply in `input`.
    pub(super) fn next<'i>(&mut self, input: &'i [u8]) -> Heard<'i> {
        if self.next == Next::Unknown {
            return Heard::End;
        }
        if input.is_empty() {
            return Heard::Silence(0);
        }
        if let Some(heard) = self.next_hit(input) {
            return heard;
        }
        let (line, value, taken) = match read(input) {
            Read::Reply(Reply::MetaValue { line, value }, taken) => (line, Some(value), taken),
            Read::Reply(Reply::Line(line), taken) => (line, None, taken),
            Read::Unfinished(wanted) => return Heard::Silence(wanted),
            Read::Reply(..) | Read::TooLong { .. } | Read::Broken => return Heard::Garbage,
        };
        let Some(Expected { kind, opaque, .. }) = self.expected.front().copied() else {
            return Heard::Garbage;
        };
        let Kind::Request { op, dialect, origin } = kind else {
            let is_there = line == reply::META_NOOP || answers::failed(line).is_some();
            return if is_there && value.is_none() {
                self.settle(Heard::Alive(taken))
            } else {
                Heard::Garbage
            };
        };
        let Some(said) = text::read(op, dialect, line, value) else { return Heard::Garbage };
        // All replies repeat the opaque that they were asked for, but EN, errors and the reply to flush_all, which has none: another
        // without it is that to another request.
        let is_own = match said.opaque {
            Some(told) => told == opaque,
            None => op == Op::FlushAll || line == reply::META_MISS || said.answer.outcome.is_error(),
        };
        if !is_own {
            return Heard::Garbage;
        }
        if op.group() == Group::Update && !answers::has_passed_over_meta_value(said.answer.line) {
            self.next = Next::Unknown;
        }
        self.settle(Heard::Answer(origin, said.answer, taken))
    }

    /// The hit in front of `input`, if the next reply is one.
    #[inline]
    fn next_hit<'i>(&mut self, input: &'i [u8]) -> Option<Heard<'i>> {
        let Expected { kind, opaque, .. } = self.expected.front()?;
        let Kind::Request { op: Op::Get | Op::Gets | Op::Gat | Op::Gats, dialect: Dialect::Classic, origin } =
            *kind
        else {
            return None;
        };
        let (said, taken) = text::hit(input).filter(|(said, _)| said.opaque == Some(*opaque))?;
        Some(self.settle(Heard::Answer(origin, said.answer, taken)))
    }

    /// The oldest request is answered.
    fn settle<'i>(&mut self, heard: Heard<'i>) -> Heard<'i> {
        self.expected.pop_front();
        if self.given_up == 0 {
            return heard;
        }
        self.given_up -= 1;
        match heard {
            Heard::Answer(_, _, taken) => Heard::Late(taken),
            other => other,
        }
    }

    /// When the oldest request is to be given up that may wait for so long, while its connection begins at most since then.
    pub(super) fn deadline(&self, patience_ms: u64) -> Option<u64> {
        let oldest = self.expected.get(self.given_up)?;
        if let Kind::Probe { is_sent: false } = oldest.kind {
            // It waits for a connection, which has a deadline of its own.
            return None;
        }
        Some(oldest.asked_ms.max(self.busy_ms) + patience_ms)
    }

    /// Gives the oldest request up, if its time is over.
    pub(super) fn give_up(&mut self, now_ms: u64, patience_ms: u64) -> Option<(Option<Origin<Ticket>>, Era)> {
        self.deadline(patience_ms).filter(|deadline| now_ms >= *deadline)?;
        let oldest = self.expected.get(self.given_up)?;
        self.given_up += 1;
        Some((oldest.origin(), oldest.era))
    }

    /// How many replies may still come that nobody waits for.
    #[cfg(test)]
    pub(super) fn given_up(&self) -> usize {
        self.given_up
    }

    /// The connection is gone. Returns who waits for answers that do not come any more.
    pub(super) fn fail(&mut self) -> Vec<Origin<Ticket>> {
        let lost = self.expected.iter().skip(self.given_up).filter_map(Expected::origin).collect();
        self.expected.clear();
        self.wire.clear();
        self.stores.clear();
        (self.sent, self.given_up, self.next) = (0, 0, Next::Reply);
        lost
    }
}

impl Expected {
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

    fn lane(ops: &[(Op, &str)]) -> Lane {
        let mut lane = Lane::default();
        for (part, (op, key)) in ops.iter().enumerate() {
            let origin = Origin::Client(Ticket { call: 0, part: part as u32 });
            let request = Request { value: b"v", ..Request::classic(*op, key.as_bytes()) };
            assert!(lane.push(&request, origin, 100, Window::default().era()));
        }
        lane.sent(lane.unsent().len(), 100);
        lane
    }

    fn part(heard: &Heard<'_>) -> Option<(u32, Outcome)> {
        match heard {
            Heard::Answer(Origin::Client(ticket), answer, _) => Some((ticket.part, answer.outcome)),
            _ => None,
        }
    }

    #[test]
    fn replies_answer_requests_in_their_order() {
        let mut lane = lane(&[(Op::Get, "a"), (Op::Set, "b"), (Op::Get, "c")]);
        let (mut input, mut heard) = (b"VA 1 f0 O0\r\nx\r\nHD O1\r\nEN\r\nrest".as_slice(), Vec::new());
        while let Heard::Answer(origin, answer, taken) = lane.next(input) {
            heard.extend(part(&Heard::Answer(origin, answer, taken)));
            input = &input[taken..];
        }
        assert_eq!(heard, [(0, Outcome::Found), (1, Outcome::Stored), (2, Outcome::NotFound)]);
        assert!(matches!(lane.next(b"HD O3\r\n"), Heard::Garbage), "nothing more was asked");
    }

    #[test]
    fn a_reply_with_another_opaque_or_without_is_none() {
        for reply in [
            "VA 1 f0 O1\r\nx\r\n",
            "VA 1 f0\r\nx\r\n",
            "EN O7\r\n",
            "HD O0\r\n",
            "VALUE a 0 1\r\nx\r\n",
            "MN\r\n",
        ] {
            assert!(matches!(lane(&[(Op::Get, "a")]).next(reply.as_bytes()), Heard::Garbage), "{reply}");
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
            assert!(matches!(lane(&[(op, "a")]).next(reply.as_bytes()), Heard::Garbage), "{op:?} {reply}");
        }
        assert_eq!(part(&lane(&[(Op::FlushAll, "")]).next(b"OK\r\n")), Some((0, Outcome::Ok)));
        let mut own = lane(&[(Op::Get, "a")]);
        assert_eq!(part(&own.next(b"VA 1 f0 O0\r\nx\r\n")), Some((0, Outcome::Found)));
    }

    #[test]
    fn what_comes_late_answers_nobody() {
        let mut lane = lane(&[(Op::Get, "a"), (Op::Get, "b")]);
        assert!(lane.give_up(149, 50).is_none());
        assert!(lane.give_up(150, 50).is_some());
        assert_eq!((lane.outstanding(), lane.given_up()), (1, 1));
        let Heard::Late(taken) = lane.next(b"VA 1 f0 O0\r\nx\r\n") else { panic!("it is late") };
        assert_eq!((taken, lane.given_up()), (15, 0));
        assert_eq!(part(&lane.next(b"EN O1\r\n")), Some((1, Outcome::NotFound)));
    }

    #[test]
    fn a_probe_has_its_time_from_when_it_was_sent_and_its_reply_counts_however_late() {
        let mut lane = Lane::default();
        lane.push_probe(100, Connected::No, Window::default().era());
        assert!(lane.deadline(50).is_none() && lane.give_up(1000, 50).is_none());
        lane.sent(4, 1000);
        assert!(lane.give_up(1049, 50).is_none());
        assert!(lane.give_up(1050, 50).is_some());
        assert!(matches!(lane.next(b"MN\r\n"), Heard::Alive(4)));
        // A connection that takes nothing is given up.
        lane.push_probe(100, Connected::Yes, Window::default().era());
        assert!(lane.give_up(150, 50).is_some());
    }

    #[test]
    fn nothing_is_believed_behind_a_store_that_was_not_understood() {
        let mut lane = lane(&[(Op::Set, "a"), (Op::Get, "b")]);
        assert_eq!(part(&lane.next(b"CLIENT_ERROR bad data chunk\r\n")), Some((0, Outcome::ClientError)));
        assert!(matches!(lane.next(b""), Heard::End), "also before anything more comes");
        assert!(matches!(lane.next(b"EN O1\r\n"), Heard::End));
        assert_eq!(lane.fail().len(), 1);
    }

    #[test]
    fn a_server_at_work_on_something_long_is_not_given_up() {
        let mut lane = lane(&[(Op::Get, "a")]);
        lane.note_work(LONG, 140);
        assert_eq!(lane.deadline(50), Some(190));
        lane.note_work(LONG - 1, 180);
        assert!(lane.give_up(190, 50).is_some());
    }
}
