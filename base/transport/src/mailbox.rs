//! Messages to a thread that may be blocked in [`crate::Poll::wait`].

use crate::net::Bell;
use guira_sync::lock::Mutex;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;

/// A queue of messages with a descriptor to poll.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// LOCK: mailbox. Leaf.
    messages: Mutex<Vec<T>>,
    bell: Bell,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new() -> io::Result<Self> {
        Ok(Mailbox { messages: Mutex::new(Vec::new()), bell: Bell::new()? })
    }

    /// Adds a message and wakes the owner.
    pub fn send(&self, message: T) {
        self.messages.lock().push(message);
        self.ring();
    }

    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Takes all messages, and resets the descriptor.
    pub fn take(&self) -> Vec<T> {
        self.bell.reset();
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
