//! Waiting for events of several sockets.

use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::Timespec;
use std::fmt;
use std::io;
use std::time::Duration;

/// Identifies a registered source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

/// The events to wait for. Ends and errors are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    ReadWrite,
    /// Only the end.
    End,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
            Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            Interest::End => epoll::EventFlags::empty(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub token: Token,
    /// The source has failed, or its other end is closed completely.
    pub failed: bool,
}

/// A set of event sources (epoll, level-triggered).
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

// SAFETY: the events' data field holds a token, which is a number and not a pointer. The descriptor belongs to the
// process.
unsafe impl Send for Poll {}

impl AsFd for Poll {
    /// The set can be polled itself: it is readable when an event is pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Poll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

/// Events received at once.
const EVENTS: usize = 256;

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new() -> io::Result<Self> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Adds `source`.
    ///
    /// # Errors
    /// An error of the system.
    pub fn add(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token.0), interest.flags())?)
    }

    /// Changes the interest in `source`.
    ///
    /// # Errors
    /// An error of the system.
    pub fn change(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token.0), interest.flags())?)
    }

    /// Removes `source`.
    ///
    /// # Errors
    /// An error of the system.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits for events, at most for `timeout`, and appends them to `out`.
    ///
    /// # Errors
    /// An error of the system, except that a signal arrived.
    pub fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Event>) -> io::Result<()> {
        let timeout = timeout
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let failed = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        out.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            Event { token: Token(event.data.u64()), failed: flags.intersects(failed) }
        }));
        Ok(())
    }
}
