//! Connections to a server that are used again, and a rest for one that does not answer.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;

use super::leases::Leases;
use crate::text::{Connection, Target, TextError};

/// So many connections wait for their next use; further ones are closed.
const IDLE_MAX: usize = 32;

/// For so long a server that does not answer is not asked, but by deletes.
const REST: Duration = Duration::from_secs(1);

/// So many answers in a row may fail to come before that. A server that cannot be connected to rests at once.
const FAILURES_MAX: u64 = 3;

/// Why the cache could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// It cannot be reached, or does not answer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// It has answered something else than such a server does.
    #[error("an unexpected answer: {0}")]
    Unexpected(String),
    /// It knows neither `lease-get` nor meta commands. This is what it has said.
    #[error("the server knows no leases, and no meta commands: {0}")]
    NoLeases(String),
    /// It has not answered before, and is not asked for a second.
    #[error("the server has not answered, and is left alone for a second")]
    Resting,
}

impl CacheError {
    pub(super) fn unexpected(line: &[u8]) -> Self {
        Self::Unexpected(line.escape_ascii().to_string())
    }

    /// Whether it says that the other end was gone: as it is of a connection that a server closed while nobody used it.
    fn is_gone(&self) -> bool {
        let is_reset = |kind| matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        match self {
            Self::Text(TextError::Closed) => true,
            Self::Text(TextError::Io(error)) => is_reset(error.kind()),
            _ => false,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// By which commands it gives leases, once it was asked.
    pub(super) leases: Option<Leases>,
}

/// Whether a request may be left out while its server rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    Optional,
    Needed,
}

/// The connections to one server.
#[derive(Debug)]
pub(super) struct Links {
    target: Target,
    rest: Duration,
    /// LOCK: idle links. Leaf.
    idle: Mutex<Vec<Link>>,
    since: Stopwatch,
    /// Milliseconds after `since`.
    rests_until: AtomicU64,
    /// Answers in a row that have not come.
    failures: AtomicU64,
}

impl Links {
    pub(super) fn new(target: Target) -> Self {
        Self::resting(target, REST)
    }

    /// Those of a server that rests so long.
    pub(super) fn resting(target: Target, rest: Duration) -> Self {
        let (rests_until, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { target, rest, idle: Mutex::default(), since: Stopwatch::start(), rests_until, failures }
    }

    /// Does some work with a connection. It is done once more with another one if the first was closed while it was idle, so it
    /// has to be work that may be done twice.
    pub(super) fn with<T>(
        &self,
        urgency: Urgency,
        mut work: impl FnMut(&mut Link) -> Result<T, CacheError>,
    ) -> Result<T, CacheError> {
        if urgency == Urgency::Optional && self.now() < self.rests_until.load(Ordering::Relaxed) {
            return Err(CacheError::Resting);
        }
        let idle = self.idle().pop();
        if let Some(mut link) = idle {
            match work(&mut link) {
                // The others are as old.
                Err(error) if error.is_gone() => self.idle().clear(),
                done => return self.finish(link, done),
            }
        }
        let opened = Connection::open(&self.target).map_err(CacheError::from);
        let mut link = Link { connection: opened.inspect_err(|error| self.failed(error))?, leases: None };
        let done = work(&mut link);
        self.finish(link, done)
    }

    /// Keeps a connection for the next one, unless an answer may still come over it.
    fn finish<T>(&self, link: Link, done: Result<T, CacheError>) -> Result<T, CacheError> {
        match &done {
            Ok(_) => {
                self.failures.store(0, Ordering::Relaxed);
                let mut idle = self.idle();
                if idle.len() < IDLE_MAX {
                    idle.push(link);
                }
            }
            Err(error) => self.failed(error),
        }
        done
    }

    fn failed(&self, error: &CacheError) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let is_out = matches!(
            error,
            CacheError::Text(TextError::Connect(_) | TextError::Login(_)) | CacheError::NoLeases(_)
        );
        if is_out || failures >= FAILURES_MAX {
            self.rests_until.store(self.now() + self.rest.as_millis() as u64, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
