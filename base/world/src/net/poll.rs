//! Waiting for events of several sockets, level-triggered.

use super::wires::{self, Kind, Net};
use crate::failure::error;
use crate::scheduler::{self, Woken};
use crate::wait::Waiters;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A read would not block.
    pub read: bool,
    /// A write would not block.
    pub write: bool,
    /// The connection has failed, or is closed in both directions.
    pub failed: bool,
}

#[derive(Debug, Default)]
pub struct Poll {
    /// Tokens and interests by descriptor. Never contended: no task runs while another one has it.
    sources: Mutex<BTreeMap<i32, (u64, Ready)>>,
    bell: Arc<Waiters>,
}

impl Poll {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<i32, (u64, Ready)>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a socket, or changes the interest in it.
    ///
    /// # Errors
    /// If it is no socket of the world.
    pub fn set(&self, source: impl AsFd, token: u64, interest: Ready) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let is_known = wires::with(|net| {
            let socket = net.sockets.get_mut(fd)?;
            if !socket.polls.iter().any(|bell| Arc::ptr_eq(bell, &self.bell)) {
                socket.polls.push(self.bell.clone());
            }
            Some(())
        });
        is_known.ok_or_else(|| error(io::ErrorKind::NotFound))?;
        self.sources().insert(fd, (token, interest));
        Ok(())
    }

    /// Removes a socket.
    ///
    /// # Errors
    /// If it was not added.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        self.forget(fd);
        self.sources().remove(&fd).map(drop).ok_or_else(|| error(io::ErrorKind::NotFound))
    }

    fn forget(&self, fd: i32) {
        wires::with(|net| {
            if let Some(socket) = net.sockets.get_mut(fd) {
                socket.polls.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            }
        });
    }

    /// Waits for events, at most for `limit`: tokens, and what their sockets are ready for.
    pub fn wait(&self, limit: Option<Duration>) -> Vec<(u64, Ready)> {
        scheduler::point();
        let end = limit.map(|limit| scheduler::now().saturating_add(limit));
        loop {
            let events = self.events();
            let left = end.map(|end| end.saturating_sub(scheduler::now()));
            if !events.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return events;
            }
            self.bell.enter();
            if self.bell.wait(left) == Woken::ByTime {
                return self.events();
            }
        }
    }

    fn events(&self) -> Vec<(u64, Ready)> {
        wires::with(|net| self.events_of(net))
    }

    fn events_of(&self, net: &Net) -> Vec<(u64, Ready)> {
        let mut events = Vec::new();
        // A socket that was closed is no source any more.
        self.sources().retain(|fd, (token, interest)| {
            let Some(ready) = ready(net, *fd) else { return false };
            let wanted = Ready {
                read: ready.read && interest.read,
                write: ready.write && interest.write,
                failed: ready.failed,
            };
            if wanted != Ready::default() {
                events.push((*token, wanted));
            }
            true
        });
        events
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let fds: Vec<i32> = self.sources().keys().copied().collect();
        fds.into_iter().for_each(|fd| self.forget(fd));
    }
}

/// Waits until one of a few sources is ready, at most for `limit`, and returns how many are.
pub fn wait_for(sources: &[(BorrowedFd<'_>, Ready)], limit: Option<Duration>) -> usize {
    let poll = Poll::new();
    for (token, (source, interest)) in sources.iter().enumerate() {
        if poll.set(source, token as u64, *interest).is_err() {
            // Anything but a socket of the world is always ready.
            return 1;
        }
    }
    poll.wait(limit).len()
}

fn ready(net: &Net, fd: i32) -> Option<Ready> {
    let socket = net.sockets.get(fd)?;
    Some(match &socket.kind {
        Kind::Listener { waiting } => Ready { read: !waiting.is_empty(), write: false, failed: false },
        Kind::Connecting => Ready::default(),
        Kind::Bell { is_rung } => Ready { read: *is_rung, write: false, failed: false },
        Kind::Failed(_) => Ready { read: true, write: true, failed: true },
        Kind::Connected { peer } => {
            let read = !socket.flow.received.is_empty() || socket.flow.has_ended;
            let write = net.sockets.get(*peer).is_none_or(|other| other.flow.room(net.window()) > 0);
            Ready { read, write, failed: false }
        }
    })
}
