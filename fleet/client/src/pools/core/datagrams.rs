//! Gets by UDP: memcached's frame around requests and replies. A lost or reordered datagram is an error; nothing is
//! requested again (*Scaling Memcache at Facebook*, section 3.1).
//!
//! A frame is the number of the request, the place of the datagram among those of an answer, how many these are, and 0; each has two bytes. An
//! answer has the reply to one key (memcached, and Guira for the first 64 keys of a datagram), or to several.

use super::pipeline::Ticket;
use super::text;
use crate::pools::window::Era;
use guira_protocol::client::{self, Read, Reply};
use guira_routing::{Answer, Dialect, Op, Origin, Request};
use guira_upstream::{VALUE_MAX, answers};
use std::collections::HashMap;

/// The frame in front of a datagram.
const FRAME: usize = 8;
/// A datagram with requests is no longer, so that it is one packet.
const DATAGRAM_MAX: usize = 1400;
/// Datagrams of a server that are under way.
const UNDER_WAY_MAX: usize = 1 << 12;

/// Requests to a server by UDP that are in flight.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// The datagram that takes further keys, and those that are complete.
    open: Option<Open>,
    ready: Vec<Vec<u8>>,
    in_flight: HashMap<u16, InFlight>,
    next_id: u16,
    opaque: u32,
}

#[derive(Debug)]
struct Open {
    id: u16,
    bytes: Vec<u8>,
}

/// The keys of one datagram.
#[derive(Debug)]
struct InFlight {
    keys: Vec<Key>,
    sent_ms: u64,
    era: Era,
    /// The answer that has begun to come.
    part: Part,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    opaque: u32,
    origin: Origin<Ticket>,
}

/// An answer of several datagrams, of which the first have come.
#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    next: u16,
    total: u16,
}

/// The result of a datagram.
#[derive(Debug)]
pub(super) enum Arrived {
    /// No reply yet, or one that no caller waits for.
    Nothing,
    /// The complete reply to the request with this number.
    Whole(u16, Vec<u8>),
    /// A part of an answer is missing.
    Lost(Lost),
}

/// The next part of an answer.
#[derive(Debug)]
pub(super) enum Next<'i> {
    Answer(Origin<Ticket>, Answer<'i>, usize),
    /// An error, which is the answer about all of these.
    Failed(Vec<Origin<Ticket>>, Answer<'i>),
    End,
    /// The datagram is malformed.
    Lost(Arrived),
}

/// Keys whose answers do not come any more.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) keys: Vec<Origin<Ticket>>,
    pub(super) era: Era,
}

/// Whether a frame is the one that was to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Kept,
    Broken,
}

impl Part {
    /// Takes the next datagram of an answer. Returns whether it was that, and whether the answer is complete now.
    fn take(&mut self, place: u16, total: u16, payload: &[u8]) -> (Order, bool) {
        if self.next == 0 {
            self.total = total;
        }
        let is_too_long = self.bytes.len() + payload.len() > VALUE_MAX as usize;
        if place != self.next || total != self.total || total == 0 || is_too_long {
            return (Order::Broken, false);
        }
        self.bytes.extend_from_slice(payload);
        self.next += 1;
        (Order::Kept, self.next == self.total)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl Datagrams {
    /// Whether a request can go by UDP.
    pub(super) fn takes(request: &Request<'_>) -> bool {
        request.dialect == Dialect::Classic && matches!(request.op, Op::Get | Op::Gets)
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= UNDER_WAY_MAX
    }

    pub(super) fn push(&mut self, request: &Request<'_>, origin: Origin<Ticket>, now_ms: u64, era: Era) {
        let opaque = self.opaque;
        self.opaque = opaque.wrapping_add(1);
        let mut line = Vec::with_capacity(request.key.len() + 24);
        text::write(request, opaque, &mut line);
        if self.open.as_ref().is_some_and(|open| open.bytes.len() + line.len() > DATAGRAM_MAX) {
            self.close();
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => self.begin(now_ms, era),
        };
        let open = self.open.insert(open);
        open.bytes.extend_from_slice(&line);
        if let Some(in_flight) = self.in_flight.get_mut(&open.id) {
            in_flight.keys.push(Key { opaque, origin });
        }
    }

    fn begin(&mut self, sent_ms: u64, era: Era) -> Open {
        // There are fewer under way than there are numbers.
        while self.in_flight.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.in_flight.insert(id, InFlight { keys: Vec::new(), sent_ms, era, part: Part::default() });
        let [high, low] = id.to_be_bytes();
        Open { id, bytes: vec![high, low, 0, 0, 0, 1, 0, 0] }
    }

    fn close(&mut self) {
        self.ready.extend(self.open.take().map(|open| open.bytes));
    }

    /// The datagrams that are to be sent.
    pub(super) fn take_ready(&mut self) -> Vec<Vec<u8>> {
        self.close();
        std::mem::take(&mut self.ready)
    }

    /// Takes a datagram of the server.
    pub(super) fn take(&mut self, datagram: &[u8]) -> Arrived {
        let numbers = [number(datagram, 0), number(datagram, 2), number(datagram, 4)];
        let ([Some(id), Some(place), Some(total)], Some(payload)) = (numbers, datagram.get(FRAME..)) else {
            return Arrived::Nothing;
        };
        // A late reply to a request that has timed out.
        let Some(in_flight) = self.in_flight.get_mut(&id) else { return Arrived::Nothing };
        match in_flight.part.take(place, total, payload) {
            (Order::Broken, _) => self.lose(id),
            (Order::Kept, false) => Arrived::Nothing,
            (Order::Kept, true) => Arrived::Whole(id, std::mem::take(&mut in_flight.part).bytes),
        }
    }

    /// The next reply in the rest of an answer. Each has to name a key that waits.
    pub(super) fn next<'i>(&mut self, id: u16, rest: &'i [u8]) -> Next<'i> {
        let Some(in_flight) = self.in_flight.get_mut(&id) else { return Next::End };
        if rest.is_empty() {
            if in_flight.keys.is_empty() {
                self.in_flight.remove(&id);
            }
            return Next::End;
        }
        let (line, value, taken) = match client::read(rest, VALUE_MAX) {
            Read::Reply(Reply::MetaValue { line, value }, taken) => (line, Some(value), taken),
            Read::Reply(Reply::Line(line), taken) => (line, None, taken),
            _ => return Next::Lost(self.lose(id)),
        };
        if let Some(failed) = answers::failed(line).filter(|_| value.is_none()) {
            // The failure has no key: all waiting keys fail.
            let keys = self.in_flight.remove(&id).map(|in_flight| in_flight.keys).unwrap_or_default();
            return Next::Failed(keys.iter().map(|key| key.origin).collect(), failed);
        }
        // All are gets. One without a unique receives none.
        let said = text::read(Op::Gets, Dialect::Classic, line, value);
        let place =
            said.and_then(|said| in_flight.keys.iter().position(|key| Some(key.opaque) == said.opaque));
        match (said, place) {
            (Some(said), Some(place)) => {
                Next::Answer(in_flight.keys.remove(place).origin, said.answer, taken)
            }
            _ => Next::Lost(self.lose(id)),
        }
    }

