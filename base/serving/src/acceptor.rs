//! Accepting connections, and dealing them out to the workers in turn.

use crate::host::{CONNECTION_BYTES, Host, TLS_BYTES};
use crate::{ConnectionFacts, Port, RateLimited, Speaks};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{Seconds, Stopwatch};
use guira_transport::{AcceptError, Interest, Mailbox, Poll, Stream, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Whether a client has to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It has logged in, or need not.
    Free,
    Login,
}

/// A connection that has come, on its way to its worker.
#[derive(Debug)]
pub struct Arrival {
    pub stream: Stream,
    pub facts: Arc<ConnectionFacts>,
    pub speaks: Speaks,
    pub access: Access,
    /// What was read from it already.
    pub input: Vec<u8>,
    /// What it is to be sent first.
    pub output: Vec<u8>,
    /// What another server has said of the state of its protocol.
    pub carried: Box<[u8]>,
}

/// Accepts connections and deals them out in turn.
#[derive(Debug)]
pub struct Acceptor {
    ports: Vec<Port>,
    workers: Vec<Arc<Mailbox<Arrival>>>,
    next: usize,
    /// What becomes of connections to each port.
    standings: Vec<Standing>,
    rest: Rest,
    /// When the log may tell again that descriptors are short.
    tells: RateLimited,
}

/// Whether connections to a port are accepted.
#[derive(Debug)]
enum Standing {
    Serves,
    /// The system has refused one, then: another is accepted after a while.
    Rests(Stopwatch),
    /// The listener does not listen; the worker checked last at this time.
    GivenUp(Stopwatch),
}

/// Why nothing is accepted.
#[derive(Debug)]
enum Rest {
    No,
    /// There were no descriptors, since then: nothing is accepted until a connection is gone, or it is time to try again. Whatever
    /// else has descriptors does not tell when it gives one back.
    Descriptors(Stopwatch),
    /// There are as many connections as there may be, since then.
    Full(Stopwatch),
}

/// How long nothing is accepted where descriptors are short, unless a connection goes.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a listener that failed is checked.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the log tells that they are, in seconds.
const TELL_EVERY: u32 = 10;
/// Connections accepted at once: those that are there have their turns in between.
pub(crate) const ACCEPTS: usize = 16;

impl Acceptor {
    pub fn new(ports: Vec<Port>, workers: Vec<Arc<Mailbox<Arrival>>>) -> Self {
        let standings = ports.iter().map(|_| Standing::Serves).collect();
        Acceptor { ports, workers, next: 0, standings, rest: Rest::No, tells: RateLimited::every(TELL_EVERY) }
    }

    /// Registers the listeners with `poll`, by tokens from `first` on.
    pub fn listen(&self, poll: &Poll, first: u64) -> std::io::Result<()> {
        for (index, port) in self.ports.iter().enumerate() {
            if let Standing::Serves = self.standings[index] {
                poll.add(&port.listener, Token(first + index as u64), Interest::Read)?;
            }
        }
        Ok(())
    }

    /// Looks at no listener any more, or until it goes on.
    pub fn ignore(&self, poll: &Poll) {
        for port in &self.ports {
            let _ = poll.remove(&port.listener);
        }
    }

    /// How soon [`Acceptor::wake_up`] is to be called, whatever happens.
    pub fn patience(&self) -> Option<Duration> {
        let rests = |standing: &Standing| matches!(standing, Standing::Rests(_));
        (matches!(self.rest, Rest::Descriptors(_)) || self.standings.iter().any(rests)).then_some(RETRY_AFTER)
    }

    /// Goes on, if nothing was accepted for a reason that may be gone: a connection has gone, or descriptors may be there again.
    #[inline]
    pub fn wake_up(&mut self, poll: &Poll, first: u64, host: &Host) {
        let serves = |standing: &Standing| matches!(standing, Standing::Serves);
        if !matches!(self.rest, Rest::No) || !self.standings.iter().all(serves) {
            self.wake_resting(poll, first, host);
        }
    }

    #[cold]
    fn wake_resting(&mut self, poll: &Poll, first: u64, host: &Host) {
        self.wake_ports(poll, first);
        let (since, retries) = match &self.rest {
            Rest::No => return,
            Rest::Full(since) => (since, false),
            Rest::Descriptors(since) => (since, since.elapsed() >= RETRY_AFTER),
        };
        let connections = &host.connections;
        if retries || !connections.waiting.load(Ordering::SeqCst) {
            let micros = since.elapsed().as_micros() as u64;
            connections.waited_us.fetch_add(micros, Ordering::Relaxed);
            connections.waiting.store(false, Ordering::SeqCst);
            self.resume(poll, first);
        }
    }

