//! One connection to each server, and the requests of one thread over them: what drives the core.

use super::core::{Core, Fault, Understood};
use super::counters::Counts;
use super::error::cause;
use super::plan::{Plan, SetupError};
use super::server::Server;
use super::window::Era;
use guira_routing::Tree;
use guira_sync::clock::wall_clock;
use guira_transport::{Address, Event, Interest, Poll, Progress, Token};
use guira_upstream::{Intake, Link, LinkOptions, Stage, is_busy};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The token of what its owner listens to.
pub(super) const OWNERS: Token = Token(u64::MAX);

/// The longest datagram.
const DATAGRAM_MAX: usize = 64 << 10;
/// So often a connection is read before others have their turn.
const READS_MAX: usize = 16;
/// So many datagrams of a server are taken before deadlines are looked at.
const DATAGRAMS_MAX: usize = 512;
/// Nothing waits for longer than this before it looks at its deadlines again.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) core: Core,
    plan: Arc<Plan>,
    wires: Vec<Wire>,
    pub(super) poll: Poll,
    events: Vec<Event>,
    /// What is read into, of all servers.
    intake: Option<Intake>,
    datagram: Vec<u8>,
}

/// The sockets of one server.
#[derive(Debug)]
struct Wire {
    link: Link,
    /// Received bytes that are not a complete reply.
    rest: Intake,
    udp: Option<Datagrams>,
}

