//! Waiting for events of several sockets: by the system's poller, or under `--cfg guira_simulated` by that of guira_world.

#[cfg(guira_simulated)]
mod simulated;
#[cfg(not(guira_simulated))]
mod system;

#[cfg(guira_simulated)]
pub use simulated::{Poll, wait_for};
#[cfg(not(guira_simulated))]
pub use system::{Poll, wait_for};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub token: Token,
    /// The source has failed, or its other end is closed completely.
    pub failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::UnixStream;
    use rustix::fd::AsFd;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn waiting_for_a_few_sources_ends_with_an_event_or_the_time() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let read = [(other.as_fd(), Interest::Read)];
        assert_eq!(wait_for(&read, Some(Duration::ZERO)).unwrap(), 0);
        let both = [(other.as_fd(), Interest::Read), (one.as_fd(), Interest::ReadWrite)];
        assert_eq!(wait_for(&both, None).unwrap(), 1, "one can be written to");
        one.write_all(b"x").unwrap();
        assert_eq!(wait_for(&read, None).unwrap(), 1);
    }
}
