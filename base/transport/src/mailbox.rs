//! Messages to a thread that may be blocked in [`crate::Poll::wait`].

use guira_sync::lock::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;

/// A queue of messages with a descriptor to poll.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// LOCK: mailbox. Leaf.
    messages: Mutex<Vec<T>>,
    bell: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { messages: Mutex::new(Vec::new()), bell })
    }

    /// Adds a message and wakes the owner.
    pub fn send(&self, message: T) {
        self.messages.lock().push(message);
        self.ring();
    }

    /// Wakes the owner. Async-signal-safe.
    pub fn ring(&self) {
        // It fails only if the counter is full, and then the owner is woken anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all messages, and resets the descriptor.
    pub fn take(&self) -> Vec<T> {
        let mut count = [0; 8];
        // It fails if the descriptor was not readable, which does no harm.
        let _ = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut self.messages.lock())
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, Poll, Token};
    use std::time::Duration;

    #[test]
    fn a_message_wakes_the_poller() {
        let mailbox = Mailbox::new().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add(&mailbox, Token(7), Interest::Read).unwrap();
        let mut events = Vec::new();
        poll.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert!(events.is_empty());
        mailbox.send("hello");
        poll.wait(None, &mut events).unwrap();
        assert_eq!((events.len(), events[0].token), (1, Token(7)));
        assert_eq!(mailbox.take(), ["hello"]);
        events.clear();
        poll.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert!(events.is_empty(), "the bell is silent");
    }
}
