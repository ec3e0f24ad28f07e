//! What the workers of a server and its acceptor share.

use crate::lifecycle::Lifecycle;
use crate::{
    Access, Arrival, ConnBudget, ConnectionFacts, Connections, RateLimited, Registry, TrafficCount,
    TrafficCounters, Users,
};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use guira_transport::{Mailbox, TlsAcceptor, TlsError};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a connection takes that does nothing, in bytes: measured, and rounded up.
pub const CONNECTION_BYTES: usize = 512;
/// What a connection takes besides if it speaks TLS.
pub const TLS_BYTES: usize = 8 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Something went wrong, on the line or in what was said.
    Error,
    /// The client wished it, or left.
    Normal,
    /// Nothing came from it for too long.
    IdleTimeout,
    Shutdown,
}

/// Watches connections come and go, on any thread.
pub trait ConnectionObserver: fmt::Debug + Send + Sync {
    fn connected(&self, facts: &ConnectionFacts);
    fn closed(&self, facts: &ConnectionFacts, reason: CloseReason);
    /// The users could not be read again, and stay as they were.
    fn users_kept(&self) {}
}

/// Does not watch.
impl ConnectionObserver for () {
    fn connected(&self, _facts: &ConnectionFacts) {}
    fn closed(&self, _facts: &ConnectionFacts, _reason: CloseReason) {}
}

/// What a [`Host`] is made with.
#[derive(Debug)]
pub struct HostOptions {
    pub workers: usize,
    pub connections: Connections,
    pub budget: Arc<ConnBudget>,
    /// How long a connection over a network may send nothing.
    pub idle: Option<Duration>,
    /// Those who may use the server; without, every client may.
    pub users: Option<Users>,
    pub tls: Option<TlsAcceptor>,
    pub observer: Arc<dyn ConnectionObserver>,
}

/// Shared by the workers of a server and its acceptor.
#[derive(Debug)]
pub struct Host {
    pub connections: Connections,
    pub budget: Arc<ConnBudget>,
    pub registry: Registry,
    /// Each worker's, by its number.
    pub mailboxes: Vec<Arc<Mailbox<Arrival>>>,
    pub users: Option<Users>,
    pub tls: Option<TlsAcceptor>,
    pub(crate) idle: Option<Duration>,
    /// Each worker's, by its number.
    traffic: Vec<Arc<TrafficCounters>>,
    observer: Arc<dyn ConnectionObserver>,
    refresh_lines: RateLimited,
    pub(crate) lifecycle: Lifecycle,
    /// LOCK: given_away. Leaf. Connections for another server.
    given_away: Mutex<Vec<Arrival>>,
}

impl Host {
    /// # Errors
    /// If the system has no descriptors for the mailboxes.
    pub fn new(options: HostOptions) -> io::Result<Self> {
        let HostOptions { workers, connections, budget, idle, users, tls, observer } = options;
        Ok(Host {
            connections,
            budget,
            registry: Registry::default(),
            mailboxes: (0..workers).map(|_| Mailbox::new().map(Arc::new)).collect::<io::Result<_>>()?,
            users,
            tls,
            idle,
            traffic: (0..workers).map(|_| Arc::default()).collect(),
            observer,
            refresh_lines: RateLimited::every(1),
            lifecycle: Lifecycle::default(),
            given_away: Mutex::default(),
        })
    }

    pub fn traffic(&self, worker: usize) -> &Arc<TrafficCounters> {
        &self.traffic[worker]
    }

    pub fn traffic_sum(&self, what: TrafficCount) -> u64 {
        self.traffic.iter().map(|counters| counters.get(what)).sum()
    }

    pub fn access(&self) -> Access {
        if self.users.is_some() { Access::Login } else { Access::Free }
    }

    pub(crate) fn connected(&self, facts: &ConnectionFacts) {
        self.observer.connected(facts);
    }

    /// A connection is gone: there is room for another. Called before its descriptor is closed.
    pub fn gone(&self, facts: &ConnectionFacts, reason: CloseReason) {
        self.observer.closed(facts, reason);
        self.registry.remove(facts.id);
        self.budget.leave(facts.bytes);
        if self.connections.gone() {
            self.mailboxes[0].ring();
        }
    }

