//! A worker: one thread, one event loop, one engine session.

use crate::admin::Admin;
use crate::background::DetachedConnection;
use crate::connection::{Connection, Turn, WorkerScratch};
use crate::direct::{DatagramListener, Next};
use crate::forward::Forwarding;
use crate::interpreter::{Interpreter, OUTBOX_FULL};
use crate::outbox::Outbox;
use crate::shared::{Shared, WorkerCount, WorkerCounters};
use crate::udp::UdpListener;
use crate::watch::{CloseReason, EventObserver, EventSink};
use guira_commands::Executor;
use guira_contract::{Pace, Session};
use guira_serving::{Acceptor, Arrival, ConnId, Doing, Grant, Queue, Rank, Slice};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use guira_transport::{Event, Interest, Mailbox, Park, Poll, Token};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once.
pub(crate) const INPUT_BYTES: usize = 128 << 10;
/// Small pieces of upkeep done after each round of connections, under load …
const BUSY_UPKEEP: usize = 32;
/// … and at a time when nothing else is to be done: few, since the crawler takes tens of microseconds for a page, and a
/// request may come at any moment.
const IDLE_UPKEEP: usize = 4;
/// The longest wait of the worker that keeps the time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// After so long without work, a worker gives back the memory that its session keeps.
const REST_AFTER: Duration = Duration::from_millis(10);

/// While more connections than this have much to do, the poller is not asked about others of them: it would report each of them in each
/// round.
const TOLD: usize = 16;

/// Forward batches that are dealt with before connections have their turn.
const BATCHES_AT_ONCE: usize = 32;

/// The bell of the mailbox. Listeners come next, connections after [`FIRST_CONNECTION`].
const BELL: Token = Token(0);
const FIRST_LISTENER: u64 = 1;
const FIRST_UDP: u64 = 1 << 31;
/// Any of MICA's paths: all are looked at in each round.
const PATH: Token = Token(FIRST_CONNECTION - 1);
const FIRST_CONNECTION: u64 = 1 << 32;

/// What requests come by to a worker, beside connections.
#[derive(Debug)]
pub(crate) struct Ends<P> {
    /// The first worker's.
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) udp: Option<UdpListener>,
    pub(crate) direct: DatagramListener,
    /// From and to other workers.
    pub(crate) forwarding: Forwarding<P>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker<S: Session> {
    index: usize,
    poll: Poll,
    mailbox: Arc<Mailbox<Arrival>>,
    shared: Arc<Shared>,
    counters: Arc<WorkerCounters>,
    scratch: WorkerScratch<S>,
    /// Connections by token; empty places are used again.
    connections: Vec<Option<Connection<S>>>,
    /// How many there have been.
    serial: u64,
    vacant: Vec<usize>,
    /// Connections that have more to do.
    again: Queue,
    /// Nothing has happened since the session was told to rest.
    rested: bool,
    acceptor: Option<Acceptor>,
    udp: Option<UdpListener>,
    direct: DatagramListener,
    /// It stops, and its last connection is gone.
    finished: bool,
    /// When idle connections were last looked for.
    kicked: Seconds,
    /// When certificates were last looked for.
    looked: Seconds,
    /// When advice was last told how the server is.
    pulsed: Seconds,
}

