//! A worker: one thread, one event loop, one service.

use crate::clients::Clients;
use crate::outbox::{OUTBOX_FULL, Outbox};
use crate::queue::Rank;
use crate::service::{FIRST_CONNECTION, FIRST_SERVICE, Next, Round, Service, Woken};
use crate::{Acceptor, Arrival, Doing, Host, Slice};
use guira_sync::clock::Seconds;
use guira_transport::{Event, Interest, Mailbox, Park, Token};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once at most: those of a long value.
pub const INPUT_BYTES: usize = 128 << 10;
/// The longest wait of the worker that keeps the time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The bell of the mailbox. Listeners come next, then what the service listens to ([`FIRST_SERVICE`]), then connections
/// ([`FIRST_CONNECTION`]).
const BELL: Token = Token(0);
const FIRST_LISTENER: u64 = 1;

/// A worker: owns its connections, and shares nothing of them.
#[derive(Debug)]
pub struct Worker<S: Service> {
    service: S,
    clients: Clients<S>,
    input: Box<[u8]>,
    /// Used for one connection after another, and empty between them.
    outbox: Outbox<S::Pin>,
    host: Arc<Host>,
    mailbox: Arc<Mailbox<Arrival>>,
    /// The first worker's.
    acceptor: Option<Acceptor>,
    /// It stops, and its last connection is gone.
    is_finished: bool,
    /// When idle connections were last looked for.
    kicked: Seconds,
    /// When certificates were last looked for.
    looked: Seconds,
}

impl<S: Service> Worker<S> {
    /// # Errors
    /// What the system says.
    pub fn new(index: usize, service: S, host: Arc<Host>, acceptor: Option<Acceptor>) -> io::Result<Self> {
        const { assert!(S::READ_BYTES <= INPUT_BYTES) };
        let clients = Clients::new(index, host.clone())?;
        let mailbox = host.mailboxes[index].clone();
        clients.poll.add(&*mailbox, BELL, Interest::Read)?;
        if let Some(acceptor) = &acceptor {
            acceptor.listen(&clients.poll, FIRST_LISTENER)?;
        }
        service.listen(&clients.poll)?;
        Ok(Worker {
            service,
            clients,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            outbox: Outbox::with_capacity(2 * OUTBOX_FULL),
            host,
            mailbox,
            acceptor,
            is_finished: false,
            kicked: Seconds(0),
            looked: Seconds(0),
        })
    }

