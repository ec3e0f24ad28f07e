//! The system's poller.

use super::{Event, Interest, Token};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::Timespec;
use std::fmt;
use std::io;
use std::time::Duration;

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
        let timeout = timeout.map(timespec);
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

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Waits until one of a few sources has an event, at most for `timeout`, and returns how many have one: 0 also if a
/// signal arrived. For threads that wait now and then; others keep a [`Poll`].
///
/// # Errors
/// An error of the system.
pub fn wait_for(sources: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<usize> {
    let flags = |interest| match interest {
        Interest::Read => PollFlags::IN,
        Interest::Write => PollFlags::OUT,
        Interest::ReadWrite => PollFlags::IN | PollFlags::OUT,
        Interest::End => PollFlags::empty(),
    };
    let mut waits: Vec<_> =
        sources.iter().map(|(source, interest)| PollFd::new(source, flags(*interest))).collect();
    match poll(&mut waits, timeout.map(timespec).as_ref()) {
        Ok(ready) => Ok(ready),
        Err(rustix::io::Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
