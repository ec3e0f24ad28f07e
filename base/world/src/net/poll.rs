//! Waiting for events of several sockets, level-triggered.

use super::wires::{self, Kind};
use crate::scheduler::{self, Woken};
use crate::wait::Waiters;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
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

/// What a poller knows: tokens and interests by descriptor.
#[derive(Debug, Default)]
struct Entries {
    sources: BTreeMap<i32, (u64, Ready)>,
}

thread_local! {
    static POLLS: RefCell<(u64, BTreeMap<u64, Entries>)> = RefCell::default();
}

/// A set of event sources.
#[derive(Debug)]
pub struct Poll {
    number: u64,
}

thread_local! {
    static BELLS: RefCell<BTreeMap<u64, Rc<Waiters>>> = RefCell::default();
}

impl Poll {
    /// An empty set.
    pub fn new() -> Self {
        POLLS.with_borrow_mut(|(last, polls)| {
            *last += 1;
            polls.insert(*last, Entries::default());
            BELLS.with_borrow_mut(|bells| bells.insert(*last, Rc::default()));
            Poll { number: *last }
        })
    }

    fn bell(&self) -> Rc<Waiters> {
        BELLS.with_borrow(|bells| bells.get(&self.number).cloned().unwrap_or_default())
    }

    fn entries<R>(&self, work: impl FnOnce(&mut Entries) -> R) -> R {
        POLLS.with_borrow_mut(|(_, polls)| work(polls.entry(self.number).or_default()))
    }

    /// Adds a socket, or changes what is waited for.
    ///
    /// # Errors
    /// If it is no socket of the world.
    pub fn set(&self, source: impl AsFd, token: u64, interest: Ready) -> io::Result<()> {
        let (fd, bell, number) = (source.as_fd().as_raw_fd(), self.bell(), self.number);
        let is_known = wires::with(|net| {
            let socket = net.sockets.get_mut(&fd)?;
            socket.polls.retain(|(other, _)| *other != number);
            socket.polls.push((number, bell));
            Some(())
        });
        is_known.ok_or(io::ErrorKind::NotFound)?;
        self.entries(|entries| entries.sources.insert(fd, (token, interest)));
        Ok(())
    }

    /// Removes a socket.
    ///
    /// # Errors
    /// If it was not added.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        let (fd, number) = (source.as_fd().as_raw_fd(), self.number);
        wires::with(|net| {
            net.sockets.get_mut(&fd).map(|socket| socket.polls.retain(|(other, _)| *other != number))
        });
        let removed = self.entries(|entries| entries.sources.remove(&fd));
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits for events, at most for `limit`: tokens, and what their sockets are ready for.
    pub fn wait(&self, limit: Option<Duration>) -> Vec<(u64, Ready)> {
        scheduler::point();
        let end = limit.map(|limit| scheduler::now().saturating_add(limit));
        let bell = self.bell();
        loop {
            let events = self.events();
            let left = end.map(|end| end.saturating_sub(scheduler::now()));
            if !events.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return events;
            }
            bell.enter();
            if bell.wait(left) == Woken::ByTime {
                return self.events();
            }
        }
    }

    fn events(&self) -> Vec<(u64, Ready)> {
        let sources: Vec<_> =
            self.entries(|entries| entries.sources.iter().map(|(fd, source)| (*fd, *source)).collect());
        let mut events = Vec::new();
        for (fd, (token, interest)) in sources {
            let Some(ready) = ready(fd) else {
                // It was closed.
                self.entries(|entries| entries.sources.remove(&fd));
                continue;
            };
            let wanted = Ready {
                read: ready.read && interest.read,
                write: ready.write && interest.write,
                failed: ready.failed,
            };
            if wanted != Ready::default() {
                events.push((token, wanted));
            }
        }
        events
    }
}

/// Waits until one of a few sources is ready, at most for `limit`, and returns how many are.
pub fn wait_for(sources: &[(BorrowedFd<'_>, Ready)], limit: Option<Duration>) -> usize {
    let poll = Poll::new();
    for (token, (source, interest)) in sources.iter().enumerate() {
        if poll.set(source, token as u64, *interest).is_err() {
            // What is no socket of the world is always ready.
            return 1;
        }
    }
    let ready = poll.wait(limit).len();
    for (source, _) in sources {
        let _ = poll.remove(source);
    }
    ready
}

impl Default for Poll {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        POLLS.with_borrow_mut(|(_, polls)| polls.remove(&self.number));
        BELLS.with_borrow_mut(|bells| bells.remove(&self.number));
    }
}

fn ready(fd: i32) -> Option<Ready> {
    wires::with(|net| {
        let window = net.window();
        let socket = net.sockets.get(&fd)?;
        Some(match &socket.kind {
            Kind::Listener { waiting } => Ready { read: !waiting.is_empty(), write: false, failed: false },
            Kind::Connecting => Ready::default(),
            Kind::Bell { is_rung } => Ready { read: *is_rung, write: false, failed: false },
            Kind::Failed(_) => Ready { read: true, write: true, failed: true },
            Kind::Connected { peer } => {
                let read = !socket.flow.received.is_empty() || socket.flow.has_ended;
                let write = net.sockets.get(peer).is_none_or(|other| other.flow.room(window) > 0);
                Ready { read, write, failed: false }
            }
        })
    })
}
