//! Replies of servers, and connections that end.

use super::datagrams::{Arrived, Lost, Next};
use super::pipeline::Parsed;
use super::{Connection, Core, Fault, HEALTH};
use guira_routing::{Answer, Outcome};
use guira_upstream::{Cleared, ProbeSchedule, Prober};

/// The result of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pools) enum Input {
    /// This many bytes were processed, and the next reply has `wanted`, as far as is known.
    Valid { taken: usize, wanted: usize },
    /// Not all of it is a reply.
    Invalid,
    /// Bytes that may still arrive are not trusted.
    Untrusted,
}

impl Core {
    /// Processes the bytes of a connection, from the first that was not processed on.
    pub(in crate::pools) fn receive(&mut self, server: u32, input: &[u8]) -> Input {
        let mut at = 0;
        loop {
            let it = &mut self.flow.servers[server as usize];
            match it.pipeline.next(&input[at..]) {
                Parsed::Reply(origin, answer, taken) => {
                    it.record_success();
                    self.answer(server, origin, &answer);
                    at += taken;
                }
                Parsed::ProbeReply(taken) => {
                    it.record_success();
                    at += taken;
                }
                Parsed::Late(taken) => {
                    self.flow.counts.late_answers.add(1);
                    at += taken;
                }
                Parsed::Incomplete(wanted) => return Input::Valid { taken: at, wanted },
                Parsed::Invalid => return Input::Invalid,
                Parsed::Untrusted => return Input::Untrusted,
            }
        }
    }

    /// Notes that this many bytes were read from a server.
    pub(in crate::pools) fn note_received(&mut self, server: u32, bytes: usize) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].pipeline.note_burst(bytes, now_ms);
    }

    /// Processes a datagram of a server.
    pub(in crate::pools) fn receive_datagram(&mut self, server: u32, datagram: &[u8]) {
        let arrived = match self.flow.servers[server as usize].datagrams.take(datagram) {
            Arrived::Whole(id, bytes) => self.receive_whole(server, id, &bytes),
            arrived => arrived,
        };
        if let Arrived::Lost(lost) = arrived {
            self.flow.counts.udp_disordered.add(lost.keys.len());
            self.flow.servers[server as usize].known.note_failure("a datagram was lost");
            self.lose(server, lost);
        }
    }

    /// Processes the datagrams of a request, which have all arrived. Returns the keys without a
    /// reply.
    fn receive_whole(&mut self, server: u32, id: u16, input: &[u8]) -> Arrived {
        let mut at = 0;
        loop {
            let it = &mut self.flow.servers[server as usize];
            match it.datagrams.next(id, &input[at..]) {
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

    /// Fails keys whose replies were lost.
    pub(super) fn lose(&mut self, server: u32, lost: Lost) {
        self.flow.leaving.lost.push(lost.era);
        for origin in lost.keys {
            self.answer(server, origin, &Answer::of(Outcome::Timeout));
        }
    }

    /// No datagrams can be sent to a server.
    pub(in crate::pools) fn close_datagrams(&mut self, server: u32) {
        for origin in self.flow.servers[server as usize].datagrams.fail() {
            self.flow.counts.unreachable.add(1);
            self.answer(server, origin, &Answer::of(Outcome::ConnectError));
        }
    }

    /// A connection is closed. The error of the operating system was noted before.
    pub(in crate::pools) fn close(&mut self, server: u32, fault: Fault) {
        let now_ms = self.flow.facts.now_ms;
        let it = &mut self.flow.servers[server as usize];
        match fault {
            Fault::ConnectTimeout | Fault::AddressTimeout => it.known.note_timeout(it.connect_timeout_ms()),
            Fault::Invalid => it.known.note_failure("the reply is invalid"),
            Fault::Untrusted => it.known.note_failure("the server refused an earlier request"),
            Fault::Unreachable | Fault::Busy | Fault::Closed | Fault::Unused => {}
        }
        let (why, prober) = match fault {
            Fault::Unreachable => (Outcome::ConnectError, it.known.health.record_hard_failure(&HEALTH)),
            Fault::ConnectTimeout => (Outcome::ConnectTimeout, it.known.health.record_hard_failure(&HEALTH)),
            Fault::Busy => (Outcome::Busy, None),
            Fault::AddressTimeout => (Outcome::ConnectTimeout, None),
            Fault::Closed | Fault::Untrusted | Fault::Unused => (Outcome::RemoteError, None),
            Fault::Invalid => (Outcome::RemoteError, it.known.health.record_soft_failure(&HEALTH)),
        };
        it.begin_probes(prober, now_ms);
        // The server may have restarted since the connection was opened: it is probed over another one.
        if fault == Fault::Closed
            && it.pipeline.has_old_probe()
            && let Some(schedule) = &mut *it.known.probes()
        {
            schedule.hasten(now_ms);
        }
        (it.connection, it.timeouts_in_a_row) = (Connection::Closed, 0);
        let failed = it.pipeline.disconnect();
        let counts = &self.flow.counts;
        counts.nonsense.add(usize::from(fault == Fault::Invalid));
        counts.unreachable.add(failed.len());
        if fault == Fault::Unused {
            // Configurations may name ever new servers: the buffers of this one are freed.
            (it.pipeline, it.datagrams) = Default::default();
        }
        for origin in failed {
            self.answer(server, origin, &Answer::of(why));
        }
    }
}

impl super::Upstream {
    /// The server has replied.
    fn record_success(&mut self) {
        self.timeouts_in_a_row = 0;
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
