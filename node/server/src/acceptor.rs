//! Accepting connections, and dealing them out to the workers in turn.

use crate::dialogue::Access;
use crate::division::{CONNECTION_BYTES, TLS_BYTES};
use crate::listen::Speaks;
use crate::options::Beyond;
use crate::registry::ConnectionFacts;
use crate::shared::Shared;
use guira_sync::atomic::Ordering;
use guira_sync::clock::{Seconds, Stopwatch};
use guira_transport::{Address, Interest, Listener, Mailbox, Poll, Stream, TlsAcceptor, Token};
use std::net::SocketAddr;
use std::sync::Arc;

/// A listener, with what its connections are to be.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) listener: Listener,
    pub(crate) address: Arc<Address>,
    pub(crate) speaks: Speaks,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Port {
    fn secure(&self, stream: Stream) -> std::io::Result<Stream> {
        match &self.tls {
            Some(tls) => tls.accept(stream),
            None => Ok(stream),
        }
    }
}

/// A connection that has come, on its way to its worker.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) facts: Arc<ConnectionFacts>,
    pub(crate) speaks: Speaks,
    pub(crate) access: Access,
    /// What was read from it already.
    pub(crate) input: Vec<u8>,
}

/// Accepts connections and deals them out in turn.
#[derive(Debug)]
pub(crate) struct Acceptor {
    ports: Vec<Port>,
    workers: Vec<Arc<Mailbox<Arrival>>>,
    next: usize,
    rest: Rest,
}

/// Why nothing is accepted.
#[derive(Debug)]
enum Rest {
    /// Something is.
    No,
    /// There were no descriptors: nothing is accepted until the worker has nothing else to do.
    Descriptors,
    /// There are as many connections as there may be, since then.
    Full(Stopwatch),
}

impl Acceptor {
    pub(crate) fn new(ports: Vec<Port>, workers: Vec<Arc<Mailbox<Arrival>>>) -> Self {
        Acceptor { ports, workers, next: 0, rest: Rest::No }
    }

    /// Has the event loop tell of connections, by tokens from `first` on.
    pub(crate) fn listen(&self, poll: &Poll, first: u64) -> std::io::Result<()> {
        for (index, port) in self.ports.iter().enumerate() {
            poll.add(&port.listener, Token(first + index as u64), Interest::Read)?;
        }
        Ok(())
    }

    /// Looks at no listener any more, or until [`Acceptor::resume`].
    pub(crate) fn ignore(&self, poll: &Poll) {
        for port in &self.ports {
            let _ = poll.remove(&port.listener);
        }
    }

    /// Tries again, if it rests because descriptors were short.
    pub(crate) fn try_again(&mut self, poll: &Poll, first: u64) {
        if matches!(self.rest, Rest::Descriptors) {
            self.resume(poll, first);
        }
    }

    /// Goes on, if it rests because there were too many connections and one has gone.
    pub(crate) fn one_is_gone(&mut self, poll: &Poll, first: u64, shared: &Shared) {
        if let Rest::Full(since) = &self.rest
            && !shared.connections.waiting.load(Ordering::Relaxed)
        {
            let micros = since.elapsed().as_micros() as u64;
            shared.connections.waited_us.fetch_add(micros, Ordering::Relaxed);
            self.resume(poll, first);
        }
    }

    fn resume(&mut self, poll: &Poll, first: u64) {
        self.rest = Rest::No;
        let _ = self.listen(poll, first);
    }

    /// Accepts what has come to a listener. What is for the first worker, who calls this, is returned.
    pub(crate) fn accept(&mut self, port: usize, poll: &Poll, shared: &Shared, now: Seconds) -> Vec<Arrival> {
        let mut own = Vec::new();
        while matches!(self.rest, Rest::No) {
            if self.is_full(shared) {
                self.rest = Rest::Full(Stopwatch::start());
                self.ignore(poll);
                break;
            }
            match self.ports[port].listener.accept() {
                Ok(Some((stream, peer))) => {
                    if let Some(arrival) = self.admit(port, stream, peer, shared, now) {
                        own.push(arrival);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    // Descriptors are short, probably. The event loop would tell again at once, and for ever.
                    tracing::warn!(%error, "cannot accept connections for now");
                    self.rest = Rest::Descriptors;
                    self.ignore(poll);
                }
            }
        }
        own
    }

    /// Whether there are as many connections as there may be, and others have to wait.
    fn is_full(&self, shared: &Shared) -> bool {
        let connections = &shared.connections;
        let full = || connections.current.load(Ordering::SeqCst) >= connections.limits.max;
        if connections.limits.beyond == Beyond::Refused || !full() {
            return false;
        }
        // SeqCst, with the loads and stores in `Connections::forget_one`: either it sees that somebody waits, or it is
        // seen here that one is gone.
        connections.waiting.store(true, Ordering::SeqCst);
        if full() {
            connections.full.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        connections.waiting.store(false, Ordering::SeqCst);
        false
    }

    fn admit(
        &mut self,
        port: usize,
        stream: Stream,
        peer: Option<SocketAddr>,
        shared: &Shared,
        now: Seconds,
    ) -> Option<Arrival> {
        let connections = &shared.connections;
        let port = &self.ports[port];
        if connections.current.load(Ordering::Relaxed) >= connections.limits.max {
            connections.rejected.fetch_add(1, Ordering::Relaxed);
            refuse(stream);
            return None;
        }
        let bytes = CONNECTION_BYTES + if port.tls.is_some() { TLS_BYTES } else { 0 };
        if !shared.room.enter(bytes) {
            connections.rejected.fetch_add(1, Ordering::Relaxed);
            refuse(stream);
            return None;
        }
        let facts = Arc::new(ConnectionFacts::new(&stream, peer, port.address.clone(), bytes, now));
        let stream = match port.secure(stream) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::error!(%error, "cannot speak TLS");
                shared.room.leave(bytes);
                return None;
            }
        };
        connections.current.fetch_add(1, Ordering::SeqCst);
        connections.total.fetch_add(1, Ordering::Relaxed);
        shared.registry.add(&facts);
        shared.hub.connection_new(&facts);
        let access = shared.access();
        let arrival = Arrival { stream, facts, speaks: port.speaks, access, input: Vec::new() };
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
    // The client may be gone already; there is nobody else to tell.
    let _ = stream.write(b"ERROR Too many open connections\r\n");
}
