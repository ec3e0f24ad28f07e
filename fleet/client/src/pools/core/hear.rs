//! What servers say, and connections that end.

use super::datagrams::{Arrived, Lost, Next};
use super::lane::Heard;
use super::{Core, Fault, HEALTH, Link};
use guira_routing::{Answer, Outcome};
use guira_upstream::{Cleared, ProbeSchedule, Prober};

/// What was made of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pools) enum Understood {
    /// So many bytes were dealt with, and the next reply has `wanted`, as far as is known.
    Yes { taken: usize, wanted: usize },
    /// The connection is of no use any more: it brings what makes no sense.
    No,
    /// Nothing that it may still bring is to be believed.
    NoMore,
}

impl Core {
    /// A server has said this over its connection, from what was not dealt with before on.
    pub(in crate::pools) fn hear(&mut self, server: u32, input: &[u8]) -> Understood {
        let mut at = 0;
        loop {
            let it = &mut self.flow.servers[server as usize];
            match it.lane.next(&input[at..]) {
                Heard::Answer(origin, answer, taken) => {
                    it.record_success();
                    self.answer(server, origin, &answer);
                    at += taken;
                }
                Heard::Alive(taken) => {
                    it.record_success();
                    at += taken;
                }
                Heard::Late(taken) => {
                    self.flow.counts.late_answers.add(1);
                    at += taken;
                }
                Heard::Silence(wanted) => return Understood::Yes { taken: at, wanted },
                Heard::Garbage => return Understood::No,
                Heard::End => return Understood::NoMore,
            }
        }
    }

    /// So many bytes were read from a server.
    pub(in crate::pools) fn note_read(&mut self, server: u32, bytes: usize) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].lane.note_work(bytes, now_ms);
    }

    /// A datagram has come from a server.
    pub(in crate::pools) fn hear_datagram(&mut self, server: u32, datagram: &[u8]) {
        let arrived = match self.flow.servers[server as usize].datagrams.take(datagram) {
            Arrived::Whole(id, bytes) => self.hear_answer(server, id, &bytes),
            arrived => arrived,
        };
        if let Arrived::Lost(lost) = arrived {
            self.flow.counts.udp_disordered.add(lost.keys.len());
            self.flow.servers[server as usize].known.note_failure("a datagram was lost");
            self.lose(server, lost);
        }
    }

    /// Deals with a whole answer. Returns what is lost of it.
    fn hear_answer(&mut self, server: u32, id: u16, answer: &[u8]) -> Arrived {
        let mut at = 0;
        loop {
            let it = &mut self.flow.servers[server as usize];
            match it.datagrams.next(id, &answer[at..]) {
                Next::Answer(origin, answer, taken) => {
                    it.record_success();
                    self.answer(server, origin, &answer);
                    at += taken;
                }
                Next::Failed(keys, answer) => {
                    it.record_success();
                    keys.into_iter().for_each(|origin| self.answer(server, origin, &answer));
                    return Arrived::Nothing;
                }
                Next::Lost(lost) => return lost,
                Next::End => return Arrived::Nothing,
            }
        }
    }

    /// Answers to these keys do not come any more.
    pub(super) fn lose(&mut self, server: u32, lost: Lost) {
        self.flow.leaving.lost.push(lost.era);
        for origin in lost.keys {
            self.answer(server, origin, &Answer::of(Outcome::Timeout));
        }
    }

    /// Nothing can be sent to a server by UDP.
    pub(in crate::pools) fn close_datagrams(&mut self, server: u32) {
        for origin in self.flow.servers[server as usize].datagrams.fail() {
            self.flow.counts.unreachable.add(1);
            self.answer(server, origin, &Answer::of(Outcome::ConnectError));
        }
    }

    /// A connection is closed. What the system says of it was noted before.
    pub(in crate::pools) fn close(&mut self, server: u32, fault: Fault) {
        let now_ms = self.flow.facts.now_ms;
        let it = &mut self.flow.servers[server as usize];
        match fault {
            Fault::ConnectTimeout | Fault::AddressTimeout => it.known.note_timeout(it.connect_patience_ms()),
            Fault::Nonsense => it.known.note_failure("the reply is invalid"),
            Fault::Refused => it.known.note_failure("the server refused an earlier request"),
            Fault::Unreachable | Fault::Busy | Fault::Gone | Fault::Unused => {}
        }
        let (why, prober) = match fault {
            Fault::Unreachable => (Outcome::ConnectError, it.known.health.record_hard_failure(&HEALTH)),
            Fault::ConnectTimeout => (Outcome::ConnectTimeout, it.known.health.record_hard_failure(&HEALTH)),
            Fault::Busy => (Outcome::Busy, None),
            Fault::AddressTimeout => (Outcome::ConnectTimeout, None),
            Fault::Gone | Fault::Refused | Fault::Unused => (Outcome::RemoteError, None),
            Fault::Nonsense => (Outcome::RemoteError, it.known.health.record_soft_failure(&HEALTH)),
        };
        it.begin_probes(prober, now_ms);
        (it.link, it.sweeps) = (Link::Closed, 0);
        let lost = it.lane.fail();
        let counts = &self.flow.counts;
        counts.nonsense.add(usize::from(fault == Fault::Nonsense));
        counts.unreachable.add(lost.len());
        if fault == Fault::Unused {
            // Pools may name ever new servers, and this one's buffers would be kept for ever.
            (it.lane, it.datagrams) = Default::default();
        }
        for origin in lost {
            self.answer(server, origin, &Answer::of(why));
        }
    }
}

impl super::Upstream {
    /// The server has replied.
    fn record_success(&mut self) {
        self.sweeps = 0;
        if self.known.health.record_success() == Cleared::Failures {
            *self.known.probes() = None;
        }
    }

    /// Schedules probes if this thread has just taken the server out of service.
    pub(super) fn begin_probes(&mut self, prober: Option<Prober>, now_ms: u64) {
        if prober == Some(Prober::Caller) {
            *self.known.probes() = Some(ProbeSchedule::begin(now_ms, &HEALTH));
        }
    }
}