/// A socket for datagrams to a server, and from it alone.
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
        // Handles that choose at random choose differently in each session.
        let seed = RandomState::new().build_hasher().finish();
        let core = Core::new(plan, plan.tree()?, seed, Arc::clone(counts), era);
        Ok(Session {
            core,
            wires: plan.servers().iter().map(Wire::new).collect(),
            plan: Arc::clone(plan),
            poll: Poll::new()?,
            events: Vec::new(),
            intake: Some(Intake::default()),
            datagram: Vec::new(),
        })
    }

    /// Whether it goes by this plan.
    pub(super) fn has(&self, plan: &Arc<Plan>) -> bool {
        Arc::ptr_eq(&self.plan, plan)
    }

    /// The number of the plan that it goes by.
    pub(super) fn plan_number(&self) -> u64 {
        self.plan.number
    }

    /// Goes by this plan from now on, if it does not yet.
    pub(super) fn go_by(&mut self, plan: &Arc<Plan>) -> Result<(), SetupError> {
        if !self.has(plan) {
            self.adopt(plan, plan.tree()?);
        }
        Ok(())
    }

    /// Goes by another plan from now on, by its own tree of it. What is under way stays in the tree before; servers that both have keep their
    /// connections, and those that only the one before has are closed once nothing is under way.
    pub(super) fn adopt(&mut self, plan: &Arc<Plan>, tree: Tree) {
        self.core.adopt(plan, tree);
        for (number, server) in plan.servers().iter().enumerate() {
            let is_known = self.plan.servers().get(number).is_some_and(|known| known.is(server));
            match self.wires.get_mut(number) {
                Some(_) if is_known => {}
                Some(former) => *former = Wire::new(server),
                None => self.wires.push(Wire::new(server)),
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
        self.core.give_up_numbers();
    }

    /// Begins some work: the time is told, and connections are closed that servers have closed meanwhile.
    ///
    /// What was asked while it was worked last, and nobody waits for, does not go on after a pause: a value that fills another server may be
    /// outdated.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.core.set_time(wall_clock(), self.plan.now_ms());
        for server in self.core.forget_overdue() {
            self.server(server).note_failure("an earlier request was not sent before its timeout");
            self.close(server, Fault::Gone);
        }
        self.turn(Duration::ZERO)?;
        self.core.probe();
        // A call that finds its servers out ends at once, and the next may be far away.
        self.flush();
        Ok(())
    }

    /// Tells the time after its owner has waited elsewhere: what it asks for now is asked now.
    pub(super) fn tell_time(&mut self) {
        self.core.set_time(wall_clock(), self.plan.now_ms());
    }

    /// Sends what is asked, waits until something happens, or so long at most, and deals with it.
    ///
    /// # Errors
    /// The system has nothing to wait with.
    pub(super) fn turn(&mut self, patience: Duration) -> io::Result<()> {
        self.flush();
        let now_ms = self.plan.now_ms();
        let left = self.core.deadline().map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
        // What could not be sent is answered already.
        let patience =
            if self.core.has_news() { Duration::ZERO } else { patience.min(left.unwrap_or(LOOK)).min(LOOK) };
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let waited = self.poll.wait(Some(patience), &mut events);
        self.tell_time();
        for event in &events {
            if event.token == OWNERS {
                continue;
            }
            let server = (event.token.0 / 2) as u32;
            if event.token == of_connection(server) {
                self.happens(server)
            } else {
                self.hear_datagrams(server)
            }
        }
        self.events = events;
        self.expire();
        self.flush();
        self.close_unused();
        waited
    }

    /// Gives up what takes too long. One silent address of several says nothing about the server: the next connection goes to another.
    fn expire(&mut self) {
        for (server, fault) in self.core.expire() {
            let has_others =
                fault == Fault::ConnectTimeout && self.wires[server as usize].link.try_next_address();
            self.close(server, if has_others { Fault::AddressTimeout } else { fault });
        }
    }

    /// Sends servers what they are asked.
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

    /// Sends what a server is asked over its connection; connects first, if need be.
    fn send(&mut self, server: u32) -> Result<(), Fault> {
        if self.core.unsent(server).is_empty() {
            return Ok(());
        }
        if self.wires[server as usize].link.is_closed() {
            self.connect(server)?;
        }
        let is_secure = self.server(server).secure.is_some();
        let Session { core, plan, wires, poll, .. } = self;
        let known = &plan.servers()[server as usize];
        let wire = &mut wires[server as usize];
        if !wire.link.is_up() {
            return Ok(());
        }
        let token = of_connection(server);
        loop {
            let bytes = if is_secure { core.unsent_record(server) } else { core.unsent(server) };
            if bytes.is_empty() {
                let polled = wire.link.set_interest(poll, token, Interest::Read);
                return polled.map_err(|error| lost(known, &Err(error)));
            }
            match wire.link.write(bytes) {
                Ok(Progress::Moved(sent)) => core.sent(server, sent),
                Ok(Progress::Blocked) => {
                    let polled = wire.link.set_interest(poll, token, Interest::ReadWrite);
                    return polled.map_err(|error| lost(known, &Err(error)));
                }
                ended => return Err(lost(known, &ended)),
            }
        }
    }

    fn connect(&mut self, server: u32) -> Result<(), Fault> {
        let known = &self.plan.servers()[server as usize];
        let link = &mut self.wires[server as usize].link;
        // Another thread may have looked the name up again.
        if !link.has_untried_addresses() {
            link.refresh_addresses();
        }
        let connected = link.connect(&self.poll, of_connection(server));
        connected.map_err(|error| refused(known, &error))?;
        self.core.connecting(server);
        Ok(())
    }

    /// Something has happened to a connection.
    fn happens(&mut self, server: u32) {
        let is_beginning = self.wires[server as usize].link.is_connecting();
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
        let link = &mut self.wires[server as usize].link;
        match link.advance() {
            Err(error) => {
                known.note_failure(cause(&error));
                if link.try_next_address() { self.send(server) } else { Err(Fault::Unreachable) }
            }
            Ok(Stage::Connecting) => {
                // Each step of a handshake has a timeout of its own: the thread may be busy between two of them.
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
            let Session { core, plan, wires, intake, .. } = self;
            let wire = &mut wires[server as usize];
            if !wire.link.is_up() {
                return Ok(());
            }
            let mut input = Intake::lent(&mut wire.rest, intake);
            let space = input.space();
            let most = space.len();
            let progress = wire.link.read(space);
            let has_more = wire.link.has_input();
            let bytes = match progress {
                Ok(Progress::Moved(bytes)) => bytes,
                Ok(Progress::Blocked) => 0,
                ended => {
                    input.keep(&mut wire.rest, intake);
                    return Err(lost(&plan.servers()[server as usize], &ended));
                }
            };
            input.filled(bytes);
            core.note_read(server, bytes);
            let understood = core.hear(server, input.input());
            if let Understood::Yes { taken, wanted } = understood {
                input.taken(taken, wanted);
            }
            input.keep(&mut wire.rest, intake);
            match understood {
                Understood::Yes { .. } => {}
                Understood::No => return Err(Fault::Nonsense),
                Understood::NoMore => return Err(Fault::Refused),
            }
            if bytes == 0 || (bytes < most && !has_more) {
                break;
            }
        }
        // TLS may have sent something, or have something left to send.
        let is_secure = self.server(server).secure.is_some();
        let is_clean = self.core.unsent(server).is_empty();
        let interest = if is_clean { Interest::Read } else { Interest::ReadWrite };
        if !is_secure {
            return Ok(());
        }
        let polled =
            self.wires[server as usize].link.set_interest(&self.poll, of_connection(server), interest);
        polled.map_err(|error| lost(self.server(server), &Err(error)))
    }

    fn close(&mut self, server: u32, fault: Fault) {
        let wire = &mut self.wires[server as usize];
        wire.link.close(&self.poll);
        wire.rest = Intake::default();
        if matches!(fault, Fault::Unreachable | Fault::ConnectTimeout) {
            // It may be elsewhere by the time it is connected to again.
            self.plan.servers()[server as usize].look_up_again();
        }
        self.core.close(server, fault);
    }

    fn send_datagrams(&mut self, server: u32) {
        let all = self.core.take_datagrams(server);
        if all.is_empty() {
            return;
        }
        let wire = &mut self.wires[server as usize];
        // Another thread may have looked the name up again.
        if wire.link.is_closed() && !wire.link.has_untried_addresses() {
            wire.link.refresh_addresses();
        }
        for datagram in all {
            let sent = self.socket(server).and_then(|socket| socket.send(&datagram));
            match sent {
                // There is no room for it, which is as if it was lost.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.server(server).note_failure(cause(&error));
                    return self.close_datagrams(server);
                }
                Ok(_) => {}
            }
        }
    }

    /// The socket for datagrams to a server: to the address at which its connection reaches it, or would be tried first.
    fn socket(&mut self, server: u32) -> io::Result<&UdpSocket> {
        let known = &self.plan.servers()[server as usize];
        let wire = &mut self.wires[server as usize];
        let Some(Address::Tcp(target)) = wire.link.address() else {
            known.look_up_again();
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let before = wire.udp.take();
        let datagrams = match before {
            Some(datagrams) if datagrams.target == *target => datagrams,
            before => {
                if let Some(Datagrams { socket, .. }) = before {
                    // The server is elsewhere. Closing the socket does the same.
                    let _ = self.poll.remove(&socket);
                }
                let datagrams = Datagrams::to(*target)?;
                self.poll.add(&datagrams.socket, of_datagrams(server), Interest::Read)?;
                datagrams
            }
        };
        Ok(&wire.udp.insert(datagrams).socket)
    }

    fn hear_datagrams(&mut self, server: u32) {
        self.datagram.resize(DATAGRAM_MAX, 0);
        for _ in 0..DATAGRAMS_MAX {
            let Session { core, wires, datagram, .. } = self;
            let Some(Datagrams { socket, .. }) = &wires[server as usize].udp else { return };
            match socket.recv(datagram) {
                Ok(bytes) => core.hear_datagram(server, &datagram[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Its port is closed.
                Err(error) => {
                    self.server(server).note_failure(cause(&error));
                    return self.close_datagrams(server);
                }
            }
        }
    }

    fn close_datagrams(&mut self, server: u32) {
        if let Some(Datagrams { socket, .. }) = self.wires[server as usize].udp.take() {
            // Closing the socket does the same.
            let _ = self.poll.remove(&socket);
        }
        self.core.close_datagrams(server);
    }
}

/// A connection could not be begun.
fn refused(server: &Server, error: &io::Error) -> Fault {
    server.note_failure(cause(error));
    if is_busy(error) { Fault::Busy } else { Fault::Unreachable }
}

/// A connection takes or brings nothing any more.
fn lost(server: &Server, ended: &io::Result<Progress>) -> Fault {
    match ended {
        Err(error) => server.note_failure(cause(error)),
        Ok(_) => server.note_failure("the server closed the connection"),
    }
    Fault::Gone
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

impl Wire {
    fn new(server: &Server) -> Self {
        let options = LinkOptions {
            secure: server.secure.clone(),
            service: server.service,
            keepalive: None,
            connect_timeout_ms: u32::try_from(server.connect_timeout_ms).unwrap_or(u32::MAX),
        };
        Wire { link: Link::new(&server.addresses, options), rest: Intake::default(), udp: None }
    }
}

#[cfg(test)]
mod tests;
