//! Waiting for several sockets at once.

use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::Timespec;
use std::fmt;
use std::io;
use std::time::Duration;

/// The name under which something was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

/// What to wait for. An end or an error is always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Either of them.
    ReadWrite,
    /// Nothing but the end.
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

/// Something has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// To what.
    pub token: Token,
    /// It has failed, or its other end is gone altogether.
    pub failed: bool,
}

/// What a thread waits for (epoll, level-triggered).
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

// SAFETY: an event has room for a pointer, but what is kept in it here is a token, a number. The descriptor belongs to the process.
unsafe impl Send for Poll {}

impl AsFd for Poll {
    /// It can be waited for itself: it has something to read when anything has happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Poll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

/// Events taken at once.
const EVENTS: usize = 256;

impl Poll {
    /// Waits for nothing yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Waits for `source` too.
    ///
    /// # Errors
    /// What the system says.
    pub fn add(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token.0), interest.flags())?)
    }

    /// Waits for something else about `source`.
    ///
    /// # Errors
    /// What the system says.
    pub fn change(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token.0), interest.flags())?)
    }

    /// Waits for `source` no longer.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until something happens, at most as long as `timeout`, and appends what did to `out`.
    ///
    /// # Errors
    /// What the system says, but not that a signal came.
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
