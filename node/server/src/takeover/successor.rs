//! The successor in a takeover, as seen by the server that hands over.

use super::channel::{Channel, Wait};
use super::message::{Kind, expect, refused, tag};
use super::{HandedTime, TakeoverError};
use guira_memory::lasting::{HandedRegion, HandedState};
use guira_serving::{Arrival, FieldWriter};
use guira_transport::FDS_AT_ONCE;
use rustix::fd::AsFd;
use std::time::Duration;

/// The timeouts of a successor. Clients wait during both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// For opening a region without items.
    pub(super) opened: Duration,
    /// For starting to serve after COMMIT.
    pub(super) serving: Duration,
}

/// A hanging successor stops all service until the timeout; opening usually takes milliseconds. The
/// timeout after COMMIT is longer, since a failure then loses the items.
const PATIENCE: Patience = Patience { opened: Duration::from_secs(5), serving: Duration::from_secs(10) };
/// For each of this many bytes of items, opening may take a second more.
const BYTES_PER_SECOND: u64 = 4 << 30;
impl Patience {
    /// How long opening a region with this many bytes of items may take.
    fn opening(self, bytes: u64) -> Duration {
        self.opened + Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND)
    }
}

/// The longest wait for a killed process to exit.
const DEATH_MAX: Duration = Duration::from_secs(5);
/// The most bytes of connections in one message. A single connection may have more.
const CONNECTIONS_BYTES: usize = 1 << 20;

/// A process that is ready to take over.
#[derive(Debug)]
pub struct Successor {
    pub(super) channel: Channel,
    /// The build that the successor reported.
    pub(crate) build: String,
    pub(super) patience: Patience,
}

/// The state that a successor receives.
#[derive(Debug)]
pub(crate) struct Leaving<'a> {
    /// Connections, each with its written state.
    pub(crate) connections: &'a [(Arrival, Vec<u8>)],
    pub(crate) region: Option<&'a HandedRegion>,
    pub(crate) time: HandedTime,
}

/// The phase in which a successor has failed.
#[derive(Debug)]
pub(crate) enum Failing {
    /// The successor has stored nothing.
    BeforeCommit(TakeoverError),
    AfterCommit(TakeoverError),
}

impl Failing {
    /// A successor that replies to COMMIT with a refusal gave up before COMMIT arrived, and has not
    /// started to serve.
    fn after_commit(why: TakeoverError) -> Self {
        match why {
            TakeoverError::Refused(_) => Failing::BeforeCommit(why),
            why => Failing::AfterCommit(why),
        }
    }

    pub(crate) fn why(&self) -> &TakeoverError {
        let (Failing::BeforeCommit(why) | Failing::AfterCommit(why)) = self;
        why
    }
}

impl Successor {
    pub(super) fn new(channel: Channel, build: String) -> Self {
        Successor { channel, build, patience: PATIENCE }
    }

    /// The successor's process id, if it is visible to this process.
    pub fn pid(&self) -> Option<i32> {
        self.channel.peer.pid()
    }

    /// Sends everything to the successor, and waits until the successor serves. After an error the
    /// successor is killed, unless it has refused.
    pub(crate) fn give(&mut self, leaving: &Leaving<'_>) -> Result<(), Failing> {
        let result = self.give_and_commit(leaving).map_err(Failing::BeforeCommit);
        let result = result.and_then(|()| {
            let serving = self.channel.receive(Wait::most(self.patience.serving));
            serving.and_then(|it| expect(it, Kind::Serving)).map(|_| ()).map_err(Failing::after_commit)
        });
        if let Err(failing) = &result {
            self.fence(failing.why());
        }
        result
    }

    fn give_and_commit(&mut self, leaving: &Leaving<'_>) -> Result<(), TakeoverError> {
        self.give_connections(leaving.connections)?;
        self.give_region(leaving.region, leaving.connections.len(), leaving.time)?;
        let state = leaving.region.and_then(HandedRegion::state);
        let opened = self.patience.opening(state.map_or(0, |state| state.bytes as u64));
        expect(self.channel.receive(Wait::most(opened))?, Kind::Opened)?;
        self.channel.send(Kind::Commit, &mut FieldWriter::default(), &[])
    }

    pub(super) fn give_region(
        &mut self,
        region: Option<&HandedRegion>,
        connections: usize,
        time: HandedTime,
    ) -> Result<(), TakeoverError> {
        let mut fields = FieldWriter::default();
        let mut files = Vec::new();
        if let Some(region) = region
            && let Some(HandedState { state, notes, bytes }) = region.state()
        {
            fields.put(tag::STATE, state).put(tag::NOTES, notes).put_number(tag::BYTES, *bytes as u64);
            files.push(region.file().as_fd());
        }
        fields.put_number(tag::CONNECTIONS, connections as u64);
        fields.put_number(tag::UNIX_MS, time.unix).put_number(tag::MONOTONIC_MS, time.at);
        self.channel.send(Kind::Region, &mut fields, &files)
    }

    fn give_connections(&mut self, connections: &[(Arrival, Vec<u8>)]) -> Result<(), TakeoverError> {
        let mut rest = connections;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, written): &&(Arrival, Vec<u8>)| {
                bytes += written.len();
                bytes <= CONNECTIONS_BYTES
            };
            let count = rest.iter().take(FDS_AT_ONCE).take_while(fits).count().max(1);
            let (part, after) = rest.split_at(count);
            let mut fields = FieldWriter::default();
            part.iter().for_each(|(_, written)| _ = fields.put(tag::EACH, written));
            let fds: Vec<_> = part.iter().map(|(arrival, _)| arrival.stream.as_fd()).collect();
            self.channel.send(Kind::Connections, &mut fields, &fds)?;
            rest = after;
        }
        Ok(())
    }

    /// Sends the successor the reason of a failed takeover.
    pub(crate) fn refuse(&mut self, why: &TakeoverError) {
        // The successor may have exited.
        let _ = self.channel.send(Kind::Refused, &mut refused(&why.to_string()), &[]);
    }

    /// Kills the successor. A successor that refuses has released everything before its refusal.
    fn fence(&mut self, why: &TakeoverError) {
        if matches!(why, TakeoverError::Refused(_)) {
            return;
        }
        self.refuse(why);
        let is_gone = self.channel.peer.kill().is_ok() && self.channel.peer.wait_until_gone(DEATH_MAX);
        if !is_gone {
            tracing::debug!(pid = self.pid(), "cannot watch the new server process");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_that_hangs_stops_service_for_five_seconds_and_a_large_cache_has_longer() {
        assert_eq!(PATIENCE.opening(0), Duration::from_secs(5));
        assert!(PATIENCE.opening(1 << 30) < Duration::from_secs(6));
        assert_eq!(PATIENCE.opening(64 << 30), Duration::from_secs(21));
    }
}
