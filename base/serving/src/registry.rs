//! Which connections there are, for `stats conns`.

use guira_sync::atomic::{AtomicU8, AtomicU32, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use guira_transport::{Address, Stream};
use rustix::fd::{AsFd, AsRawFd};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What a connection is doing, by memcached's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    Waiting,
    Serving,
    /// A request has arrived in part.
    Receiving,
    /// The client does not take its replies.
    Sending,
    /// It is sent a log, or a list of items.
    Watching,
}

impl Doing {
    const ALL: [Doing; 5] =
        [Doing::Waiting, Doing::Serving, Doing::Receiving, Doing::Sending, Doing::Watching];

    fn name(self) -> &'static str {
        match self {
            Doing::Waiting => "conn_read",
            Doing::Serving => "conn_parse_cmd",
            Doing::Receiving => "conn_nread",
            Doing::Sending => "conn_mwrite",
            Doing::Watching => "conn_watch",
        }
    }
}

/// What statistics and logs say of a connection. Written by its worker, read for statistics: all orderings are Relaxed.
/// The acceptor makes those of all workers, which may share a cache line: they are stored only if they change.
#[derive(Debug)]
pub struct ConnectionFacts {
    /// Its descriptor: a name that no other connection has at the same time.
    pub id: i32,
    /// What it takes even if it does nothing.
    pub bytes: usize,
    peer: Option<SocketAddr>,
    listener: Arc<Address>,
    doing: AtomicU8,
    active: AtomicU32,
}

impl ConnectionFacts {
    pub fn new(
        stream: &Stream,
        peer: Option<SocketAddr>,
        listener: Arc<Address>,
        bytes: usize,
        now: Seconds,
    ) -> Self {
        ConnectionFacts {
            bytes,
            id: stream.as_fd().as_raw_fd(),
            peer,
            listener,
            doing: AtomicU8::new(Doing::Waiting as u8),
            active: AtomicU32::new(now.0),
        }
    }

    /// The client's host, if it has an address.
    pub fn peer_host(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// It has asked for something, or sent more of a value.
    pub fn active(&self, now: Seconds) {
        if self.active.load(Ordering::Relaxed) != now.0 {
            self.active.store(now.0, Ordering::Relaxed);
        }
    }

    /// When it last did.
    pub fn last_active(&self) -> Seconds {
        Seconds(self.active.load(Ordering::Relaxed))
    }

    pub fn set_doing(&self, doing: Doing) {
        if self.doing.load(Ordering::Relaxed) != doing as u8 {
            self.doing.store(doing as u8, Ordering::Relaxed);
        }
    }

    pub fn doing(&self) -> Doing {
        Doing::ALL[usize::from(self.doing.load(Ordering::Relaxed)) % Doing::ALL.len()]
    }

    pub fn listener(&self) -> &Address {
        &self.listener
    }

    /// Whether it came over a network.
    pub fn is_remote(&self) -> bool {
        self.peer.is_some()
    }

    /// The other end, as the log writes it: address, port, and by what.
    pub fn endpoint(&self) -> (String, u16, &'static str) {
        match self.peer {
            Some(address) => (address.ip().to_string(), address.port(), "tcp"),
            None => ("unix".to_owned(), 0, "local"),
        }
    }

    /// The other end, as memcached writes it.
    pub fn peer(&self) -> String {
        match self.peer {
            Some(address) => tcp_name(address),
            None => address_name(&self.listener),
        }
    }
}

fn tcp_name(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { "tcp" } else { "tcp6" };
    format!("{family}:{address}")
}

fn address_name(address: &Address) -> String {
    match address {
        Address::Tcp(address) => tcp_name(*address),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

#[derive(Debug, Default)]
pub struct Registry {
    /// LOCK: registry. Leaf.
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    listeners: Vec<(i32, String)>,
    connections: BTreeMap<i32, Arc<ConnectionFacts>>,
}

impl Registry {
    fn lock(&self) -> guira_sync::lock::MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    pub fn add_listener(&self, id: i32, address: &Address) {
        self.lock().listeners.push((id, address_name(address)));
    }

    pub fn add_datagram_socket(&self, id: i32, address: SocketAddr) {
        let family = if address.is_ipv4() { "udp" } else { "udp6" };
        self.lock().listeners.push((id, format!("{family}:{address}")));
    }

    pub fn add(&self, facts: &Arc<ConnectionFacts>) {
        self.lock().connections.insert(facts.id, facts.clone());
    }

    /// Forgets a connection, before its descriptor is closed.
    pub fn remove(&self, id: i32) {
        self.lock().connections.remove(&id);
    }

    /// Passes all to `stat`, in the form of `stats conns`.
    pub fn report(&self, now: Seconds, mut stat: impl FnMut(&str, &str)) {
        // A copy, so that no worker waits for the reader.
        let (listeners, connections) = {
            let entries = self.lock();
            let connections: Vec<_> = entries.connections.values().cloned().collect();
            (entries.listeners.clone(), connections)
        };
        for (id, address) in listeners {
            stat(&format!("{id}:addr"), &address);
            let state = if address.starts_with("udp") { "conn_read" } else { "conn_listening" };
            stat(&format!("{id}:state"), state);
            stat(&format!("{id}:secs_since_last_cmd"), &now.0.to_string());
        }
        for facts in connections {
            let id = facts.id;
            stat(&format!("{id}:addr"), &facts.peer());
            stat(&format!("{id}:listen_addr"), &address_name(&facts.listener));
            stat(&format!("{id}:state"), facts.doing().name());
            let idle = now.0.saturating_sub(facts.last_active().0);
            stat(&format!("{id}:secs_since_last_cmd"), &idle.to_string());
        }
    }
}