impl<S: Session> Worker<S> {
    pub(crate) fn new(
        index: usize,
        session: S,
        shared: Arc<Shared>,
        admin: Arc<Admin>,
        ends: Ends<S::Pin>,
    ) -> io::Result<Self> {
        let Ends { acceptor, udp, direct, forwarding } = ends;
        let poll = Poll::new()?;
        let mailbox = shared.mailboxes[index].clone();
        poll.add(&*mailbox, BELL, Interest::Read)?;
        if let Some(acceptor) = &acceptor {
            acceptor.listen(&poll, FIRST_LISTENER)?;
        }
        for (index, socket) in udp.iter().flat_map(UdpListener::sockets).enumerate() {
            poll.add(socket, Token(FIRST_UDP + index as u64), Interest::Read)?;
        }
        direct.listen(&poll, PATH)?;
        let (counters, commands) = shared.workers[index].clone();
        let tap = Arc::new(EventSink::new(&shared, index));
        let observer = Box::new(EventObserver(tap.clone()));
        let executor = Executor::new(session, shared.clock.clone(), commands, observer);
        let executor = executor.with_uniques(shared.options.uniques());
        let scratch = WorkerScratch {
            interpreter: Interpreter {
                executor,
                admin,
                shared: shared.clone(),
                counters: counters.clone(),
                tap,
                forwarding,
                full: OUTBOX_FULL,
                unsent: 0,
            },
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            outbox: Outbox::with_capacity(2 * OUTBOX_FULL),
        };
        Ok(Worker {
            index,
            poll,
            mailbox,
            shared,
            counters,
            scratch,
            connections: Vec::new(),
            serial: 0,
            vacant: Vec::new(),
            again: Queue::default(),
            rested: true,
            acceptor,
            udp,
            direct,
            finished: false,
            kicked: Seconds(0),
            looked: Seconds(0),
            pulsed: Seconds(0),
        })
    }