    /// Works until the server stops.
    ///
    /// # Errors
    /// What the system says about waiting.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        let mut has_more = true;
        loop {
            let next = self.service.before_round();
            if next == Next::Again {
                continue;
            }
            self.wait(&mut events, has_more || next == Next::LookAround)?;
            self.service.begin_round();
            let is_idle = events.is_empty() && self.clients.again.is_empty();
            if let Some(acceptor) = self.acceptor.as_mut() {
                acceptor.wake_up(&self.clients.poll, FIRST_LISTENER, &self.host);
            }
            for event in events.drain(..) {
                self.on_event(event, is_idle);
            }
            let (service, mut round) = self.round(is_idle);
            let has_delivered = service.deliver(&mut round);
            self.serve_again();
            let (service, mut round) = self.round(is_idle);
            has_more = service.end_round(&mut round) || has_delivered;
            self.close_idle();
            self.look_after_certificates();
            if self.host.is_stopping() && self.is_over() {
                return Ok(());
            }
        }
    }

    fn round(&mut self, is_idle: bool) -> (&mut S, Round<'_, S>) {
        (&mut self.service, Round { clients: &mut self.clients, outbox: &mut self.outbox, is_idle })
    }

    fn wait(&mut self, events: &mut Vec<Event>, has_more: bool) -> io::Result<()> {
        if has_more || !self.clients.again.is_empty() || self.service.park() == Park::Pending {
            return self.clients.poll.wait(Some(Duration::ZERO), events);
        }
        // One worker keeps the time; the others sleep until they are called.
        let wakes = self.acceptor.is_some() || self.host.idle.is_some() || self.host.is_stopping();
        let timeouts = [
            wakes.then_some(HEARTBEAT),
            self.acceptor.as_ref().and_then(Acceptor::patience),
            self.service.deadline(),
        ];
        let result = self.clients.poll.wait(timeouts.into_iter().flatten().min(), events);
        self.service.unpark(if events.is_empty() { Woken::ByTime } else { Woken::ByEvent });
        result
    }

    fn on_event(&mut self, event: Event, is_idle: bool) {
        match event.token {
            BELL => {
                for arrival in self.mailbox.take() {
                    self.clients.admit(arrival, &mut self.service);
                }
                self.clients.close_evicted();
            }
            Token(token @ FIRST_CONNECTION..) => {
                let index = (token - FIRST_CONNECTION) as usize;
                if self.clients.has_turn(index, event, self.service.now()) {
                    self.serve(index);
                }
            }
            Token(token @ FIRST_SERVICE..) => {
                let (service, mut round) = self.round(is_idle);
                service.on_event((token - FIRST_SERVICE) as u32, &mut round);
            }
            Token(token) => self.accept((token - FIRST_LISTENER) as usize),
        }
    }

    /// One more turn for those that have more to do: for all that ask for little, and then for the others, as long as they take no more
    /// than a slice together. Connections that ask for little meanwhile come before the rest of them.
    fn serve_again(&mut self) {
        for _ in 0..self.clients.again.len(Rank::Light) {
            if let Some(index) = self.clients.again.pop(Rank::Light) {
                self.serve(index);
            }
        }
        let mut slice = Slice::of(Rank::Heavy);
        for _ in 0..self.clients.again.len(Rank::Heavy) {
            if slice.is_over() {
                return;
            }
            if let Some(index) = self.clients.again.pop(Rank::Heavy) {
                slice.copied(self.serve(index));
            }
        }
    }

    /// Gives a connection its turn. Returns what that has taken.
    fn serve(&mut self, index: usize) -> usize {
        let (spent, leaving) =
            self.clients.serve(index, &mut self.service, &mut self.input, &mut self.outbox);
        if let Some(connection) = leaving {
            connection.facts.set_doing(Doing::Watching);
            let (state, arrival) = connection.into_parts();
            if let Some(arrival) = self.service.detach(state, arrival) {
                self.clients.admit(arrival, &mut self.service);
            }
        }
        spent
    }

    fn accept(&mut self, port: usize) {
        let is_stopping = self.host.is_stopping();
        let Some(acceptor) = self.acceptor.as_mut().filter(|_| !is_stopping) else {
            return;
        };
        for arrival in acceptor.accept(port, &self.clients.poll, &self.host, self.service.now()) {
            self.clients.admit(arrival, &mut self.service);
        }
    }

    /// Once a second, one worker looks whether there are new certificates.
    fn look_after_certificates(&mut self) {
        let now = self.service.now();
        if self.acceptor.is_some() && self.host.tls.is_some() && now != self.looked {
            self.looked = now;
            self.host.reload_changed_tls();
        }
    }

    /// Closes connections that have not said anything for too long.
    fn close_idle(&mut self) {
        let now = self.service.now();
        if let Some(limit) = self.host.idle.filter(|_| now != self.kicked) {
            self.kicked = now;
            self.clients.close_idle(now, limit.as_secs());
        }
    }

    /// The server stops: whether this worker may end.
    fn is_over(&mut self) -> bool {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.ignore(&self.clients.poll);
        }
        let is_abandoned = self.host.is_abandoned();
        let is_empty = self.clients.close_those_at_rest();
        // Other workers may wait for replies of this one.
        if (is_empty || is_abandoned) && !std::mem::replace(&mut self.is_finished, true) {
            self.service.finish();
        }
        is_abandoned || (is_empty && self.service.is_finished())
    }
}
