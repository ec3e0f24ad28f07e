//! Leases: a server grants them by the commands that its pool selects. A value that is stored with
//! a lease is sent only after the server has proved that it supports leases: another server would
//! execute the value as commands.

use super::meta_leases::{self, Filled, INTERVAL_FLAG, NO_LEASES, NO_META, UNCLEAR};
use super::meter::ServerCount;
use super::pipeline::{Kind, LeaseStep, Outstanding, Parsed, Pipeline, Received};
use super::tally::Tally;
use crate::counters::Event;
use crate::ticket::Ticket;
use guira_client::text::is_refusal;
use guira_protocol::client::{META_NOOP, Reply};
use guira_protocol::word::reply;
use guira_routing::config::Leases;
use guira_routing::{Answer, Dialect, LogName, Op, Origin, Outcome, Request};
use guira_transport::Address;
use guira_upstream::answers;

/// The known state of a server's leases.
#[derive(Debug)]
pub(super) struct Lessor {
    leases: Leases,
    support: Support,
    /// The reply to lease-sets that are refused.
    refusal: &'static [u8],
    /// A request was pushed or released that no flush has seen.
    needs_flush: bool,
}

/// Whether a server supports leases. The next connection may lead to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    Unknown,
    /// The server does not support leases. That was logged.
    Denied,
    Proved,
}

/// The connection to the server of a lessor.
pub(super) struct Peer<'a> {
    pub(super) pipeline: &'a mut Pipeline,
    pub(super) tally: &'a Tally,
    pub(super) address: Option<&'a Address>,
}

/// A command that only a server with leases can execute …
const CHECK_NATIVE: &[u8] = b"lease-get guira-router-asks\r\n";
/// … with a key that no client uses.
const CHECK_KEY: &[u8] = b"guira-router-asks";
/// A command that only a server with meta commands can execute.
const CHECK_META: &[u8] = META_NOOP;
/// A command that every server executes.
const PLACEHOLDER: &[u8] = b"version\r\n";

impl Lessor {
    pub(super) fn new(leases: Leases) -> Self {
        Lessor { leases, support: Support::Unknown, refusal: UNCLEAR, needs_flush: false }
    }

    /// A lessor for another connection to the same server.
    pub(super) fn renewed(&self) -> Self {
        Self::new(self.leases)
    }

    pub(super) fn disconnect(&mut self) {
        self.support = Support::Unknown;
    }

    /// Whether requests have to be flushed that no client has just sent. False again after that.
    #[inline]
    pub(super) fn take_needs_flush(&mut self) -> bool {
        std::mem::take(&mut self.needs_flush)
    }

    /// Pushes a classic lease-get or lease-set.
    pub(super) fn push(
        &mut self,
        peer: &mut Peer<'_>,
        request: &Request<'_>,
        (log, origin): (Option<LogName>, Origin<Ticket>),
        now_ms: u64,
    ) {
        if request.op == Op::LeaseSet {
            self.check_support(peer, now_ms);
        }
        let pipeline = &mut *peer.pipeline;
        match (self.leases, request.op) {
            (Leases::Native, _) => pipeline.push(request, log, origin, now_ms),
            (Leases::Meta, Op::LeaseGet) => {
                let get = meta_leases::get(request);
                pipeline.push_as(Kind::Lease(LeaseStep::Get), &get, log, origin, now_ms);
            }
            (Leases::Meta, _) => {
                let meta = &meta_leases::flags_of_set(request);
                let set = Request { dialect: Dialect::Meta, meta, ..*request };
                pipeline.push_as(Kind::Lease(LeaseStep::Set), &set, log, origin, now_ms);
            }
        }
    }

    /// Sends the check before the first lease-set. The requests behind it wait for its reply.
    fn check_support(&self, peer: &mut Peer<'_>, now_ms: u64) {
        if self.support == Support::Proved || peer.pipeline.is_holding() {
            return;
        }
        let text = match self.leases {
            Leases::Native => CHECK_NATIVE,
            Leases::Meta => CHECK_META,
        };
        peer.pipeline.push_own(Kind::Lease(LeaseStep::Check), text, now_ms);
        peer.pipeline.hold();
        peer.tally.add(ServerCount::Probes, 1);
    }

    /// Interprets a reply that concerns leases.
    #[cold]
    pub(super) fn receive<'i>(&mut self, peer: &mut Peer<'_>, received: Received<'i>) -> Parsed<'i> {
        match (received.request.lease_step(), received.reply) {
            (Some(LeaseStep::Check), _) => self.receive_check(peer, &received),
            (Some(step), _) => self.receive_step(step, peer, &received),
            (None, Reply::Value(_)) => self.recheck(peer, &received),
            (None, Reply::Lease(_)) => {
                self.prove(peer.pipeline);
                peer.pipeline.complete(&received)
            }
            (None, Reply::Line(line)) => {
                let Some(answer) = answers::failed(line) else { return Parsed::Invalid };
                let answer = self.explained(peer, answer);
                peer.pipeline.complete_with(&received.request, answer, received.length)
            }
            _ => peer.pipeline.complete(&received),
        }
    }