    /// Resumes ports that have rested, and ports whose listeners listen again.
    fn wake_ports(&mut self, poll: &Poll, first: u64) {
        for (port, (standing, index)) in self.ports.iter().zip(self.standings.iter_mut().zip(first..)) {
            match standing {
                Standing::Rests(since) if since.elapsed() >= RETRY_AFTER => {}
                Standing::GivenUp(since) if since.elapsed() >= LOOK_AGAIN_AFTER => {
                    if !port.listener.is_listening() {
                        *standing = Standing::GivenUp(Stopwatch::start());
                        continue;
                    }
                    tracing::info!(address = %port.address, "the listener accepts connections again");
                }
                _ => continue,
            }
            // While all rest they are looked at again together.
            let is_looked_at = !matches!(self.rest, Rest::No)
                || poll.add(&port.listener, Token(index), Interest::Read).is_ok();
            *standing = if is_looked_at { Standing::Serves } else { Standing::Rests(Stopwatch::start()) };
        }
    }

    fn resume(&mut self, poll: &Poll, first: u64) {
        self.rest = Rest::No;
        if self.listen(poll, first).is_err() {
            // The poller is short of memory: all or none, and another try.
            self.ignore(poll);
            self.rest = Rest::Descriptors(Stopwatch::start());
        }
    }

    /// Accepts nothing until a connection goes, or there may be descriptors again. The event loop
    /// would tell of the listener at once otherwise, and for ever.
    fn pause(&mut self, error: AcceptError, poll: &Poll, host: &Host, now: Seconds) {
        if self.tells.is_due(now) {
            // Operator: Raise `LimitNOFILE=` or lower `max-connections`; look for a client that leaks
            // connections (`stats conns`).
            tracing::warn!(%error, "cannot accept connections; retrying");
        }
        host.connections.full.fetch_add(1, Ordering::Relaxed);
        // As at the limit of connections: the next one that is closed rings.
        host.connections.waiting.store(true, Ordering::SeqCst);
        self.rest = Rest::Descriptors(Stopwatch::start());
        self.ignore(poll);
    }

    /// Gives a listener up, until it listens again; the others are served.
    fn give_up(&mut self, port: usize, error: AcceptError, poll: &Poll) {
        self.standings[port] = Standing::GivenUp(Stopwatch::start());
        let port = &self.ports[port];
        let _ = poll.remove(&port.listener);
        // Operator: Correct what `error` names. The server accepts clients again when the socket listens again;
        // a socket that another process shut down needs a restart. Other listeners keep working.
        tracing::error!(
            %error,
            address = %port.address,
            "the listener failed; connections to this address are refused until the socket listens again"
        );
    }

    /// Accepts nothing at a listener for a while; the others are served.
    fn rest_port(&mut self, port: usize, error: AcceptError, poll: &Poll, now: Seconds) {
        self.standings[port] = Standing::Rests(Stopwatch::start());
        let port = &self.ports[port];
        let _ = poll.remove(&port.listener);
        if self.tells.is_due(now) {
            // Operator: Correct what `error` names, such as a firewall rule or a security module. The
            // server retries by itself.
            tracing::error!(%error, address = %port.address, "cannot accept connections at this address; \
                retrying");
        }
    }

    /// Accepts the connections that wait at a listener, up to `most`. Returns those for the first worker, which calls this.
    pub fn accept(
        &mut self,
        port: usize,
        most: usize,
        poll: &Poll,
        host: &Host,
        now: Seconds,
    ) -> Vec<Arrival> {
        let mut own = Vec::new();
        for _ in 0..most {
            if !matches!((&self.rest, &self.standings[port]), (Rest::No, Standing::Serves)) {
                break;
            }
            if host.connections.is_full() {
                self.rest = Rest::Full(Stopwatch::start());
                self.ignore(poll);
                break;
            }
            match self.ports[port].listener.accept() {
                Ok(Some((stream, peer))) => {
                    if let Some(arrival) = self.admit(port, stream, peer, host, now) {
                        own.push(arrival);
                    }
                }
                Ok(None) => break,
                Err(error @ AcceptError::Shortage(_)) => self.pause(error, poll, host, now),
                Err(error @ AcceptError::Refused(_)) => self.rest_port(port, error, poll, now),
                Err(error @ AcceptError::Broken(_)) => self.give_up(port, error, poll),
            }
        }
        own
    }

