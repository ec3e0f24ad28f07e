//! A worker: one thread, one event loop, one engine session.

use crate::admin::Admin;
use crate::connection::{Bench, Connection, Turn};
use crate::dialogue::{Interpreter, OUTBOX_FULL};
use crate::outbox::Outbox;
use crate::shared::{Shared, WorkerCounters};
use guira_commands::Executor;
use guira_contract::{Pace, Session};
use guira_sync::atomic::Ordering;
use guira_transport::{Event, Interest, Listener, Mailbox, Poll, Stream, Token};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once.
const INPUT_BYTES: usize = 128 << 10;
/// Small pieces of upkeep done after each round of connections, under load …
const BUSY_UPKEEP: usize = 32;
/// … and at a time when nothing else is to be done: few, since the crawler takes tens of microseconds for a page, and a
/// request may come at any moment.
const IDLE_UPKEEP: usize = 4;
/// The longest wait of the worker that keeps the time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A worker that has had nothing to do for so long gives back what its session keeps.
const REST_AFTER: Duration = Duration::from_millis(10);

/// The bell of the mailbox. Listeners come next, connections after [`FIRST_CONNECTION`].
const BELL: Token = Token(0);
const FIRST_LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = 1 << 32;

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker<S: Session> {
    poll: Poll,
    mailbox: Arc<Mailbox<Stream>>,
    shared: Arc<Shared>,
    counters: Arc<WorkerCounters>,
    bench: Bench<S>,
    /// Connections by token; empty places are used again.
    connections: Vec<Option<Connection<S>>>,
    vacant: Vec<usize>,
    /// Connections that have more to do.
    again: VecDeque<usize>,
    /// Nothing has happened since the session was told to rest.
    rested: bool,
    acceptor: Option<Acceptor>,
}

/// Accepts connections and deals them out in turn.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    workers: Vec<Arc<Mailbox<Stream>>>,
    next: usize,
    /// There were no descriptors: nothing is accepted until the worker has nothing else to do.
    paused: bool,
}

impl Acceptor {
    pub(crate) fn new(listeners: Vec<Listener>, workers: Vec<Arc<Mailbox<Stream>>>) -> Self {
        Acceptor { listeners, workers, next: 0, paused: false }
    }

    /// Looks at no listener until [`Acceptor::resume`].
    fn pause(&mut self, poll: &Poll) {
        self.paused = true;
        for listener in &self.listeners {
            let _ = poll.remove(listener);
        }
    }

    /// Tries again.
    fn resume(&mut self, poll: &Poll) {
        self.paused = false;
        for (index, listener) in self.listeners.iter().enumerate() {
            let _ = poll.add(listener, Token(FIRST_LISTENER + index as u64), Interest::Read);
        }
    }
}