    /// Works until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        let mut more_upkeep = true;
        loop {
            let next = self.direct.serve(&mut self.scratch.interpreter);
            if next == Next::Again {
                continue;
            }
            self.wait(&mut events, more_upkeep || next == Next::LookAround)?;
            self.look_around();
            let idle = events.is_empty() && self.again.is_empty();
            if let Some(acceptor) = self.acceptor.as_mut() {
                acceptor.wake_up(&self.poll, FIRST_LISTENER, &*self.shared);
            }
            for event in events.drain(..) {
                self.on_event(event);
            }
            let delivered = self.deliver();
            self.serve_again();
            if let Some(index) = self.udp.as_ref().and_then(UdpListener::unanswered) {
                self.serve_datagrams(index);
            }
            let (pace, budget) = if idle { (Pace::Idle, IDLE_UPKEEP) } else { (Pace::Busy, BUSY_UPKEEP) };
            let done = self.upkeep(pace, budget);
            more_upkeep = done > 0 || delivered;
            self.kick_idle();
            self.look_after_certificates();
            let is_over = self.shared.is_stopping() && self.close_those_at_rest();
            // Others may wait for replies of this one.
            if is_over && !std::mem::replace(&mut self.finished, true) {
                self.scratch.interpreter.forwarding.finish();
            }
            if is_over && (self.scratch.interpreter.forwarding.is_over() || self.is_abandoned()) {
                return Ok(());
            }
        }
    }

    /// Looks at what changes between rounds: the time, and what is to be told of.
    fn look_around(&mut self) {
        let interpreter = &mut self.scratch.interpreter;
        interpreter.executor.look_at_clock();
        interpreter.executor.observe_kinds(interpreter.tap.kinds());
        interpreter.executor.observe_sample(interpreter.tap.threshold());
        let now = interpreter.executor.now();
        // The worker that keeps the time.
        if self.acceptor.is_some() && now != self.pulsed {
            self.pulsed = now;
            interpreter.admin.pulse(now);
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, more_upkeep: bool) -> io::Result<()> {
        let datagrams = self.udp.as_ref().is_some_and(|udp| udp.unanswered().is_some());
        if !self.again.is_empty() || datagrams || more_upkeep {
            return self.poll.wait(Some(Duration::ZERO), events);
        }
        // One worker keeps the time, for what expires and falls due; the others sleep until they are called.
        // Each of them wakes up once more, soon, to give back what its session keeps: others may wait for it.
        let kicks = self.shared.options.idle_limit().is_some();
        let wakes = self.acceptor.is_some() || kicks || self.shared.is_stopping();
        let timeout = if self.rested { wakes.then_some(HEARTBEAT) } else { Some(REST_AFTER) };
        let timeout = match self.acceptor.as_ref().and_then(Acceptor::patience) {
            Some(soon) => timeout.map(|timeout| timeout.min(soon)),
            None => timeout,
        };
        let forwarding = &self.scratch.interpreter.forwarding;
        if !forwarding.park() || self.direct.park() == Park::Pending {
            forwarding.unpark();
            self.direct.unpark();
            return self.poll.wait(Some(Duration::ZERO), events);
        }
        let session = self.scratch.interpreter.executor.session();
        session.offline();
        let result = self.poll.wait(timeout, events);
        self.direct.unpark();
        self.scratch.interpreter.forwarding.unpark();
        let session = self.scratch.interpreter.executor.session();
        session.online();
        if events.is_empty() && !self.rested {
            session.release_caches();
        }
        self.rested = events.is_empty();
        result
    }

    fn upkeep(&mut self, pace: Pace, budget: usize) -> usize {
        let executor = &mut self.scratch.interpreter.executor;
        let now = executor.now();
        let session = executor.session();
        session.quiesce();
        session.maintain(now, pace, budget)
    }

    fn on_event(&mut self, event: Event) {
        match event.token {
            PATH => {}
            BELL => {
                for arrival in self.mailbox.take() {
                    self.admit(arrival);
                }
                self.close_evicted();
            }
            Token(token @ FIRST_UDP..FIRST_CONNECTION) => self.serve_datagrams((token - FIRST_UDP) as usize),
            Token(token) if token < FIRST_UDP => self.accept((token - FIRST_LISTENER) as usize),
            Token(token) => {
                let index = (token - FIRST_CONNECTION) as usize;
                let reads = [Interest::Read, Interest::ReadWrite];
                // Whoever is queued has a turn anyway.
                let queued = self.again.has(index);
                let now = self.scratch.interpreter.executor.now();
                let Some(connection) = self.connection(index).filter(|_| !queued) else {
                    return;
                };
                if event.failed && !reads.contains(&connection.interest) {
                    self.close(index, CloseReason::Error);
                } else if connection.rank(now) == Rank::Heavy {
                    self.again.push(index, Rank::Heavy);
                } else {
                    self.serve(index);
                }
            }
        }
    }

    /// Executes what other workers have forwarded, and takes the replies that come back. True if there was something.
    fn deliver(&mut self) -> bool {
        let mut delivered = false;
        for _ in 0..BATCHES_AT_ONCE {
            let Some(mut batch) = self.scratch.interpreter.forwarding.next() else {
                break;
            };
            delivered = true;
            if !self.scratch.interpreter.forwarding.is_own(&batch) {
                // What has changed before it was forwarded has changed for it.
                self.look_around();
                self.scratch.interpreter.run_forwarded(&mut batch);
                self.scratch.interpreter.executor.session().quiesce();
                self.counters.add(WorkerCount::Forwarded, batch.len() as u64);
                self.scratch.interpreter.forwarding.give_back(batch);
                continue;
            }
            let place = batch.sender.place;
            let room = &self.shared.budget;
            let now = self.scratch.interpreter.executor.now();
            let seat = ConnId { worker: self.index, place };
            if let Some(Some(connection)) = self.connections.get_mut(place)
                && connection.hear(&mut batch, room)
            {
                // What it holds now is known to the next who asks for room. If there is none, its turn is what finds out.
                connection.settle(room, seat);
                self.again.push(place, connection.rank(now));
            }
            self.scratch.interpreter.forwarding.keep(batch);
        }
        delivered
    }

    /// One more turn for those that have more to do: for all that ask for little, and then for the others, as long as they take no more
    /// than a slice together. Connections that ask for little meanwhile come before the rest of them.
    fn serve_again(&mut self) {
        for _ in 0..self.again.len(Rank::Light) {
            if let Some(index) = self.again.pop(Rank::Light) {
                self.serve(index);
            }
        }
        let mut slice = Slice::of(Rank::Heavy);
        for _ in 0..self.again.len(Rank::Heavy) {
            if slice.is_over() {
                return;
            }
            if let Some(index) = self.again.pop(Rank::Heavy) {
                slice.copied(self.serve(index));
            }
        }
    }

    /// Takes a connection out of its place.
    fn take_out(&mut self, index: usize) -> Option<Connection<S>> {
        let mut connection = self.connections.get_mut(index).and_then(Option::take)?;
        connection.resume(&mut self.scratch.interpreter);
        self.again.forget(index);
        // Closing the socket does the same; it is done here so that no event of it is left.
        let _ = self.poll.remove(&connection.stream);
        self.vacant.push(index);
        self.shared.budget.release(ConnId { worker: self.index, place: index });
        Some(connection)
    }

    fn serve_datagrams(&mut self, index: usize) {
        let WorkerScratch { interpreter, outbox, .. } = &mut self.scratch;
        if let Some(udp) = &mut self.udp {
            udp.serve(index, interpreter, outbox, &self.counters);
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection<S>> {
        self.connections.get_mut(index)?.as_mut()
    }

    /// Takes a connection over.
    fn admit(&mut self, arrival: Arrival) {
        let index = self.vacant.pop().unwrap_or(self.connections.len());
        let token = Token(FIRST_CONNECTION + index as u64);
        if self.poll.add(&arrival.stream, token, Interest::Read).is_err() {
            if index < self.connections.len() {
                self.vacant.push(index);
            }
            self.shared.gone(&arrival.facts, CloseReason::Error);
            return;
        }
        if index == self.connections.len() {
            self.connections.push(None);
        }
        // A connection that comes back from a background task may have input that no poller reports.
        let stream = &arrival.stream;
        let comes_back = !(arrival.input.is_empty() && arrival.output.is_empty());
        let is_ready = comes_back || stream.has_input() || stream.wants(Interest::Read) != Interest::Read;
        // Otherwise a connection that comes back with nothing to do would never be found idle.
        arrival.facts.set_doing(Doing::Waiting);
        self.serial += 1;
        self.connections[index] = Some(Connection::new(arrival, index, self.serial));
        if is_ready {
            self.again.push(index, Rank::Light);
        }
    }

    /// Gives a connection its turn. Returns what that has taken.
    fn serve(&mut self, index: usize) -> usize {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return 0;
        };
        let seat = ConnId { worker: self.index, place: index };
        let turn = connection.turn(&mut self.scratch, &self.counters);
        let spent = connection.spent();
        let settled = connection.settle(&self.shared.budget, seat) == Grant::Granted;
        self.scratch.interpreter.executor.session().quiesce();
        if !settled && !matches!(turn, Turn::Close(_)) && !self.make_room(index) {
            self.close(index, CloseReason::Error);
        } else {
            self.after(index, turn);
        }
        spent
    }

    /// What is to happen after a turn.
    fn after(&mut self, index: usize, turn: Turn) {
        let now = self.scratch.interpreter.executor.now();
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        match turn {
            Turn::Again => {
                let rank = connection.rank(now);
                // Where much is held one after the other comes to its end, or is found not to read, before all hold as much as they can,
                // here and in the kernel.
                if connection.may_go_on() && self.scratch.interpreter.is_crowded() {
                    self.again.push_first(index);
                } else {
                    self.again.push(index, rank);
                }
                if self.again.len(rank) > TOLD {
                    self.listen(index, Interest::End);
                }
            }
            Turn::Close(reason) => self.close(index, reason),
            Turn::Leave => self.send_away(index),
            Turn::Wait(interest) => {
                let interest = connection.stream.wants(interest);
                self.listen(index, interest);
            }
        }
    }

    /// Waits for this from now on.
    fn listen(&mut self, index: usize, interest: Interest) {
        let Some(connection) = self.connections[index].as_mut().filter(|it| it.interest != interest) else {
            return;
        };
        connection.interest = interest;
        let token = Token(FIRST_CONNECTION + index as u64);
        if self.poll.change(&connection.stream, token, interest).is_err() {
            self.close(index, CloseReason::Error);
        }
    }

    /// Closes the connections that hold most until this one fits into the budget. False if it holds most itself.
    fn make_room(&mut self, index: usize) -> bool {
        let seat = ConnId { worker: self.index, place: index };
        loop {
            let Some(connection) = self.connections[index].as_mut() else {
                return false;
            };
            let asked = connection.settle(&self.shared.budget, seat);
            let wanted = connection.holding().total();
            let victim = match asked {
                Grant::Granted => return true,
                Grant::Evicted => None,
                Grant::Full => self.shared.budget.evict_above(wanted, self.index),
            };
            match victim {
                Some(victim) if victim == seat => {}
                Some(victim) if victim.worker == self.index => self.crowd_out(victim.place),
                // It is closed when its worker looks.
                Some(victim) => self.shared.mailboxes[victim.worker].ring(),
                None => {
                    connection.count_crowded_out(&self.shared.budget);
                    return false;
                }
            }
        }
    }

    /// Closes a connection whose memory was given to another.
    fn crowd_out(&mut self, index: usize) {
        if let Some(connection) = self.connections.get(index).and_then(Option::as_ref) {
            connection.count_crowded_out(&self.shared.budget);
        }
        self.close(index, CloseReason::Error);
    }

    /// Closes the connections whose memory was given to another worker's.
    fn close_evicted(&mut self) {
        for place in self.shared.budget.evicted(self.index) {
            let seat = ConnId { worker: self.index, place };
            let connection = self.connections.get(place).and_then(Option::as_ref);
            // Another connection may have its place by now.
            if connection.is_some_and(|connection| connection.is_evicted(&self.shared.budget, seat)) {
                self.crowd_out(place);
            }
        }
    }

    /// Hands a connection over to its background task.
    fn send_away(&mut self, index: usize) {
        let Some(mut connection) = self.take_out(index) else {
            return;
        };
        let Some(task) = connection.take_background_task() else {
            return self.shared.gone(&connection.facts, CloseReason::Error);
        };
        connection.facts.set_doing(Doing::Watching);
        let detached = DetachedConnection { arrival: connection.into_arrival(), home: self.index };
        if let Err((mut detached, line)) = self.scratch.interpreter.admin.run(task, detached) {
            // The line is short: a client that cannot take it takes nothing.
            let _ = detached.arrival.stream.write(format!("{line}\r\n").as_bytes());
            self.admit(detached.arrival);
        }
    }

    fn close(&mut self, index: usize, reason: CloseReason) {
        if let Some(connection) = self.take_out(index) {
            self.shared.gone(&connection.facts, reason);
        }
    }

    fn accept(&mut self, port: usize) {
        let now = self.scratch.interpreter.executor.now();
        let stopping = self.shared.is_stopping();
        let Some(acceptor) = self.acceptor.as_mut().filter(|_| !stopping) else {
            return;
        };
        for arrival in acceptor.accept(port, &self.poll, &*self.shared, now) {
            self.admit(arrival);
        }
    }

    /// Once a second, one worker looks whether there are new certificates.
    fn look_after_certificates(&mut self) {
        let now = self.scratch.interpreter.executor.now();
        if self.acceptor.is_some() && self.shared.tls.is_some() && now != self.looked {
            self.looked = now;
            self.shared.reload_changed_tls();
        }
    }

    /// Closes connections that have not said anything for too long.
    fn kick_idle(&mut self) {
        let now = self.scratch.interpreter.executor.now();
        let Some(limit) = self.shared.options.idle_limit().filter(|_| now != self.kicked) else {
            return;
        };
        self.kicked = now;
        for index in 0..self.connections.len() {
            let idle = self.connections[index].as_ref().is_some_and(|connection| {
                let facts = &connection.facts;
                // As in memcached: connections of this host's own sockets are left alone, and those that are sent something.
                let idle = u64::from(now.0.saturating_sub(facts.last_active().0));
                let silent = matches!(facts.doing(), Doing::Waiting | Doing::Receiving);
                facts.is_remote() && silent && idle > limit.as_secs()
            });
            if idle {
                self.counters.add(WorkerCount::IdleKicks, 1);
                self.close(index, CloseReason::IdleTimeout);
            }
        }
    }

    /// Whether there was time enough to end.
    fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }

    /// Closes the connections that have nothing under way. True if there are none any more.
    fn close_those_at_rest(&mut self) -> bool {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.ignore(&self.poll);
        }
        for index in 0..self.connections.len() {
            if self.connections[index].as_ref().is_some_and(Connection::is_at_rest) {
                self.close(index, CloseReason::Shutdown);
            }
        }
        self.shared.abandoned.load(Ordering::Acquire) || self.connections.iter().all(Option::is_none)
    }
}
