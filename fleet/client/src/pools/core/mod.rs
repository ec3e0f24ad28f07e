//! Requests of the application on their way through the tree to servers, and back, without I/O: bytes for each server, and replies by key.

mod calls;
mod datagrams;
mod hear;
mod lane;
mod patience;
#[cfg(test)]
mod tests;
mod text;

pub(super) use calls::Reply;
pub(super) use hear::Understood;
pub(super) use lane::Ticket;

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
use lane::Lane;
use std::sync::Arc;
use std::time::Duration;

/// When servers count as down: mcrouter's number of timeouts, and shorter pauses, since here it is each application that has to find out.
pub(super) const HEALTH: HealthOptions = HealthOptions {
    timeouts_until_tko: Some(3),
    soft_tkos_max: 0,
    probe_initial: Duration::from_secs(1),
    probe_max: Duration::from_secs(10),
    inactive_after: Duration::ZERO,
};

/// What requests of one thread are at, and where they go.
#[derive(Debug)]
pub(super) struct Core {
    walks: Walks<Ticket>,
    flow: Flow,
    /// Servers that the configuration has no more, as long as their numbers may stand for no others.
    departures: Departures,
}

#[derive(Debug)]
struct Flow {
    servers: Vec<Upstream>,
    calls: Calls,
    facts: Facts,
    era: Era,
    /// What handles wait for, with when it is over.
    waits: Vec<(u64, Origin<Ticket>)>,
    leaving: Leaving,
    /// Servers that were asked something since they were last sent what they are asked.
    dirty: Vec<u32>,
    /// Servers that the configuration has no more, and that may still be connected to.
    unused: Vec<u32>,
    random: u32,
    /// Whether what is asked goes on from what was asked too long ago.
    asks: Asks,
    /// The server that has answered or refused a request last, and how.
    source: Option<Source>,
    counts: Arc<Counts>,
}

/// Which server has answered, and what: a line that a handle has held lies elsewhere than the server's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    server: u32,
    outcome: Outcome,
    /// Its address; 0 if there is none.
    line: usize,
}

impl Source {
    fn of(server: u32, answer: &Answer<'_>) -> Self {
        let line = if answer.line.is_empty() { 0 } else { answer.line.as_ptr().addr() };
        Self { server, outcome: answer.outcome, line }
    }
}

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Anything,
    /// What is stored might be outdated.
    DeletesOnly,
}

/// Keys that have left the window since this was asked last.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving {
    pub(super) answered: u32,
    pub(super) put_back: u32,
    /// When those were asked for that were not answered in time.
    pub(super) lost: Vec<Era>,
}

/// A server, as this thread sees it.
#[derive(Debug)]
struct Upstream {
    known: Server,
    lane: Lane,
    datagrams: Datagrams,
    link: Link,
    /// Sweeps in a row that have given something up, since the connection has last brought something.
    sweeps: usize,
    used: Used,
}

/// Whether the configuration sends requests to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Is,
    Was,
}

