//! The way of an application's requests through the tree to servers, and of the replies back,
//! without I/O: bytes for each server, and replies by key.

mod calls;
mod datagrams;
mod pipeline;
mod replies;
#[cfg(test)]
mod tests;
mod text;
mod timeouts;

pub(super) use calls::Reply;
pub(super) use pipeline::Ticket;
pub(super) use replies::Input;

use super::counters::Counts;
use super::error::{Error, ErrorKind};
use super::plan::Plan;
use super::server::Server;
use super::window::Era;
use calls::Calls;
use datagrams::Datagrams;
use guira_routing::{
    Answer, Departures, DestinationId, Facts, LogName, Op, Origin, Outcome, Request, Sink, Tree, Walks,
};
use guira_upstream::HealthOptions;
use pipeline::Pipeline;
use std::sync::Arc;
use std::time::Duration;

/// mcrouter's number of timeouts, and shorter gaps between probes, since each application probes
/// for itself.
pub(super) const HEALTH: HealthOptions = HealthOptions {
    timeouts_until_tko: Some(3),
    soft_tkos_max: 0,
    probe_initial: Duration::from_secs(1),
    probe_max: Duration::from_secs(10),
    inactive_after: Duration::ZERO,
};

#[derive(Debug)]
pub(super) struct Core {
    walks: Walks<Ticket>,
    flow: Flow,
    /// Servers that have left the configuration, until their numbers may be given to others.
    departures: Departures,
}

#[derive(Debug)]
struct Flow {
    servers: Vec<Upstream>,
    calls: Calls,
    facts: Facts,
    era: Era,
    /// Route handles that wait, and until when.
    waits: Vec<(u64, Origin<Ticket>)>,
    leaving: Leaving,
    /// Servers with requests since their last flush.
    dirty: Vec<u32>,
    /// Servers that have left the configuration, and whose connections may still be open.
    unused: Vec<u32>,
    random: u32,
    /// Which requests are sent: those that follow a request which timed out long ago may be
    /// outdated.
    permitted: Permitted,
    /// The server of the last reply or refusal.
    source: Option<Source>,
    counts: Arc<Counts>,
}

/// The server of a reply, and what identifies the reply: the line of a reply that a handle has kept
/// has another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    server: u32,
    outcome: Outcome,
    /// The address of the line; 0 if there is none.
    line: usize,
}

impl Source {
    fn of(server: u32, answer: &Answer<'_>) -> Self {
        let line = if answer.line.is_empty() { 0 } else { answer.line.as_ptr().addr() };
        Self { server, outcome: answer.outcome, line }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permitted {
    All,
    /// A value to be stored may be outdated.
    Deletes,
}

/// Keys that have left the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving {
    pub(super) answered: u32,
    pub(super) put_back: u32,
    /// The eras of keys that timed out.
    pub(super) lost: Vec<Era>,
}

/// A server as this thread uses it.
#[derive(Debug)]
struct Upstream {
    known: Server,
    pipeline: Pipeline,
    datagrams: Datagrams,
    connection: Connection,
    /// How often requests have timed out since the last reply.
    timeouts_in_a_row: usize,
    used: Used,
}

/// Whether the configuration sends requests to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Is,
    Was,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Closed,
    Connecting { since_ms: u64 },
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No connection can be made.
    Unreachable,
    /// No connection can be made now: this host lacks something, or the backlog of the server is
    /// full.
    Busy,
    /// The attempt to connect timed out.
    ConnectTimeout,
    /// The attempt timed out, and the server has addresses that were not tried.
    AddressTimeout,
    /// The server has closed the connection, or the connection has failed.
    Closed,
    /// The server has sent an invalid reply.
    Invalid,
    /// The server has refused a store, and may execute the value as commands.
    Untrusted,
    /// The server has left the configuration.
    Unused,
}

impl Sink for Flow {
    type Ticket = Ticket;

    fn send(
        &mut self,
        destination: DestinationId,
        request: &Request<'_>,
        _log: Option<LogName>,
        origin: Origin<Ticket>,
    ) -> Result<(), Outcome> {
        let sent = self.push(destination, request, origin);
        if let Err(why) = sent {
            self.source = Some(Source::of(destination.0, &Answer::of(why)));
        }
        sent
    }

    fn now_ms(&self) -> u64 {
        self.facts.now_ms
    }

    fn wait(&mut self, ms: u32, origin: Origin<Ticket>) -> Result<(), Outcome> {
        self.waits.push((self.facts.now_ms + u64::from(ms), origin));
        Ok(())
    }

    fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        match answer.outcome {
            // These say nothing about the network.
            Outcome::Tko | Outcome::Busy | Outcome::LocalError => self.leaving.put_back += 1,
            outcome if outcome.is_error() && answer.line.is_empty() => self.leaving.put_back += 1,
            _ => self.leaving.answered += 1,
        }
        match ErrorKind::of(answer) {
            None => self.calls.answer(ticket, answer),
            Some(kind) => self.calls.settle(ticket, Err(self.placed(kind, answer))),
        }
    }
}

impl Flow {
    /// The error of a reply, with its server if that is known: when a route handle has compared
    /// replies of several servers, only the last one is.
    #[cold]
    fn placed(&self, kind: ErrorKind, answer: &Answer<'_>) -> Error {
        let is_from_server = matches!(kind, ErrorKind::Refused(_) | ErrorKind::NoRoute(_));
        let error = Error::from(kind);
        let source = self.source.filter(|source| *source == Source::of(source.server, answer));
        let Some(it) = source.and_then(|source| self.servers.get(source.server as usize)) else {
            return error;
        };
        let error = error.at(&it.known.name);
        match it.known.failure() {
            _ if is_from_server => error,
            _ if !answer.line.is_empty() => error.because(answer.line.escape_ascii().to_string()),
            Some(cause) => error.because(cause),
            None => error,
        }
    }

    fn push(
        &mut self,
        destination: DestinationId,
        request: &Request<'_>,
        origin: Origin<Ticket>,
    ) -> Result<(), Outcome> {
        let Some(it) = self.servers.get_mut(destination.0 as usize) else { return Err(Outcome::LocalError) };
        if !it.known.health.is_up() {
            self.counts.down.add(1);
            return Err(Outcome::Tko);
        }
        if self.permitted == Permitted::Deletes && request.op != Op::Delete {
            return Err(Outcome::Timeout);
        }
        // A request of an earlier tree opens the connection again: it is closed afterwards.
        if it.used == Used::Was && !self.unused.contains(&destination.0) {
            self.unused.push(destination.0);
        }
        let now_ms = self.facts.now_ms;
        if it.known.takes_datagrams() && Datagrams::takes(request) {
            if it.datagrams.is_full() {
                it.known.note_failure("too many datagrams are in progress");
                return Err(Outcome::Busy);
            }
            self.counts.udp_keys.add(1);
            self.dirty.push(destination.0);
            it.datagrams.push(request, origin, now_ms, self.era);
            return Ok(());
        }
        if it.pipeline.is_full() {
            it.known.note_failure("too many bytes wait to be sent");
            return Err(Outcome::Busy);
        }
        if it.pipeline.unsent().is_empty() {
            self.dirty.push(destination.0);
        }
        let is_sent = it.pipeline.push(request, origin, now_ms, self.era);
        if is_sent { Ok(()) } else { Err(Outcome::ClientError) }
    }
}

impl Core {
    pub(super) fn new(plan: &Plan, tree: Tree, seed: u64, counts: Arc<Counts>, era: Era) -> Self {
        let flow = Flow {
            servers: (0..).zip(plan.servers()).map(|it| Upstream::new(plan, it)).collect(),
            calls: Calls::default(),
            facts: Facts { client: plan.host(), host: plan.host(), ..Facts::default() },
            era,
            waits: Vec::new(),
            leaving: Leaving::default(),
            dirty: Vec::new(),
            unused: Vec::new(),
            random: seed as u32,
            permitted: Permitted::All,
            source: None,
            counts,
        };
        let mut departures = Departures::default();
        departures.turn_to(plan.claim());
        Core { walks: Walks::new(tree, seed), flow, departures }
    }

    /// Further requests go through the tree of another plan. Earlier ones stay in theirs.
    pub(super) fn adopt(&mut self, plan: &Plan, tree: Tree) {
        self.walks.replace(tree);
        let Flow { servers, unused, .. } = &mut self.flow;
        for (number, known) in (0..).zip(plan.servers()) {
            match servers.get_mut(number as usize) {
                Some(it) if it.known.is(known) => {}
                Some(former) => *former = Upstream::new(plan, (number, known)),
                None => servers.push(Upstream::new(plan, (number, known))),
            }
        }
        self.departures.turn_to(plan.claim());
        unused.clear();
        for (number, it) in (0..).zip(servers) {
            it.used = Used::of(plan, number);
            if it.used == Used::Was {
                unused.push(number);
            }
        }
    }

    /// Servers that have left the configuration and have no requests in flight.
    pub(super) fn take_unused(&mut self) -> Vec<u32> {
        let Flow { servers, unused, .. } = &mut self.flow;
        let is_idle = |number: &mut u32| servers[*number as usize].is_idle();
        unused.extract_if(.., is_idle).collect()
    }

