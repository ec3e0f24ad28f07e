//! The connections of one thread, one to each server: all I/O of the core.

use super::core::{Core, Fault, Input};
use super::counters::Counts;
use super::error::cause;
use super::plan::{Plan, SetupError};
use super::server::Server;
use super::window::Era;
use guira_routing::Tree;
use guira_sync::clock::wall_clock;
use guira_sync::simulated::is_planted;
use guira_transport::net::UdpSocket;
use guira_transport::{Address, Event, Interest, Poll, Progress, Token};
use guira_upstream::{Intake, Link, LinkOptions, Stage, is_busy};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The token of an event source of the session's owner.
pub(super) const OWNERS: Token = Token(u64::MAX);

const DATAGRAM_MAX: usize = 64 << 10;
/// Reads of one connection in a round.
const READS_MAX: usize = 16;
/// Datagrams of one server between two checks of deadlines.
const DATAGRAMS_MAX: usize = 512;
/// The longest wait between two checks of deadlines.
const WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) core: Core,
    plan: Arc<Plan>,
    peers: Vec<Peer>,
    pub(super) poll: Poll,
    events: Vec<Event>,
    /// The receive buffer of all servers, unless one is being read.
    intake: Option<Intake>,
    datagram: Vec<u8>,
}

/// The sockets of one server.
#[derive(Debug)]
struct Peer {
    link: Link,
    /// Received bytes that are not a complete reply.
    rest: Intake,
    udp: Option<Datagrams>,
}

/// A connected UDP socket.
#[derive(Debug)]
struct Datagrams {
    socket: UdpSocket,
    target: SocketAddr,
}

fn of_connection(server: u32) -> Token {
    Token(u64::from(server) * 2)
}

fn of_datagrams(server: u32) -> Token {
    Token(u64::from(server) * 2 + 1)
}

impl Session {
    pub(super) fn new(plan: &Arc<Plan>, counts: &Arc<Counts>, era: Era) -> Result<Self, SetupError> {
        // Random routes choose differently in each session.
        let seed = guira_sync::random::seed();
        let core = Core::new(plan, plan.tree()?, seed, Arc::clone(counts), era);
        Ok(Session {
            core,
            peers: plan.servers().iter().map(Peer::new).collect(),
            plan: Arc::clone(plan),
            poll: Poll::new()?,
            events: Vec::new(),
            intake: Some(Intake::default()),
            datagram: Vec::new(),
        })
    }

    /// Whether the session uses this plan.
    pub(super) fn has(&self, plan: &Arc<Plan>) -> bool {
        Arc::ptr_eq(&self.plan, plan)
    }

    /// The number of the plan in use.
    pub(super) fn plan_number(&self) -> u64 {
        self.plan.number
    }

    /// Uses this plan from now on.
    pub(super) fn go_by(&mut self, plan: &Arc<Plan>) -> Result<(), SetupError> {
        if !self.has(plan) {
            self.adopt(plan, plan.tree()?);
        }
        Ok(())
    }

    /// Uses another plan from now on, with a tree of its own. Requests in flight stay in the
    /// previous tree. Servers in both plans keep their connections. Connections to other servers
    /// are closed once they have no requests in flight.
    pub(super) fn adopt(&mut self, plan: &Arc<Plan>, tree: Tree) {
        self.core.adopt(plan, tree);
        for (number, server) in plan.servers().iter().enumerate() {
            let is_known = self.plan.servers().get(number).is_some_and(|known| known.is(server));
            match self.peers.get_mut(number) {
                Some(_) if is_known => {}
                Some(former) => *former = Peer::new(server),
                None => self.peers.push(Peer::new(server)),
            }
        }
        self.plan = Arc::clone(plan);
        self.close_unused();
    }

    fn close_unused(&mut self) {
        for server in self.core.take_unused() {
            self.close(server, Fault::Unused);
            self.close_datagrams(server);
        }
        self.core.free_numbers();
    }