/// Whether there is a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Closed,
    /// It is connected to since then.
    Begins(u64),
    Up,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It cannot be connected to.
    Unreachable,
    /// It cannot be connected to now, for want of something on this host or since it has not accepted others yet.
    Busy,
    /// That took too long.
    ConnectTimeout,
    /// That took too long, and the server has addresses that were not tried yet.
    AddressTimeout,
    /// It was closed, or has failed.
    Gone,
    /// The server has said what makes no sense.
    Nonsense,
    /// It has refused a store, and may have taken the value for requests.
    Refused,
    /// The configuration has it no more.
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
        let sent = self.ask(destination, request, origin);
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
            // These say nothing about the way to the server.
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
    /// The error that an answer is, with the server that it comes from. Of several servers whose answers are compared, the last is named if the answer
    /// is its own; otherwise the server is not known.
    #[cold]
    fn placed(&self, kind: ErrorKind, answer: &Answer<'_>) -> Error {
        let is_told = matches!(kind, ErrorKind::Refused(_) | ErrorKind::NoRoute(_));
        let error = Error::from(kind);
        let source = self.source.filter(|source| *source == Source::of(source.server, answer));
        let Some(it) = source.and_then(|source| self.servers.get(source.server as usize)) else {
            return error;
        };
        let error = error.at(&it.known.name);
        match it.known.failure() {
            _ if is_told => error,
            _ if !answer.line.is_empty() => error.because(answer.line.escape_ascii().to_string()),
            Some(cause) => error.because(cause),
            None => error,
        }
    }

    fn ask(
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
        if self.asks == Asks::DeletesOnly && request.op != Op::Delete {
            return Err(Outcome::Timeout);
        }
        // A request that is under way in a tree before: the server is let go again afterwards.
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
        if it.lane.is_full() {
            it.known.note_failure("too many bytes wait to be sent");
            return Err(Outcome::Busy);
        }
        if it.lane.unsent().is_empty() {
            self.dirty.push(destination.0);
        }
        let is_sent = it.lane.push(request, origin, now_ms, self.era);
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
            asks: Asks::Anything,
            source: None,
            counts,
        };
        let mut departures = Departures::default();
        departures.turn_to(plan.claim());
        Core { walks: Walks::new(tree, seed), flow, departures }
    }

    /// Requests go through the tree of another plan from now on. Those that are under way stay in theirs.
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

    /// Servers that the configuration has no more, and to which nothing is under way any more.
    pub(super) fn take_unused(&mut self) -> Vec<u32> {
        let Flow { servers, unused, .. } = &mut self.flow;
        let is_idle = |number: &mut u32| servers[*number as usize].is_idle();
        unused.extract_if(.., is_idle).collect()
    }

    /// Gives the numbers up of servers that are not connected to any more and that no request can come to.
    pub(super) fn give_up_numbers(&mut self) {
        if self.departures.is_empty() {
            return;
        }
        let Core { walks, flow: Flow { servers, unused, .. }, departures } = self;
        let is_closed = |server: DestinationId| {
            let it = &servers[server.0 as usize];
            it.is_idle() && it.link == Link::Closed && !unused.contains(&server.0)
        };
        departures.take_done(|ago| walks.has_requests(ago), is_closed);
    }

    /// Tells the time: UNIX time in seconds, and milliseconds that never go back.
    pub(super) fn set_time(&mut self, now_s: u64, now_ms: u64) {
        (self.flow.facts.now_s, self.flow.facts.now_ms) = (now_s, now_ms);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.flow.facts.now_ms
    }

    /// Begins a call about so many keys, each of which is to be started.
    pub(super) fn begin(&mut self, keys: usize) -> u32 {
        self.flow.calls.begin(keys)
    }

    /// Sends a key's request on its way, which has its place in the window since `era`.
    pub(super) fn start(&mut self, ticket: Ticket, request: &Request<'_>, era: Era) {
        let Core { walks, flow, .. } = self;
        (flow.era, flow.source) = (era, None);
        let facts = flow.facts;
        match request.op {
            Op::FlushAll => walks.broadcast(request, &facts, ticket, flow),
            _ => walks.start(request, &facts, ticket, flow),
        }
    }

    /// A server has answered what it was sent for `origin`, or has failed to.
    fn answer(&mut self, server: u32, origin: Origin<Ticket>, answer: &Answer<'_>) {
        self.flow.source = Some(Source::of(server, answer));
        let answer = Answer { server: Some(DestinationId(server)), ..*answer };
        self.walks.answer(origin, &answer, &mut self.flow);
    }

    /// A key is not asked for after all, and has no place in the window.
    pub(super) fn settle(&mut self, ticket: Ticket, reply: Reply) {
        self.flow.calls.settle(ticket, reply);
    }

    /// Whether keys were answered since that was asked last.
    pub(super) fn has_news(&self) -> bool {
        let Leaving { answered, put_back, .. } = self.flow.leaving;
        answered + put_back > 0 || self.flow.calls.has_done()
    }

    /// Calls whose keys were all answered since this was asked last.
    pub(super) fn take_done(&mut self) -> Vec<u32> {
        self.flow.calls.take_done()
    }

    /// The replies of a call that is done, in the order of its keys.
    pub(super) fn take(&mut self, call: u32) -> Vec<Reply> {
        self.flow.calls.take(call)
    }

    /// Keys that have left the window since this was asked last.
    pub(super) fn take_leaving(&mut self) -> Leaving {
        std::mem::take(&mut self.flow.leaving)
    }

    /// Servers that have something to be sent.
    pub(super) fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.flow.dirty)
    }

    /// What is to be sent to a server over its connection.
    pub(super) fn unsent(&self, server: u32) -> &[u8] {
        self.flow.servers[server as usize].lane.unsent()
    }

    /// What of it may be sent in one record of TLS.
    pub(super) fn unsent_record(&self, server: u32) -> &[u8] {
        self.flow.servers[server as usize].lane.unsent_record()
    }

    /// So much of it was sent.
    pub(super) fn sent(&mut self, server: u32, bytes: usize) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].lane.sent(bytes, now_ms);
    }

    /// What is to be sent to a server by UDP.
    pub(super) fn take_datagrams(&mut self, server: u32) -> Vec<Vec<u8>> {
        self.flow.servers[server as usize].datagrams.take_ready()
    }

    /// It is begun to connect to a server.
    pub(super) fn connecting(&mut self, server: u32) {
        let now_ms = self.flow.facts.now_ms;
        self.flow.servers[server as usize].link = Link::Begins(now_ms);
    }

    /// A server is connected to.
    pub(super) fn connected(&mut self, server: u32) {
        self.flow.counts.opened.add(1);
        self.flow.servers[server as usize].link = Link::Up;
    }
}

impl Upstream {
    fn new(plan: &Plan, (number, known): (u32, &Server)) -> Self {
        Upstream {
            known: known.clone(),
            lane: Lane::default(),
            datagrams: Datagrams::default(),
            link: Link::Closed,
            sweeps: 0,
            used: Used::of(plan, number),
        }
    }

    /// Whether nobody waits for it.
    fn is_idle(&self) -> bool {
        self.lane.outstanding() == 0 && self.datagrams.deadline(0).is_none()
    }
}

impl Used {
    fn of(plan: &Plan, number: u32) -> Self {
        if plan.uses(number) { Used::Is } else { Used::Was }
    }
}
