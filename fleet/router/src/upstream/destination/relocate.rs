//! A server that has moved to another address, or that has left the configuration.

use super::{Destination, Outcome};
use crate::upstream::Server;
use crate::upstream::meter::{ServerCount, State};
use guira_routing::Origin;
use guira_transport::{Poll, Token};
use guira_upstream::AddressChange;
use std::io;

/// When a connection is closed that its server has left, after its last reply.
const AT_ONCE_MS: u64 = 1;

impl Destination {
    /// The name of the server was looked up again. If the server no longer has the address of the
    /// present connection, new requests use another connection. The present one is returned if
    /// replies are outstanding on it: they still count, but its failures say nothing about the
    /// server.
    pub(crate) fn relocate(&mut self, poll: &Poll, now_ms: u64) -> Option<Destination> {
        if self.link.refresh_addresses() == AddressChange::None {
            return None;
        }
        self.tally.add(ServerCount::Moves, 1);
        self.health.probe_now(now_ms);
        if !self.link.is_up() {
            self.link.close(poll);
            return None;
        }
        let leaving = if self.pipeline.is_empty() {
            let failed = self.disconnect(poll, Outcome::RemoteError);
            debug_assert!(failed.is_empty(), "no request is outstanding");
            None
        } else {
            Some(self.leave())
        };
        self.tally.set_state(State::Closed);
        leaving
    }

    /// The same server, without a connection and without requests.
    fn renewed(&self) -> Destination {
        Destination {
            link: self.link.renewed(),
            pipeline: self.pipeline.renewed(),
            health: self.health.renewed(),
            lessor: self.lessor.renewed(),
            tally: self.tally.renewed(),
            ..*self
        }
    }

    pub(crate) fn is_of(&self, server: &Server) -> bool {
        self.health.is_of(&server.health)
    }

    /// The server has left the configuration, and no client waits for a reply: only its counts
    /// remain.
    pub(crate) fn retire(&mut self, poll: &Poll) {
        let failed = self.disconnect(poll, Outcome::RemoteError);
        debug_assert!(failed.iter().all(|request| request.origin == Origin::NoClient), "no client waits");
        *self = self.renewed();
        self.tally.set_state(State::Closed);
        self.tally.show_outstanding(&self.pipeline);
    }

    /// Splits the present connection off, with its requests.
    fn leave(&mut self) -> Destination {
        let mut fresh = self.renewed();
        fresh.health.take_probes(&mut self.health);
        let mut leaving = std::mem::replace(self, fresh);
        self.tally.show_outstanding(&self.pipeline);
        leaving.pipeline.detach();
        leaving.tally = leaving.tally.detached(leaving.pipeline.len());
        leaving.health = leaving.health.detached();
        leaving.inactive_ms = AT_ONCE_MS;
        leaving
    }

    /// Registers the socket under another token.
    pub(crate) fn set_token(&self, poll: &Poll, token: Token) -> io::Result<()> {
        self.link.set_token(poll, token)
    }

    /// Whether nothing is left of a connection that was split off by [`Self::relocate`].
    pub(crate) fn is_over(&self) -> bool {
        self.link.is_closed() && self.pipeline.is_empty()
    }

    /// Adds the counts of a connection that was split off.
    pub(crate) fn absorb(&self, leaving: &Destination) {
        self.tally.absorb(&leaving.tally);
    }
}

#[cfg(test)]
mod tests {
    use super::Destination;
    use crate::upstream::laws::{destination, receive};
    use guira_routing::{Op, Origin, Request};

    #[test]
    fn the_timeouts_of_flushed_requests_stay_when_their_connection_leaves_the_server() {
        let mut server = destination();
        let push = |server: &mut Destination, key: &[u8], now_ms| {
            server.push(&Request::classic(Op::Get, key), None, Origin::NoClient, now_ms);
        };
        push(&mut server, b"a", 1);
        push(&mut server, b"b", 1);
        server.pipeline.begin_flush(2_000);
        server.pretend_to_send();
        receive(&mut server, b"END\r\n", || usize::MAX, |_, _, _| {});
        assert!(server.pipeline.is_empty());
        push(&mut server, b"c", 3);
        server.pipeline.begin_flush(4_000);
        let mut leaving = server.leave();
        push(&mut leaving, b"d", 5);
        leaving.pipeline.begin_flush(6_000);
        assert_eq!(leaving.pipeline.timeouts_began().collect::<Vec<_>>(), [4, 6]);
        push(&mut server, b"e", 7);
        server.pipeline.begin_flush(8_000);
        assert_eq!(server.pipeline.timeouts_began().collect::<Vec<_>>(), [8]);
    }
}