    /// Begins a call: sets the time, closes connections that servers have closed, and times out
    /// requests of earlier calls. Their routes may then send deletes only: a value that a route stores
    /// in another server may be outdated.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.core.set_time(wall_clock(), self.plan.now_ms());
        for server in self.core.fail_overdue() {
            self.server(server).note_failure("an earlier request was not sent before its timeout");
            self.close(server, Fault::Closed);
        }
        self.turn(Duration::ZERO)?;
        self.probe();
        // Probes are sent now: a call whose servers are out of service ends at once, and the next
        // call may come much later.
        if !is_planted("client-probe-unsent") {
            self.flush();
        }
        Ok(())
    }

    /// Begins the probes that are due, over new connections where the old ones may be dead.
    pub(super) fn probe(&mut self) {
        for server in self.core.unanswered() {
            self.close(server, Fault::Closed);
        }
        self.core.probe();
    }

    /// Sets the time of the requests that follow.
    pub(super) fn update_time(&mut self) {
        self.core.set_time(wall_clock(), self.plan.now_ms());
    }

    /// Sends requests, waits for events for `patience` at most, and processes them.
    ///
    /// # Errors
    /// The error of the poller.
    pub(super) fn turn(&mut self, patience: Duration) -> io::Result<()> {
        self.flush();
        let now_ms = self.plan.now_ms();
        let left = self.core.deadline().map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
        // Requests that could not be sent have their replies already.
        let patience = if self.core.has_news() {
            Duration::ZERO
        } else {
            patience.min(left.unwrap_or(WAIT_MAX)).min(WAIT_MAX)
        };
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let waited = self.poll.wait(Some(patience), &mut events);
        self.update_time();
        for event in &events {
            if event.token == OWNERS {
                continue;
            }
            let server = (event.token.0 / 2) as u32;
            if event.token == of_connection(server) {
                self.on_event(server)
            } else {
                self.receive_datagrams(server)
            }
        }
        self.events = events;
        self.expire();
        self.flush();
        self.close_unused();
        waited
    }

    /// Times out requests and attempts to connect. A timeout at one address of several does not
    /// count as a failure of the server: the next connection goes to another address.
    fn expire(&mut self) {
        for (server, fault) in self.core.expire() {
            let has_others =
                fault == Fault::ConnectTimeout && self.peers[server as usize].link.try_next_address();
            self.close(server, if has_others { Fault::AddressTimeout } else { fault });
        }
    }

    /// Sends the requests of all servers.
    fn flush(&mut self) {
        loop {
            let dirty = self.core.take_dirty();
            if dirty.is_empty() {
                return;
            }
            for server in dirty {
                self.send_datagrams(server);
                if let Err(fault) = self.send(server) {
                    self.close(server, fault);
                }
            }
        }
    }

    fn server(&self, server: u32) -> &Server {
        &self.plan.servers()[server as usize]
    }

    /// Sends the requests of a server over its connection, after connecting if there is none.
    fn send(&mut self, server: u32) -> Result<(), Fault> {
        if self.core.unsent(server).is_empty() {
            return Ok(());
        }
        if self.peers[server as usize].link.is_closed() {
            self.connect(server)?;
        }
        let is_secure = self.server(server).secure.is_some();
        let Session { core, plan, peers, poll, .. } = self;
        let known = &plan.servers()[server as usize];
        let peer = &mut peers[server as usize];
        if !peer.link.is_up() {
            return Ok(());
        }
        let token = of_connection(server);
        loop {
            let bytes = if is_secure { core.unsent_record(server) } else { core.unsent(server) };
            if bytes.is_empty() {
                let polled = peer.link.set_interest(poll, token, Interest::Read);
                return polled.map_err(|error| lost(known, &Err(error)));
            }
            match peer.link.write(bytes) {
                Ok(Progress::Moved(sent)) => core.note_sent(server, sent),
                Ok(Progress::Blocked) => {
                    let polled = peer.link.set_interest(poll, token, Interest::ReadWrite);
                    return polled.map_err(|error| lost(known, &Err(error)));
                }
                ended => return Err(lost(known, &ended)),
            }
        }
    }

    fn connect(&mut self, server: u32) -> Result<(), Fault> {
        let known = &self.plan.servers()[server as usize];
        let link = &mut self.peers[server as usize].link;
        // Another thread may have resolved the name again.
        if !link.has_untried_addresses() {
            link.refresh_addresses();
        }
        let connected = link.connect(&self.poll, of_connection(server));
        connected.map_err(|error| refused(known, &error))?;
        self.core.connecting(server);
        Ok(())
    }

    /// Processes an event of a connection.
    fn on_event(&mut self, server: u32) {
        let is_beginning = self.peers[server as usize].link.is_connecting();
        let done = if is_beginning {
            self.advance(server)
        } else {
            self.send(server).and_then(|()| self.read(server))
        };
        if let Err(fault) = done {
            self.close(server, fault);
        }
    }

    /// Takes the next steps of connecting.
    fn advance(&mut self, server: u32) -> Result<(), Fault> {
        let known = &self.plan.servers()[server as usize];
        let link = &mut self.peers[server as usize].link;
        match link.advance() {
            Err(error) => {
                known.note_failure(cause(&error));
                if link.try_next_address() { self.send(server) } else { Err(Fault::Unreachable) }
            }
            Ok(Stage::Connecting) => {
                // Each step of a handshake has a timeout of its own: the thread may be busy between
                // two of them.
                self.core.connecting(server);
                let polled = link.set_interest(&self.poll, of_connection(server), Interest::Read);
                polled.map_err(|error| lost(known, &Err(error)))
            }
            Ok(Stage::Up) => {
                self.core.connected(server);
                self.send(server)
            }
        }
    }

    fn read(&mut self, server: u32) -> Result<(), Fault> {
        for _ in 0..READS_MAX {
            let Session { core, plan, peers, intake, .. } = self;
            let peer = &mut peers[server as usize];
            if !peer.link.is_up() {
                return Ok(());
            }
            let mut input = Intake::lent(&mut peer.rest, intake);
            let space = input.space();
            let most = space.len();
            let progress = peer.link.read(space);
            let has_more = peer.link.has_input();
            let bytes = match progress {
                Ok(Progress::Moved(bytes)) => bytes,
                Ok(Progress::Blocked) => 0,
                ended => {
                    input.keep(&mut peer.rest, intake);
                    return Err(lost(&plan.servers()[server as usize], &ended));
                }
            };
            input.filled(bytes);
            core.note_received(server, bytes);
            let result = core.receive(server, input.input());
            if let Input::Valid { taken, wanted } = result {
                input.taken(taken, wanted);
            }
            input.keep(&mut peer.rest, intake);
            match result {
                Input::Valid { .. } => {}
                Input::Invalid => return Err(Fault::Invalid),
                Input::Untrusted => return Err(Fault::Untrusted),
            }
            if bytes == 0 || (bytes < most && !has_more) {
                break;
            }
        }
        // A TLS read may have sent bytes, or have left bytes to send.
        let is_secure = self.server(server).secure.is_some();
        let is_clean = self.core.unsent(server).is_empty();
        let interest = if is_clean { Interest::Read } else { Interest::ReadWrite };
        if !is_secure {
            return Ok(());
        }
        let polled =
            self.peers[server as usize].link.set_interest(&self.poll, of_connection(server), interest);
        polled.map_err(|error| lost(self.server(server), &Err(error)))
    }

    fn close(&mut self, server: u32, fault: Fault) {
        let peer = &mut self.peers[server as usize];
        peer.link.close(&self.poll);
        peer.rest = Intake::default();
        if matches!(fault, Fault::Unreachable | Fault::ConnectTimeout) {
            // The server may have another address by the next attempt.
            self.plan.servers()[server as usize].look_up_again();
        }
        self.core.close(server, fault);
    }

    fn send_datagrams(&mut self, server: u32) {
        let all = self.core.take_datagrams(server);
        if all.is_empty() {
            return;
        }
        let peer = &mut self.peers[server as usize];
        // Another thread may have resolved the name again.
        if peer.link.is_closed() && !peer.link.has_untried_addresses() {
            peer.link.refresh_addresses();
        }
        for datagram in all {
            let sent = self.socket(server).and_then(|socket| socket.send(&datagram));
            match sent {
                // The socket buffer is full: the datagram counts as lost.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.server(server).note_failure(cause(&error));
                    return self.close_datagrams(server);
                }
                Ok(_) => {}
            }
        }
    }

    /// The UDP socket to a server. Its target is the address of the connection or, without a
    /// connection, the next address to try.
    fn socket(&mut self, server: u32) -> io::Result<&UdpSocket> {
        let known = &self.plan.servers()[server as usize];
        let peer = &mut self.peers[server as usize];
        let Some(Address::Tcp(target)) = peer.link.address() else {
            known.look_up_again();
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let before = peer.udp.take();
        let datagrams = match before {
            Some(datagrams) if datagrams.target == *target => datagrams,
            before => {
                if let Some(Datagrams { socket, .. }) = before {
                    // The server has another address. Closing the socket also removes it.
                    let _ = self.poll.remove(&socket);
                }
                let datagrams = Datagrams::to(*target)?;
                self.poll.add(&datagrams.socket, of_datagrams(server), Interest::Read)?;
                datagrams
            }
        };
        Ok(&peer.udp.insert(datagrams).socket)
    }

    fn receive_datagrams(&mut self, server: u32) {
        self.datagram.resize(DATAGRAM_MAX, 0);
        for _ in 0..DATAGRAMS_MAX {
            let Session { core, peers, datagram, .. } = self;
            let Some(Datagrams { socket, .. }) = &peers[server as usize].udp else { return };
            match socket.recv(datagram) {
                Ok(bytes) => core.receive_datagram(server, &datagram[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The port of the server is closed.
                Err(error) => {
                    self.server(server).note_failure(cause(&error));
                    return self.close_datagrams(server);
                }
            }
        }
    }

    fn close_datagrams(&mut self, server: u32) {
        if let Some(Datagrams { socket, .. }) = self.peers[server as usize].udp.take() {
            // Closing the socket also removes it.
            let _ = self.poll.remove(&socket);
        }
        self.core.close_datagrams(server);
    }
}

/// The fault of a failed attempt to connect.
fn refused(server: &Server, error: &io::Error) -> Fault {
    server.note_failure(cause(error));
    if is_busy(error) { Fault::Busy } else { Fault::Unreachable }
}

/// The fault of a connection that has ended.
fn lost(server: &Server, ended: &io::Result<Progress>) -> Fault {
    match ended {
        Err(error) => server.note_failure(cause(error)),
        Ok(_) => server.note_failure("the server closed the connection"),
    }
    Fault::Closed
}

impl Datagrams {
    fn to(target: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = if target.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(target)?;
        Ok(Datagrams { socket, target })
    }
}

impl Peer {
    fn new(server: &Server) -> Self {
        let options = LinkOptions {
            secure: server.secure.clone(),
            service: server.service,
            keepalive: None,
            connect_timeout_ms: u32::try_from(server.connect_timeout_ms).unwrap_or(u32::MAX),
        };
        Peer { link: Link::new(&server.addresses, options), rest: Intake::default(), udp: None }
    }
}

#[cfg(test)]
mod tests;
