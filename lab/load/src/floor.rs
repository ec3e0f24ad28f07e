//! The floor: a server that moves the bytes of a cache and stores nothing.
//!
//! It reads requests, finds their ends (and skips the bodies of sets), and answers every get as a
//! hit with a value of a fixed length, from memory that is written before the first request. It
//! uses the event loop and the connections of the cache (guira-serving). So its cost is theirs and
//! that of the kernel, and the difference to a cache is the cost of protocol and engine.

mod parser;
mod reply;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use guira_serving::{
    Acceptor, Arrival, AtLimit, CloseReason, ConnBudget, ConnLimits, Connections, Host, HostOptions,
    INPUT_BYTES, Outbox, Port, ReplyTo, RequestHandler, Round, Service, Slice, Speaks, Stopped, Worker,
    service_token,
};
use guira_sync::clock::{CoarseClock, Seconds};
use guira_transport::{Address, Interest, ListenOptions, Listener, Poll, TlsAcceptor};

use parser::Parser;
pub use reply::Shape;
use reply::{Repetitions, Runs, Templates};
use udp::Udp;

/// A longer line is no request.
const LINE_MAX: usize = 256 << 10;
/// Connections, and bytes in them: no limit.
const UNLIMITED: usize = usize::MAX >> 1;

/// The floor server: one thread.
#[derive(Debug)]
pub struct Floor {
    listener: Listener,
    tls: Option<TlsAcceptor>,
    service: FloorService,
}

/// The service that replies to requests.
#[derive(Debug)]
struct FloorService {
    templates: Arc<Templates>,
    udp: Option<Udp>,
    /// A buffer that is used for one input after another.
    runs: Runs,
    clock: CoarseClock,
    now: Seconds,
}

impl Floor {
    /// Listens at `addr`; every get is answered with a value of this shape.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn bind(addr: SocketAddr, shape: Shape) -> io::Result<Self> {
        let how = ListenOptions { backlog: 1024, unix_mode: 0o700 };
        let listener = Listener::bind(&Address::Tcp(addr), how).map_err(io::Error::other)?;
        let clock = CoarseClock::system();
        let now = clock.now();
        let templates = Arc::new(Templates::new(shape));
        let service = FloorService { templates, udp: None, runs: Runs::default(), clock, now };
        Ok(Self { listener, tls: None, service })
    }

    /// Uses TLS on every connection.
    pub fn speak_tls(&mut self, tls: TlsAcceptor) {
        self.tls = Some(tls);
    }

    /// Also serves datagrams at `addr`; returns the address with its port.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn bind_udp(&mut self, addr: SocketAddr) -> io::Result<SocketAddr> {
        self.service.udp.insert(Udp::bind(addr, &self.service.templates)?).local_addr()
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// When it is no TCP address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.listener.address() {
            Address::Tcp(addr) => Ok(*addr),
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Serves until the event loop itself fails; a failing client only loses its connection.
    ///
    /// # Errors
    /// When waiting for events fails.
    pub fn serve(self) -> io::Result<()> {
        let Floor { listener, tls, service } = self;
        let limits = ConnLimits { idle: UNLIMITED, traffic: UNLIMITED, pinned: UNLIMITED };
        let host = Arc::new(Host::new(HostOptions {
            workers: 1,
            connections: Connections::new(u64::MAX, AtLimit::Refused),
            budget: Arc::new(ConnBudget::new(limits, 1)),
            idle: None,
            users: None,
            tls: None,
            observer: Arc::new(()),
        })?);
        let address = Arc::new(listener.address().clone());
        let port = Port { listener, address, speaks: Speaks::Any, tls };
        let acceptor = Acceptor::new(vec![port], host.mailboxes.clone());
        Worker::new(0, service, host, Some(acceptor))?.run()
    }
}

impl RequestHandler for FloorService {
    type Pin = Repetitions;
    type State = Parser;

    /// The floor keeps none of its input, so it reads large pieces.
    const READ_BYTES: usize = INPUT_BYTES;

    fn now(&self) -> Seconds {
        self.now
    }

    fn open(&mut self, _arrival: &Arrival, _from: ReplyTo) -> Parser {
        Parser::default()
    }

    fn run(
        &mut self,
        parser: &mut Parser,
        _slice: &mut Slice,
        _full: usize,
        input: &[u8],
        outbox: &mut Outbox<Repetitions>,
    ) -> (usize, Stopped) {
        let taken = parser.read(input, &mut self.runs);
        self.runs.reply(&self.templates, outbox);
        let is_request = input.len() - taken < LINE_MAX;
        (taken, if is_request { Stopped::NeedsInput } else { Stopped::Over(CloseReason::Error) })
    }
}

impl Service for FloorService {
    fn listen(&self, poll: &Poll) -> io::Result<()> {
        self.udp.iter().try_for_each(|udp| poll.add(udp, service_token(0), Interest::Read))
    }

    fn begin_round(&mut self) {
        self.now = self.clock.now();
    }

    fn on_event(&mut self, _number: u32, _round: &mut Round<'_, Self>) {
        self.udp.iter_mut().for_each(Udp::turn);
    }
}

#[cfg(test)]
mod tests;