impl<S: Session> Worker<S> {
    pub(crate) fn new(
        index: usize,
        session: S,
        shared: Arc<Shared>,
        admin: Arc<dyn Admin>,
        mailbox: Arc<Mailbox<Stream>>,
        acceptor: Option<Acceptor>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*mailbox, BELL, Interest::Read)?;
        for (index, listener) in acceptor.iter().flat_map(|acceptor| &acceptor.listeners).enumerate() {
            poll.add(listener, Token(FIRST_LISTENER + index as u64), Interest::Read)?;
        }
        let (counters, commands) = shared.workers[index].clone();
        let executor = Executor::new(session, shared.clock.clone(), commands);
        let bench = Bench {
            interpreter: Interpreter::new(executor, admin),
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            outbox: Outbox::with_capacity(2 * OUTBOX_FULL),
        };
        Ok(Worker {
            poll,
            mailbox,
            shared,
            counters,
            bench,
            connections: Vec::new(),
            vacant: Vec::new(),
            again: VecDeque::new(),
            rested: true,
            acceptor,
        })
    }

    /// Works until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        let mut more_upkeep = true;
        loop {
            self.wait(&mut events, more_upkeep)?;
            self.bench.interpreter.executor.look_at_clock();
            let idle = events.is_empty() && self.again.is_empty();
            if let Some(acceptor) = self.acceptor.as_mut().filter(|acceptor| acceptor.paused && idle) {
                acceptor.resume(&self.poll);
            }
            for event in events.drain(..) {
                self.on_event(event);
            }
            for _ in 0..self.again.len() {
                if let Some(index) = self.again.pop_front() {
                    self.serve(index);
                }
            }
            let (pace, budget) = if idle { (Pace::Idle, IDLE_UPKEEP) } else { (Pace::Busy, BUSY_UPKEEP) };
            let done = self.upkeep(pace, budget);
            more_upkeep = done > 0;
            if self.shared.is_stopping() && self.close_those_at_rest() {
                return Ok(());
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, more_upkeep: bool) -> io::Result<()> {
        if !self.again.is_empty() || more_upkeep {
            return self.poll.wait(Some(Duration::ZERO), events);
        }
        // One worker keeps the time, for what expires and falls due; the others sleep until they are called.
        // Each of them wakes up once more, soon, to give back what its session keeps: others may wait for it.
        let wakes = self.acceptor.is_some() || self.shared.is_stopping();
        let timeout = if self.rested { wakes.then_some(HEARTBEAT) } else { Some(REST_AFTER) };
        let session = self.bench.interpreter.executor.session();
        session.offline();
        let result = self.poll.wait(timeout, events);
        let session = self.bench.interpreter.executor.session();
        session.online();
        if events.is_empty() && !self.rested {
            session.rest();
        }
        self.rested = events.is_empty();
        result
    }

    fn upkeep(&mut self, pace: Pace, budget: usize) -> usize {
        let executor = &mut self.bench.interpreter.executor;
        let now = executor.now();
        let session = executor.session();
        session.quiesce();
        session.maintain(now, pace, budget)
    }

    fn on_event(&mut self, event: Event) {
        match event.token {
            BELL => {
                for stream in self.mailbox.take() {
                    self.admit(stream);
                }
            }
            Token(token) if token < FIRST_CONNECTION => self.accept((token - FIRST_LISTENER) as usize),
            Token(token) => {
                let index = (token - FIRST_CONNECTION) as usize;
                let waits_for_end = self.connection(index).is_some_and(|it| it.interest != Interest::Read);
                if event.failed && waits_for_end {
                    self.close(index);
                } else {
                    self.serve(index);
                }
            }
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection<S>> {
        self.connections.get_mut(index)?.as_mut()
    }

    /// Takes a connection over.
    fn admit(&mut self, stream: Stream) {
        let index = self.vacant.pop().unwrap_or(self.connections.len());
        if self.poll.add(&stream, Token(FIRST_CONNECTION + index as u64), Interest::Read).is_err() {
            self.vacant.push(index);
            self.forget_one();
            return;
        }
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[index] = Some(Connection::new(stream));
    }

    fn serve(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let turn = connection.turn(&mut self.bench, &self.counters);
        self.bench.interpreter.executor.session().quiesce();
        match turn {
            Turn::Again => self.again.push_back(index),
            Turn::Close => self.close(index),
            Turn::Wait(interest) if interest == connection.interest => {}
            Turn::Wait(interest) => {
                connection.interest = interest;
                let token = Token(FIRST_CONNECTION + index as u64);
                if self.poll.change(&connection.stream, token, interest).is_err() {
                    self.close(index);
                }
            }
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index).and_then(Option::take) {
            // Closing the socket does the same; it is done here so that no event of it is left.
            let _ = self.poll.remove(&connection.stream);
            self.vacant.push(index);
            self.forget_one();
        }
    }

    /// A connection is gone: there is room for another.
    fn forget_one(&mut self) {
        self.shared.connections.current.fetch_sub(1, Ordering::Relaxed);
    }

    fn accept(&mut self, listener: usize) {
        let stopping = self.shared.is_stopping();
        let shared = self.shared.clone();
        let Some(acceptor) = self.acceptor.as_mut().filter(|_| !stopping) else {
            return;
        };
        let mut own = Vec::new();
        loop {
            match acceptor.listeners[listener].accept() {
                Ok(Some(stream)) => {
                    let connections = &shared.connections;
                    if connections.current.load(Ordering::Relaxed) >= connections.limit {
                        connections.rejected.fetch_add(1, Ordering::Relaxed);
                        connections.full.fetch_add(1, Ordering::Relaxed);
                        refuse(stream);
                        continue;
                    }
                    connections.current.fetch_add(1, Ordering::Relaxed);
                    connections.total.fetch_add(1, Ordering::Relaxed);
                    let worker = acceptor.next;
                    acceptor.next = (worker + 1) % acceptor.workers.len();
                    // Worker 0 is this one.
                    if worker == 0 {
                        own.push(stream);
                    } else {
                        acceptor.workers[worker].send(stream);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    // Descriptors are short, probably. The event loop would tell again at once, and for ever.
                    tracing::warn!(%error, "cannot accept connections for now");
                    acceptor.pause(&self.poll);
                    break;
                }
            }
        }
        for stream in own {
            self.admit(stream);
        }
    }

    /// Closes the connections that have nothing under way. True if there are none any more.
    fn close_those_at_rest(&mut self) -> bool {
        if let Some(acceptor) = self.acceptor.take() {
            for listener in &acceptor.listeners {
                let _ = self.poll.remove(listener);
            }
        }
        for index in 0..self.connections.len() {
            if self.connections[index].as_ref().is_some_and(Connection::is_at_rest) {
                self.close(index);
            }
        }
        self.shared.abandoned.load(Ordering::Acquire) || self.connections.iter().all(Option::is_none)
    }
}

/// Tells a client that there are too many others, as memcached does.
fn refuse(mut stream: Stream) {
    // The client may be gone already; there is nobody else to tell.
    let _ = stream.write(b"ERROR Too many open connections\r\n");
}