    pub fn ring(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.ring());
    }

    /// The acceptor accepts no more, and has distributed all its connections.
    pub(crate) fn end_to_accept(&self) {
        self.lifecycle.end_to_accept();
        self.ring();
    }

    /// Stops accepting. The workers end once their connections are idle.
    pub fn stop(&self) {
        self.lifecycle.stop();
        self.ring();
    }

    /// The workers end now, whatever their connections have in flight.
    pub fn abandon(&self) {
        self.lifecycle.abandon();
        self.ring();
    }

    /// As [`Host::stop`], but connections that another server can continue are kept for it.
    pub(crate) fn hand_over(&self) {
        self.lifecycle.hand_over();
        self.stop();
    }

    pub(crate) fn give_away(&self, arrivals: impl IntoIterator<Item = Arrival>) {
        self.given_away.lock().extend(arrivals);
    }

    /// The connections that were given away, and those that arrived when no worker was left. To be called when the
    /// workers have ended.
    pub(crate) fn take_given_away(&self) -> Vec<Arrival> {
        let mut arrivals = std::mem::take(&mut *self.given_away.lock());
        let late = self.mailboxes.iter().flat_map(|mailbox| mailbox.take());
        arrivals.extend(late.filter(|arrival| arrival.stream.is_plain()));
        arrivals
    }

    pub fn is_stopping(&self) -> bool {
        self.lifecycle.is_stopping()
    }

    /// Reads the files again that may have changed: users and certificates. What fails is logged, and what was known before stays.
    pub fn reload(&self) {
        if let Some(users) = &self.users {
            match users.reload() {
                Ok(()) => tracing::info!(file = %users.path().display(), "reloaded the auth file"),
                Err(error) => {
                    self.observer.users_kept();
                    // Operator: Correct the file and its permissions, then send SIGHUP.
                    tracing::error!(
                        "cannot reload the auth file; keeping the previous users: {}",
                        Causes(&error)
                    );
                }
            }
        }
        if self.tls.is_some() {
            log_reload(&self.reload_tls());
        }
    }

    /// Reads certificates and keys again, for a client. It may ask as often as it likes: the log has one line a second of it.
    ///
    /// # Errors
    /// If the new ones are of no use; the old ones stay.
    pub fn refresh_tls(&self, now: Seconds) -> Result<(), TlsError> {
        let result = self.reload_tls();
        if self.refresh_lines.is_due(now) {
            log_reload(&result);
        }
        result
    }

    fn reload_tls(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload(unix_now()))
    }

    /// Reads certificates and keys again if their files have changed.
    pub(crate) fn reload_changed_tls(&self) {
        if self.tls.as_ref().is_some_and(TlsAcceptor::changed) {
            // What fails is tried again when they change again.
            log_reload(&self.reload_tls());
        }
    }
}

/// Now, in seconds since 1970, as certificates count it.
#[allow(clippy::disallowed_methods, reason = "certificates hold until a time of the real world")]
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn log_reload(result: &Result<(), TlsError>) {
    match result {
        Ok(()) => tracing::info!("reloaded certificates"),
        Err(error) => {
            // Operator: Correct the file that the message names. The program retries when it changes, and
            // on SIGHUP.
            tracing::error!("cannot reload certificates; keeping the previous ones: {}", Causes(error))
        }
    }
}

/// An error with its causes, as a log shows it.
#[derive(Debug)]
pub struct Causes<'a>(pub &'a dyn Error);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
impl Host {
    /// For tests: a server with one worker, without users and TLS.
    pub(crate) fn of_one_worker(limits: crate::ConnLimits) -> Self {
        let options = HostOptions {
            workers: 1,
            connections: Connections::new(1024, crate::AtLimit::Refused),
            budget: Arc::new(ConnBudget::new(limits, 1)),
            idle: None,
            users: None,
            tls: None,
            observer: Arc::new(()),
        };
        Host::new(options).expect("a mailbox")
    }
}