    fn lose(&mut self, id: u16) -> Arrived {
        self.remove(id).map_or(Arrived::Nothing, Arrived::Lost)
    }

    fn remove(&mut self, id: u16) -> Option<Lost> {
        let InFlight { keys, era, .. } = self.in_flight.remove(&id)?;
        Some(Lost { keys: keys.iter().map(|key| key.origin).collect(), era })
    }

    /// The time at which the first datagram is given up.
    pub(super) fn deadline(&self, patience_ms: u64) -> Option<u64> {
        self.in_flight.values().map(|in_flight| in_flight.sent_ms + patience_ms).min()
    }

    /// Gives up a datagram that has timed out.
    pub(super) fn give_up(&mut self, now_ms: u64, patience_ms: u64) -> Option<Lost> {
        let is_over = |in_flight: &InFlight| in_flight.sent_ms + patience_ms <= now_ms;
        let (id, _) = self.in_flight.iter().find(|(_, in_flight)| is_over(in_flight))?;
        let id = *id;
        self.remove(id)
    }

    /// Fails all requests, since nothing can be sent. Returns their origins.
    pub(super) fn fail(&mut self) -> Vec<Origin<Ticket>> {
        (self.open, self.ready) = (None, Vec::new());
        self.in_flight.drain().flat_map(|(_, in_flight)| in_flight.keys).map(|key| key.origin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::window::Window;
    use guira_routing::Outcome;

    fn in_flight(keys: usize) -> Datagrams {
        let mut datagrams = Datagrams::default();
        for part in 0..keys {
            let key = format!("key{part}");
            let origin = Origin::Client(Ticket { call: 0, part: part as u32 });
            datagrams.push(&Request::classic(Op::Get, key.as_bytes()), origin, 100, Window::default().era());
        }
        datagrams
    }

    fn frame(id: u16, place: u16, total: u16, payload: &str) -> Vec<u8> {
        let frame = [id, place, total, 0].map(u16::to_be_bytes).concat();
        [frame.as_slice(), payload.as_bytes()].concat()
    }

    /// The results of datagrams: the replies, and the lost keys.
    fn receive(datagrams: &mut Datagrams, all: &[Vec<u8>]) -> (Vec<(u32, Outcome)>, Vec<u32>) {
        let part = |origin: Origin<Ticket>| match origin {
            Origin::Client(ticket) => ticket.part,
            other => panic!("{other:?}"),
        };
        let (mut received, mut gone) = (Vec::new(), Vec::new());
        for datagram in all {
            let (id, bytes) = match datagrams.take(datagram) {
                Arrived::Whole(id, bytes) => (id, bytes),
                Arrived::Lost(lost) => {
                    gone.extend(lost.keys.into_iter().map(part));
                    continue;
                }
                Arrived::Nothing => continue,
            };
            let mut at = 0;
            loop {
                match datagrams.next(id, &bytes[at..]) {
                    Next::Answer(origin, answer, taken) => {
                        received.push((part(origin), answer.outcome));
                        at += taken;
                    }
                    Next::Failed(keys, answer) => {
                        received.extend(keys.into_iter().map(|origin| (part(origin), answer.outcome)));
                    }
                    Next::Lost(Arrived::Lost(lost)) => gone.extend(lost.keys.into_iter().map(part)),
                    Next::Lost(_) | Next::End => break,
                }
            }
        }
        (received, gone)
    }

    #[test]
    fn keys_share_a_datagram_as_far_as_there_is_room() {
        let all = in_flight(200).take_ready();
        assert!(all.len() > 1 && all.iter().all(|datagram| datagram.len() <= DATAGRAM_MAX));
        assert_eq!(&all[0][..24], b"\0\0\0\0\0\x01\0\0mg key0 v f O0\r\n".as_slice().get(..24).unwrap());
        assert_eq!(number(&all[1], 0), Some(1));
        let lines: usize = all.iter().map(|one| one.iter().filter(|byte| **byte == b'\n').count()).sum();
        assert_eq!(lines, 200);
    }

    #[test]
    fn an_answer_is_put_together_of_its_datagrams() {
        let mut datagrams = in_flight(2);
        datagrams.take_ready();
        let parts = [frame(0, 0, 2, "VA 3 f0 O0\r\nab"), frame(0, 1, 2, "c\r\nEN O1\r\n")];
        let (received, lost) = receive(&mut datagrams, &parts);
        assert_eq!((received, lost), (vec![(0, Outcome::Found), (1, Outcome::NotFound)], vec![]));
        assert!(datagrams.in_flight.is_empty());
    }

    #[test]
    fn an_answer_that_is_longer_than_any_value_is_lost() {
        let mut datagrams = in_flight(1);
        datagrams.take_ready();
        let payload = "x".repeat(60_000);
        let parts = (0..2000).map(|place| frame(0, place, 2000, &payload));
        let lost = parts.into_iter().position(|part| receive(&mut datagrams, &[part]).1 == [0]);
        assert_eq!(lost, Some(VALUE_MAX as usize / 60_000));
    }

    #[test]
    fn each_key_may_have_an_answer_of_its_own() {
        let mut datagrams = in_flight(2);
        datagrams.take_ready();
        let parts =
            [frame(0, 0, 1, "EN O0\r\n"), frame(0, 0, 2, "VA 3 f0 O1\r\nab"), frame(0, 1, 2, "c\r\n")];
        assert_eq!(receive(&mut datagrams, &parts).0, [(0, Outcome::NotFound), (1, Outcome::Found)]);
    }

    #[test]
    fn what_comes_without_a_part_or_in_another_order_is_lost_and_what_follows_is_nobodys() {
        let (one, two, three) =
            (frame(0, 0, 3, "VA 3 f0 O0\r\na"), frame(0, 1, 3, "b"), frame(0, 2, 3, "c\r\nEN O1\r\n"));
        for order in [[&two, &one, &three], [&one, &three, &two], [&three, &one, &two], [&one, &one, &two]] {
            let mut datagrams = in_flight(2);
            datagrams.take_ready();
            let (received, lost) = receive(&mut datagrams, &order.map(Clone::clone));
            assert_eq!((received, lost), (vec![], vec![0, 1]), "{order:?}");
        }
    }

    #[test]
    fn an_answer_to_another_request_or_to_another_key_is_not_taken() {
        for payload in [
            "VA 3 f0 O9\r\nabc\r\n",
            "VA 3 f0\r\nabc\r\n",
            "EN\r\n",
            "HD O0\r\n",
            "\r\n",
            "VA 9 f0 O0\r\nabc\r\n",
        ] {
            let mut datagrams = in_flight(1);
            datagrams.take_ready();
            assert_eq!(receive(&mut datagrams, &[frame(0, 0, 1, payload)]), (vec![], vec![0]), "{payload}");
        }
        let mut datagrams = in_flight(1);
        datagrams.take_ready();
        let strange = [frame(7, 0, 1, "EN O0\r\n"), b"short".to_vec(), Vec::new()];
        assert_eq!(receive(&mut datagrams, &strange), (vec![], vec![]));
        assert_eq!(receive(&mut datagrams, &[frame(0, 0, 1, "EN O0\r\n")]).0, [(0, Outcome::NotFound)]);
    }

    #[test]
    fn what_is_given_up_is_not_answered_by_what_comes_late() {
        let mut datagrams = in_flight(2);
        datagrams.take_ready();
        assert!(datagrams.give_up(149, 50).is_none());
        assert_eq!(datagrams.give_up(150, 50).map(|lost| lost.keys.len()), Some(2));
        assert_eq!(receive(&mut datagrams, &[frame(0, 0, 1, "EN O0\r\nEN O1\r\n")]), (vec![], vec![]));
    }

    #[test]
    fn an_error_answers_all_keys_of_its_datagram() {
        let mut datagrams = in_flight(2);
        datagrams.take_ready();
        let (received, _) = receive(&mut datagrams, &[frame(0, 0, 1, "SERVER_ERROR out of memory\r\n")]);
        assert_eq!(received, [(0, Outcome::RemoteError), (1, Outcome::RemoteError)]);
    }
}
