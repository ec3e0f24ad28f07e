//! Connections to a server that are used again, and a rest for one that does not answer.

use guira_sync::lock::{Mutex, MutexGuard};
use std::io;
use std::time::Duration;

use guira_protocol::client::Reply;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_sync::simulated::is_planted;

use super::leases::Leases;
use crate::text::{Connection, Target, TextError};

/// The most idle connections; further ones are closed.
const IDLE_MAX: usize = 32;

/// A server without a reply receives only deletes for this time.
const REST: Duration = Duration::from_secs(1);

/// The most requests in a row that may stay without a reply before that. A server that cannot be
/// connected to rests at once.
const FAILURES_MAX: u64 = 3;

/// The reason that the cache could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The cache cannot be reached, or does not reply.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The cache sent an unexpected reply.
    #[error("unexpected reply from the server: {0}")]
    Unexpected(String),
    /// The cache supports neither `lease-get` nor the meta commands of memcached 1.6.10. This is
    /// its reply.
    #[error("the server supports neither leases nor the meta commands of memcached 1.6.10: {0}")]
    NoLeases(String),
    /// The cache did not reply before, and is not tried for a second.
    #[error("the server did not answer; not retried for one second")]
    Resting,
}

impl CacheError {
    pub(super) fn unexpected(reply: &Reply<'_>) -> Self {
        Self::Unexpected(reply.line().escape_ascii().to_string())
    }

    /// Whether the error is that of an idle connection which the server has closed.
    fn is_gone(&self) -> bool {
        let is_reset = |kind| matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        match self {
            Self::Text(TextError::Closed) => true,
            Self::Text(TextError::Io(error)) => is_reset(error.kind()),
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// The commands by which the server gives leases, once it was probed.
    pub(super) leases: Option<Leases>,
    /// The time of the last use, in milliseconds of the clock of its `Links`.
    used: u64,
}

/// Whether a request may be left out while its server rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    Optional,
    Needed,
}

#[derive(Debug)]
pub(super) struct Links {
    target: Target,
    rest: Duration,
    /// LOCK: idle links. Leaf.
    idle: Mutex<Vec<Link>>,
    since: Stopwatch,
    /// Milliseconds after `since`; 0 while it does not rest.
    rests_until: AtomicU64,
    /// Answers in a row that have not come.
    failures: AtomicU64,
}

impl Links {
    pub(super) fn new(target: Target) -> Self {
        Self::resting(target, REST)
    }

    /// The connections to a server that rests this long after failures.
    pub(super) fn resting(target: Target, rest: Duration) -> Self {
        let (rests_until, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { target, rest, idle: Mutex::default(), since: Stopwatch::start(), rests_until, failures }
    }

    /// Does some work with a connection. It is done once more with another one if the first was closed while it was idle, so it
    /// has to be work that may be done twice.
    pub(super) fn with<T>(
        &self,
        urgency: Urgency,
        work: impl FnMut(&mut Link) -> Result<T, CacheError>,
    ) -> Result<T, CacheError> {
        let (done, link) = self.lend(urgency, work)?;
        self.keep(link);
        Ok(done)
    }

    /// Like `with`, but also lends the connection for further requests; the caller then returns it.
    pub(super) fn lend<T>(
        &self,
        urgency: Urgency,
        mut work: impl FnMut(&mut Link) -> Result<T, CacheError>,
    ) -> Result<(T, Link), CacheError> {
        if urgency == Urgency::Optional && !self.may_try() {
            return Err(CacheError::Resting);
        }
        let idle = self.idle().pop();
        if let Some(mut link) = idle {
            match work(&mut link) {
                Err(error) if error.is_gone() => self.drop_older(&link),
                done => return self.judge(link, done),
            }
        }
        let opened = Connection::open(&self.target).map_err(CacheError::from);
        let connection = opened.inspect_err(|error| self.failed(error))?;
        let mut link = Link { connection, leases: None, used: self.now() };
        let done = work(&mut link);
        self.judge(link, done)
    }

    /// Does more with a connection that was lent, and with no other one.
    pub(super) fn go_on<T>(
        &self,
        mut link: Link,
        work: impl FnOnce(&mut Link) -> Result<T, CacheError>,
    ) -> Result<(T, Link), CacheError> {
        let done = work(&mut link);
        self.judge(link, done)
    }

    /// Keeps a connection, over which no answer may come any more, for the next one.
    pub(super) fn keep(&self, link: Link) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(link);
        }
    }

    fn judge<T>(&self, mut link: Link, done: Result<T, CacheError>) -> Result<(T, Link), CacheError> {
        match done {
            Ok(done) => {
                self.failures.store(0, Ordering::Relaxed);
                self.rests_until.store(0, Ordering::Relaxed);
                link.used = self.now();
                Ok((done, link))
            }
            Err(error) => {
                if is_planted("late-connection-kept") {
                    self.keep(link);
                    return Err(error);
                }
                self.failed(&error);
                if matches!(error, CacheError::Text(TextError::Late)) {
                    // Perhaps the way is gone that they take, which no end says.
                    self.drop_older(&link);
                }
                Err(error)
            }
        }
    }

    /// Closes the idle connections that were last used no later than this failed one.
    fn drop_older(&self, link: &Link) {
        self.idle().retain(|other| other.used > link.used);
    }

    /// Whether the server does not rest. When its rest is over, one caller tries it, and the others
    /// still skip it.
    fn may_try(&self) -> bool {
        let (until, now) = (self.rests_until.load(Ordering::Relaxed), self.now());
        let again = now + self.rest_millis();
        until == 0
            || now >= until
                && self
                    .rests_until
                    .compare_exchange(until, again, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
    }

    fn rest_millis(&self) -> u64 {
        (self.rest.as_millis() as u64).max(1)
    }

    fn failed(&self, error: &CacheError) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let is_out = matches!(
            error,
            CacheError::Text(TextError::Connect(_) | TextError::Login(_)) | CacheError::NoLeases(_)
        );
        if is_out || failures >= FAILURES_MAX {
            self.rests_until.store(self.now() + self.rest_millis(), Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock()
    }
}
