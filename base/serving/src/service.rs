//! What a server does with its connections, apart from serving them.

use crate::{Clients, Outbox, RequestHandler};
use guira_transport::{Park, Poll};
use std::io;
use std::time::Duration;

/// What a worker does apart from handling requests of connections: one for each worker, on its thread.
///
/// A worker calls it in rounds:
///
/// ```text
/// before_round, [park, wait, unpark], begin_round,
///   on_event …; for connections that have input, together: run_group, end_turn, or each: begin_turn, run …, end_turn; deliver,
/// end_round
/// ```
///
/// Everything here is called at most once a round or an event.
pub trait Service: RequestHandler {
    /// Registers the service's own sockets with `poll`, by [`service_token`](crate::service_token)s.
    ///
    /// # Errors
    /// What the system says.
    fn listen(&self, _poll: &Poll) -> io::Result<()> {
        Ok(())
    }

    /// Serves what is looked at without a system call.
    fn before_round(&mut self) -> Next {
        Next::Wait
    }

    /// The thread is about to sleep: from now on others wake it up for what they send. Pending if something has come already.
    fn park(&mut self) -> Park {
        Park::Quiet
    }

    fn unpark(&mut self, _woken: Woken) {}

    /// The longest that the thread may sleep; without limit if there is none.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// The thread has waited: looks at the time, and at what may have changed meanwhile.
    fn begin_round(&mut self);

    /// Something has happened to the socket with this [`service_token`](crate::service_token).
    fn on_event(&mut self, _number: u32, _round: &mut Round<'_, Self>) {}

    /// Deals with what other threads have sent. True if there was something.
    fn deliver(&mut self, _round: &mut Round<'_, Self>) -> bool {
        false
    }

    /// All connections have had their turns: sends what was gathered, and does what is due. True if there is more to do.
    fn end_round(&mut self, _round: &mut Round<'_, Self>) -> bool {
        false
    }

    /// The server stops, and the worker has no connections any more. Called once.
    fn finish(&mut self) {}

    /// Whether, after that, no other worker needs this one.
    fn is_finished(&self) -> bool {
        true
    }
}

/// The parts of a worker that a service works with between turns.
#[derive(Debug)]
pub struct Round<'w, S: RequestHandler> {
    pub clients: &'w mut Clients<S>,
    /// Empty, and to be left so.
    pub outbox: &'w mut Outbox<S::Pin>,
    /// Whether nothing had happened when the round began.
    pub is_idle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Again,
    /// A round, without waiting.
    LookAround,
    /// A round, after waiting if there is nothing else to do.
    Wait,
}

/// Why a thread is awake again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    ByEvent,
    ByTime,
}