    fn admit(
        &mut self,
        port: usize,
        stream: Stream,
        peer: Option<SocketAddr>,
        host: &Host,
        now: Seconds,
    ) -> Option<Arrival> {
        let (connections, budget) = (&host.connections, &host.budget);
        let port = &self.ports[port];
        if connections.current.load(Ordering::Relaxed) >= connections.max() {
            connections.rejected.fetch_add(1, Ordering::Relaxed);
            refuse(stream);
            return None;
        }
        let bytes = CONNECTION_BYTES + if port.tls.is_some() { TLS_BYTES } else { 0 };
        if !budget.enter(bytes) {
            connections.rejected.fetch_add(1, Ordering::Relaxed);
            refuse(stream);
            return None;
        }
        let facts = Arc::new(ConnectionFacts::new(&stream, peer, port.address.clone(), bytes, now));
        let stream = match port.secure(stream) {
            Ok(stream) => stream,
            Err(error) => {
                // Operator: Check the certificate and the key. Connections to this listener are closed.
                tracing::error!(%error, "cannot speak TLS");
                budget.leave(bytes);
                return None;
            }
        };
        connections.current.fetch_add(1, Ordering::SeqCst);
        connections.total.fetch_add(1, Ordering::Relaxed);
        host.registry.add(&facts);
        host.connected(&facts);
        let access = host.access();
        let arrival = Arrival {
            stream,
            facts,
            speaks: port.speaks,
            access,
            input: Vec::new(),
            output: Vec::new(),
            carried: Box::default(),
        };
        let worker = self.next;
        self.next = (worker + 1) % self.workers.len();
        // Worker 0 is this one.
        if worker == 0 {
            return Some(arrival);
        }
        self.workers[worker].send(arrival);
        None
    }
}

/// Tells a client that there are too many others, as memcached does.
fn refuse(mut stream: Stream) {
    // An error means that the client is gone already.
    let _ = stream.write(b"ERROR Too many open connections\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnLimits;
    use guira_transport::net::TcpStream;
    use guira_transport::{Address, ListenOptions, Listener};

    fn listener() -> (Listener, std::net::SocketAddr) {
        let how = ListenOptions { backlog: 200, unix_mode: 0o700 };
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), how).unwrap();
        let Address::Tcp(address) = *listener.address() else { panic!("a TCP address") };
        (listener, address)
    }

    fn host() -> Host {
        Host::of_one_worker(ConnLimits { idle: 1 << 20, traffic: 0, pinned: 0 })
    }

    fn port(listener: Listener) -> Port {
        Port { address: Arc::new(listener.address().clone()), listener, speaks: Speaks::Any, tls: None }
    }

    #[test]
    fn a_listener_that_listens_no_more_is_given_up_and_the_others_are_served() {
        let ((broken, _), (sound, address)) = (listener(), listener());
        rustix::net::shutdown(&broken, rustix::net::Shutdown::Both).unwrap();
        let host = host();
        let mut acceptor = Acceptor::new(vec![port(broken), port(sound)], host.mailboxes.clone());
        let mut poll = Poll::new().unwrap();
        acceptor.listen(&poll, 1).unwrap();
        assert!(acceptor.accept(0, ACCEPTS, &poll, &host, Seconds(0)).is_empty());
        assert_eq!(acceptor.patience(), None, "nothing is waited for");
        let _client = TcpStream::connect(address).unwrap();
        let mut events = Vec::new();
        poll.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
        let told: Vec<Token> = events.iter().map(|event| event.token).collect();
        assert_eq!(told, [Token(2)], "and not of the broken one");
        assert_eq!(acceptor.accept(1, ACCEPTS, &poll, &host, Seconds(0)).len(), 1);
        // Also when all of them are looked at again.
        acceptor.ignore(&poll);
        acceptor.listen(&poll, 1).unwrap();
        events.clear();
        poll.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn a_listener_that_was_given_up_serves_when_it_listens_again() {
        let ((broken, _), host) = (listener(), host());
        let socket = std::os::fd::AsFd::as_fd(&broken).try_clone_to_owned().unwrap();
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
        let mut acceptor = Acceptor::new(vec![port(broken)], host.mailboxes.clone());
        let poll = Poll::new().unwrap();
        acceptor.listen(&poll, 1).unwrap();
        let accept = |acceptor: &mut Acceptor| acceptor.accept(0, ACCEPTS, &poll, &host, Seconds(0)).len();
        assert_eq!(accept(&mut acceptor), 0);
        acceptor.wake_up(&poll, 1, &host);
        assert!(matches!(acceptor.standings[0], Standing::GivenUp(_)), "it does not listen yet");
        rustix::net::listen(&socket, 16).unwrap();
        let watch = Stopwatch::start();
        while !matches!(acceptor.standings[0], Standing::Serves) {
            acceptor.wake_up(&poll, 1, &host);
            assert!(watch.elapsed() < Duration::from_secs(60));
            guira_sync::thread::yield_now();
        }
        // The system chose the port, and may choose another one now.
        let address = guira_transport::net::TcpListener::from(socket).local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(accept(&mut acceptor), 1);
    }

    #[test]
    fn connections_have_turns_between_those_that_are_accepted() {
        let ((listener, address), host) = (listener(), host());
        let mut acceptor = Acceptor::new(vec![port(listener)], host.mailboxes.clone());
        let poll = Poll::new().unwrap();
        acceptor.listen(&poll, 1).unwrap();
        let clients: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut accept = || acceptor.accept(0, ACCEPTS, &poll, &host, Seconds(0)).len();
        let accepted: Vec<usize> = (0..8).map(|_| accept()).collect();
        assert_eq!(accepted, [16, 16, 16, 16, 16, 16, clients.len() - 6 * ACCEPTS, 0]);
    }
}
