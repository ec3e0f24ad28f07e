//! A server that has moved to another address, or that the configuration has no more.

use super::{Destination, Outcome};
use crate::upstream::Server;
use crate::upstream::meter::{Meter, ServerCount, State};
use guira_routing::Origin;
use guira_transport::{Poll, Token};
use guira_upstream::{AddressChange, Intake};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

impl Destination {
    /// Other addresses were looked up. New requests go over a connection to one of them. If the present connection goes to an address that
    /// the server does not have any more, and something is under way on it, it is returned: its replies still count, and it has
    /// no say in whether the server is in service.
    pub(crate) fn relocate(&mut self, poll: &Poll, now_ms: u64) -> Option<Destination> {
        if self.link.refresh_addresses() == AddressChange::None {
            return None;
        }
        self.meter.add(ServerCount::Moves, 1);
        // It may be there, where it was not.
        self.health.probe_now(now_ms);
        if !self.link.is_up() {
            self.link.close(poll);
            return None;
        }
        let leaving = if self.expected.is_empty() {
            let waiting = self.fail(poll, Outcome::RemoteError);
            debug_assert!(waiting.is_empty(), "nothing is under way");
            None
        } else {
            Some(self.leave())
        };
        self.meter.set_state(State::Closed);
        leaving
    }

    /// The same server, whom nothing was asked.
    fn anew(&self) -> Destination {
        Destination {
            link: self.link.renewed(),
            health: self.health.renewed(),
            meter: self.meter.clone(),
            counters: self.counters.clone(),
            wire: Vec::new(),
            expected: VecDeque::new(),
            rest: Intake::default(),
            is_probed: false,
            open: None,
            timed: None,
            sent: 0,
            before: 0,
            dead: 0,
            given_up: 0,
            flushed: self.pushed(),
            offered: self.pushed(),
            next: super::Next::Reply,
            lessor: self.lessor.anew(),
            ..*self
        }
    }

    /// Whether it is this server.
    pub(crate) fn is_of(&self, server: &Server) -> bool {
        self.health.is_of(&server.health)
    }

    /// The configuration has it no more, and it owes nobody an answer: nothing is left of it but what it has counted, and what it may still say
    /// is not heard.
    pub(crate) fn let_go(&mut self, poll: &Poll) {
        let waiting = self.fail(poll, Outcome::RemoteError);
        debug_assert!(waiting.iter().all(|lost| lost.origin == Origin::Nobody), "no client waits");
        *self = self.anew();
        self.meter.set_state(State::Closed);
        self.show_outstanding();
    }

    /// What is under way, with its connection.
    fn leave(&mut self) -> Destination {
        let mut fresh = self.anew();
        fresh.health.take_probes(&mut self.health);
        let mut leaving = std::mem::replace(self, fresh);
        self.show_outstanding();
        // A meter of its own, which knows of the requests that the server's has counted.
        leaving.meter = Arc::new(Meter::default());
        leaving.meter.add(ServerCount::Requests, leaving.expected.len() as u64);
        leaving.flushed = leaving.pushed();
        leaving.offered = leaving.pushed();
        leaving.timed = None;
        leaving.health = leaving.health.detached();
        leaving.inactive_ms = AT_ONCE_MS;
        leaving
    }

    /// Its socket has another number from now on.
    pub(crate) fn listen_as(&self, poll: &Poll, token: Token) -> io::Result<()> {
        self.link.set_token(poll, token)
    }

    /// Whether nothing is left of one that was [left](Self::relocate).
    pub(crate) fn is_over(&self) -> bool {
        self.link.is_closed() && self.expected.is_empty()
    }

    /// Counts for the server what was answered over the connection that has left it.
    pub(crate) fn absorb(&self, leaving: &Destination) {
        self.meter.absorb(&leaving.meter);
    }
}

/// When a connection is closed whose answers nobody waits for any more.
const AT_ONCE_MS: u64 = 1;

#[cfg(test)]
mod tests {
    use crate::upstream::laws::destination;
    use guira_routing::{Op, Origin, Request};

    #[test]
    fn a_connection_that_leaves_its_server_keeps_the_time_of_what_it_was_offered() {
        let mut server = destination();
        let ask = |server: &mut super::Destination, key: &[u8], now_ms| {
            server.push(&Request::classic(Op::Get, key), None, Origin::Nobody, now_ms);
        };
        ask(&mut server, b"a", 1);
        ask(&mut server, b"b", 1);
        server.begin_waiting(2_000);
        // Both are answered.
        server.expected.clear();
        ask(&mut server, b"c", 3);
        server.begin_waiting(4_000);
        let mut leaving = server.leave();
        ask(&mut leaving, b"d", 5);
        leaving.begin_waiting(6_000);
        let times: Vec<u32> = leaving.expected.iter().map(|request| request.asked_ms).collect();
        assert_eq!(times, [4, 6]);
        ask(&mut server, b"e", 7);
        server.begin_waiting(8_000);
        assert_eq!(server.expected.iter().map(|request| request.asked_ms).collect::<Vec<_>>(), [8]);
    }
}
