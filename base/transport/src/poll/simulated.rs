//! The poller of a simulated world.

use super::{Event, Interest, Token};
use guira_world::net::{self, Bell, Ready};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::time::Duration;

impl Interest {
    fn ready(self) -> Ready {
        let read = matches!(self, Interest::Read | Interest::ReadWrite);
        let write = matches!(self, Interest::Write | Interest::ReadWrite);
        Ready { read, write, failed: true }
    }
}

#[derive(Debug)]
pub struct Poll(net::Poll, Bell);

impl AsFd for Poll {
    /// Never readable: no poller of a simulated region waits for another.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// None.
    pub fn new() -> io::Result<Self> {
        Ok(Poll(net::Poll::new(), Bell::new()))
    }

    /// Adds `source`.
    ///
    /// # Errors
    /// If it is no socket of the world.
    pub fn add(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.0.set(source, token.0, interest.ready())
    }

    /// Changes the interest in `source`.
    ///
    /// # Errors
    /// If it is no socket of the world.
    pub fn change(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.0.set(source, token.0, interest.ready())
    }

    /// Removes `source`.
    ///
    /// # Errors
    /// If it was not added.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        self.0.remove(source)
    }

    /// Waits for events, at most for `timeout`, and appends them to `out`.
    ///
    /// # Errors
    /// None.
    pub fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Event>) -> io::Result<()> {
        let events = self.0.wait(timeout).into_iter();
        out.extend(events.map(|(token, ready)| Event { token: Token(token), failed: ready.failed }));
        Ok(())
    }
}

/// Waits until one of a few sources has an event, at most for `timeout`, and returns how many have one.
///
/// # Errors
/// None.
pub fn wait_for(sources: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<usize> {
    let sources: Vec<_> = sources.iter().map(|(source, interest)| (*source, interest.ready())).collect();
    Ok(net::wait_for(&sources, timeout))
}