    /// Frees the numbers of servers without a connection that no tree uses.
    pub(super) fn free_numbers(&mut self) {
        if self.departures.is_empty() {
            return;
        }
        let Core { walks, flow: Flow { servers, unused, .. }, departures } = self;
        let is_closed = |server: DestinationId| {
            let it = &servers[server.0 as usize];
            it.is_idle() && it.connection == Connection::Closed && !unused.contains(&server.0)
        };
        departures.take_done(|ago| walks.has_requests(ago), is_closed);
    }

    /// Sets the UNIX time in seconds, and monotonic milliseconds.
    pub(super) fn set_time(&mut self, now_s: u64, now_ms: u64) {
        (self.flow.facts.now_s, self.flow.facts.now_ms) = (now_s, now_ms);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.flow.facts.now_ms
    }

    /// Begins a call with this many keys, each of which is started with [`Self::start`].
    pub(super) fn begin(&mut self, keys: usize) -> u32 {
        self.flow.calls.begin(keys)
    }

    /// Starts the request of a key, which is in the window since `era`.
    pub(super) fn start(&mut self, ticket: Ticket, request: &Request<'_>, era: Era) {
        let Core { walks, flow, .. } = self;
        (flow.era, flow.source) = (era, None);
        let facts = flow.facts;
        match request.op {
            Op::FlushAll => walks.broadcast(request, &facts, ticket, flow),
            _ => walks.start(request, &facts, ticket, flow),
        }
    }

    /// Passes a reply of a server, or its failure, to the route handle or the call that waits.
    fn answer(&mut self, server: u32, origin: Origin<Ticket>, answer: &Answer<'_>) {
        self.flow.source = Some(Source::of(server, answer));
        let answer = Answer { server: Some(DestinationId(server)), ..*answer };
        self.walks.answer(origin, &answer, &mut self.flow);
    }

    /// Completes a key that is not requested and is not in the window.
    pub(super) fn settle(&mut self, ticket: Ticket, reply: Reply) {
        self.flow.calls.settle(ticket, reply);
    }

    /// Whether keys have left the window or calls are done.
    pub(super) fn has_news(&self) -> bool {
        let Leaving { answered, put_back, .. } = self.flow.leaving;
        answered + put_back > 0 || self.flow.calls.has_done()
    }

    /// Calls that are done, each of which is returned once.
    pub(super) fn take_done(&mut self) -> Vec<u32> {
        self.flow.calls.take_done()
    }

    /// The replies of a call that is done, in the order of its keys.
    pub(super) fn take(&mut self, call: u32) -> Vec<Reply> {
        self.flow.calls.take(call)
    }

    /// Keys that have left the window, each of which is returned once.
    pub(super) fn take_leaving(&mut self) -> Leaving {
        std::mem::take(&mut self.flow.leaving)
    }

    /// Servers with requests since their last flush.
    pub(super) fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.flow.dirty)
    }

    /// The bytes to send over the connection to a server.
    pub(super) fn unsent(&self, server: u32) -> &[u8] {
        self.flow.servers[server as usize].pipeline.unsent()
    }

    /// The bytes to send in one TLS record.
    pub(super) fn unsent_record(&self, server: u32) -> &[u8] {
        self.flow.servers[server as usize].pipeline.unsent_record()
    }

    pub(super) fn note_sent(&mut self, server: u32, bytes: usize) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].pipeline.note_sent(bytes, now_ms);
    }

    /// The datagrams to send to a server.
    pub(super) fn take_datagrams(&mut self, server: u32) -> Vec<Vec<u8>> {
        self.flow.servers[server as usize].datagrams.take_ready()
    }

    /// The attempt to connect to a server begins, or its handshake makes progress.
    pub(super) fn connecting(&mut self, server: u32) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].connection = Connection::Connecting { since_ms: now_ms };
    }

    pub(super) fn connected(&mut self, server: u32) {
        self.flow.counts.opened.add(1);
        self.flow.servers[server as usize].connection = Connection::Up;
    }
}

impl Upstream {
    fn new(plan: &Plan, (number, known): (u32, &Server)) -> Self {
        Upstream {
            known: known.clone(),
            pipeline: Pipeline::default(),
            datagrams: Datagrams::default(),
            connection: Connection::Closed,
            timeouts_in_a_row: 0,
            used: Used::of(plan, number),
        }
    }

    /// Whether no request waits for a reply.
    fn is_idle(&self) -> bool {
        self.pipeline.waiting() == 0 && self.datagrams.deadline(0).is_none()
    }
}

impl Used {
    fn of(plan: &Plan, number: u32) -> Self {
        if plan.uses(number) { Used::Is } else { Used::Was }
    }
}