    fn receive_step<'i>(
        &mut self,
        step: LeaseStep,
        peer: &mut Peer<'_>,
        received: &Received<'i>,
    ) -> Parsed<'i> {
        let Received { request, reply, length } = received;
        if step == LeaseStep::Placeholder && answers::is_of_probe(reply) {
            peer.tally.add_event(Event::LeaseRefused);
            let answer = Answer { line: self.refusal, ..Answer::of(Outcome::RemoteError) };
            return peer.pipeline.complete_with(request, answer, *length);
        }
        let (line, value) = match *reply {
            Reply::Line(line) => (line, None),
            Reply::MetaValue { line, value } => (line, Some(value)),
            _ => return Parsed::Invalid,
        };
        let op = if step == LeaseStep::Set { Op::LeaseSet } else { Op::LeaseGet };
        let Some(answer) = peer.pipeline.meta_answer(op, request, line, value) else {
            return Parsed::Invalid;
        };
        let answer = match step {
            LeaseStep::Set => {
                if !answers::has_passed_over_meta_value(answer.line) {
                    peer.pipeline.distrust();
                }
                meta_leases::of_set(answer)
            }
            LeaseStep::Get => {
                if !answer.outcome.is_error() {
                    self.prove(peer.pipeline);
                }
                meta_leases::of_get(self.explained(peer, answer))
            }
            LeaseStep::Recheck | LeaseStep::RecheckTouched => {
                let (answer, filled) = meta_leases::of_empty(answer);
                if step == LeaseStep::RecheckTouched && filled == Filled::NotYet {
                    self.restore_time(peer, request);
                }
                answer
            }
            LeaseStep::Check | LeaseStep::Placeholder | LeaseStep::RestoreTime => answer,
        };
        peer.pipeline.complete_with(request, answer, *length)
    }

    /// The reply to the check: lease-sets that were held back are sent, or fail.
    fn receive_check<'i>(&mut self, peer: &mut Peer<'_>, received: &Received<'i>) -> Parsed<'i> {
        let is_proof = match (self.leases, received.reply) {
            (Leases::Native, Reply::Lease(value) | Reply::Value(value)) if value.key == CHECK_KEY => {
                peer.pipeline.expect_end();
                true
            }
            (Leases::Native, Reply::End) | (Leases::Meta, Reply::Line(reply::META_NOOP)) => true,
            (_, Reply::Line(line)) => {
                let Some(answer) = answers::failed(line) else { return Parsed::Invalid };
                self.refusal = if is_refusal(answer.line) { self.deny(peer) } else { UNCLEAR };
                false
            }
            _ => return Parsed::Invalid,
        };
        if is_proof {
            self.prove(peer.pipeline);
        } else {
            self.needs_flush |= peer.pipeline.release_without_lease_sets(PLACEHOLDER);
        }
        peer.pipeline.complete_own(received.length)
    }

    fn prove(&mut self, pipeline: &mut Pipeline) {
        self.support = Support::Proved;
        self.needs_flush |= pipeline.release();
    }

    /// The error of a lease-get, with the reason if the server does not support leases.
    fn explained<'i>(&mut self, peer: &Peer<'_>, answer: Answer<'i>) -> Answer<'i> {
        if !is_refusal(answer.line) {
            return answer;
        }
        peer.tally.add_event(Event::LeaseRefused);
        Answer { line: self.deny(peer), ..Answer::of(Outcome::RemoteError) }
    }

    /// The server does not support leases, which is logged once for a connection. Returns the line
    /// for clients.
    fn deny(&mut self, peer: &Peer<'_>) -> &'static [u8] {
        let line = match self.leases {
            Leases::Native => NO_LEASES,
            Leases::Meta => NO_META,
        };
        if self.support == Support::Unknown {
            self.support = Support::Denied;
            let server = peer.address.map(tracing::field::display);
            tracing::warn!(server, "{}", String::from_utf8_lossy(&line[b"SERVER_ERROR ".len()..]));
        }
        line
    }

    /// A get has found an empty value: a meta command finds out whether it marks a key that is to
    /// be filled.
    fn recheck<'i>(&mut self, peer: &mut Peer<'_>, received: &Received<'i>) -> Parsed<'i> {
        let Received { request, length, .. } = received;
        let key = peer.pipeline.key_of(request).to_vec();
        let step = match request.kind {
            Kind::LastKey(Op::Gat | Op::Gats) => LeaseStep::RecheckTouched,
            _ => LeaseStep::Recheck,
        };
        let parsed = peer.pipeline.complete_key(request, Answer::of(Outcome::Found), *length);
        let Parsed::Reply(origin, ..) = parsed else { return parsed };
        peer.tally.ended(Outcome::Found, 1);
        peer.tally.add_event(Event::Doubt);
        let again = Request { dialect: Dialect::Meta, meta: b"k v f c", ..Request::classic(Op::Get, &key) };
        self.push_follow_up(peer, Kind::Lease(step), &again, (origin, request));
        Parsed::OwnReply(*length)
    }

    /// A gat has given a key that is to be filled more time than its lease has.
    fn restore_time(&mut self, peer: &mut Peer<'_>, request: &Outstanding) {
        let text = peer.pipeline.text_of(request);
        let key = text.split(|byte| *byte == b' ').nth(1).unwrap_or_default().to_vec();
        let touch =
            Request { dialect: Dialect::Meta, meta: INTERVAL_FLAG, ..Request::classic(Op::Get, &key) };
        self.push_follow_up(peer, Kind::Lease(LeaseStep::RestoreTime), &touch, (Origin::NoClient, request));
    }

    /// Pushes a request that continues `earlier`: its timeout began with that.
    fn push_follow_up(
        &mut self,
        peer: &mut Peer<'_>,
        kind: Kind,
        request: &Request<'_>,
        (origin, earlier): (Origin<Ticket>, &Outstanding),
    ) {
        peer.pipeline.push_as(kind, request, None, origin, u64::from(earlier.since_ms));
        peer.tally.add(ServerCount::Requests, 1);
        self.needs_flush = true;
    }
}
