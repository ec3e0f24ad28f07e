//! A running server hands over to a successor, and resumes if the successor fails.

use super::handed::Incoming;
use super::{Bringing, Failing, HandedTime, Leaving, Successor, TakeoverError};
use crate::counters::ServerCount;
use crate::errors::StartError;
use crate::parts::Parts;
use crate::start::{Held, Prepared, Running, StartOptions, close_unserved, log_closed, prepare};
use guira_contract::Opening;
use guira_memory::lasting::HandedRegion;
use guira_roster::RegionPlace;
use guira_serving::{Arrival, WorkerError};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Stopwatch;
use guira_transport::Inherited;
use std::sync::Arc;
use std::time::Duration;

/// The wait for connections that cannot be handed over in their state: all other connections wait
/// too.
const STRAGGLERS: Duration = Duration::from_millis(50);
/// The wait for lists of items that are being sent.
const LISTS: Duration = Duration::from_millis(500);

/// The reason that no server serves after a failed takeover. The contents of the region are kept,
/// unless the log says otherwise.
#[derive(Debug, thiserror::Error)]
#[error("cannot resume serving after a failed takeover")]
pub struct HandOverError(#[from] StartError);

/// The rest of the engine of a server that hands over.
enum Left {
    /// The region, for a successor.
    Region(Arc<HandedRegion>),
    /// The whole engine: it has no region, or is in use.
    Engine(Box<dyn Held>),
    /// The whole engine, with items that may be wrong.
    Spoilt(Box<dyn Held>),
}

impl Left {
    /// Closes a region that no server resumes with.
    fn close(self, found: Option<&(RegionPlace, Opening)>, parts: &Parts) {
        let Some((place, _)) = found else { return };
        match self {
            Left::Region(region) => log_closed(place, region.close()),
            Left::Engine(held) => close_unserved(held, parts, place),
            // Operator: The cache starts empty: expect load on the database.
            Left::Spoilt(_) => tracing::error!("lost the items in region {place}"),
        }
    }
}

impl Running {
    /// Hands over to `successor`, while clients wait. If the successor fails, this server resumes,
    /// and is returned with the reason.
    ///
    /// # Errors
    /// If no server serves any more.
    pub fn hand_over(
        self,
        mut successor: Successor,
    ) -> Result<Option<(Running, TakeoverError)>, HandOverError> {
        let Running { crew, admin, parts, held, door, found, again, .. } = self;
        let (pid, build) = (successor.pid(), successor.build.clone());
        tracing::info!(pid, build, "a new server is taking over");
        // The listener uses the engine, which is closed next; its clients try the successor again.
        if let Some(Err(error)) = admin.map(|(_, crew)| crew.end(STRAGGLERS)) {
            // Operator: Check the admin address. Metrics are missing until a restart.
            tracing::error!("admin listener: {error}");
        }
        let before = parts.host.connections.current.load(Ordering::Relaxed);
        let micros = |time: Duration| time.as_micros() as u64;
        let started = Stopwatch::start();
        let (arrivals, ended) = crew.hand_over(STRAGGLERS);
        let stopped = started.elapsed();
        let (left, refusal) = let_go(held, found.is_some(), ended, &parts);
        let settled = started.elapsed();
        let now = parts.clock.now();
        let written = |arrival: Arrival| {
            let written = arrival.write(&parts.host, now);
            (arrival, written)
        };
        let connections: Vec<_> = arrivals.into_iter().map(written).collect();
        let region = match &left {
            Left::Region(region) => Some(&**region),
            Left::Engine(_) | Left::Spoilt(_) => None,
        };
        let time = HandedTime::of(&parts.clock);
        let leaving = Leaving { connections: &connections, region, time };
        let result = match refusal {
            None => successor.give(&leaving),
            Some(why) => {
                successor.refuse(&why);
                Err(Failing::BeforeCommit(why))
            }
        };
        let mut sockets = door.map(|door| door.sockets).unwrap_or_default();
        match result {
            Ok(()) => {
                sockets.disown_files();
                tracing::info!(
                    pid,
                    connections = connections.len(),
                    closed = before.saturating_sub(connections.len() as u64),
                    us = micros(started.elapsed()),
                    us_workers = micros(stopped),
                    us_region = micros(settled - stopped),
                    "the new server took over"
                );
                Ok(None)
            }
            Err(failing) => {
                // After COMMIT the successor may have executed requests: connections are closed.
                let back = if matches!(failing, Failing::BeforeCommit(_)) { connections } else { Vec::new() };
                let incoming = back.into_iter().map(|(arrival, _)| Incoming::Back(arrival)).collect();
                let running = go_on(again, sockets, incoming, left.after(&failing), found, &parts)?;
                running.parts.statistics.server().add(ServerCount::TakeoversFailed, 1);
                let (Failing::BeforeCommit(why) | Failing::AfterCommit(why)) = failing;
                // Operator: The message has the reason; correct it and start the new server again.
                tracing::warn!(
                    pid,
                    us = micros(started.elapsed()),
                    "the takeover failed; this server keeps serving: {why}"
                );
                Ok(Some((running, why)))
            }
        }
    }

    /// The socket for successors, if a takeover is allowed.
    pub fn door(&self) -> Option<&super::Door> {
        self.door.as_ref()
    }
}

/// Closes the engine for a successor once the workers have ended; also returns the reason if there
/// can be none.
fn let_go(
    held: Box<dyn Held>,
    has_region: bool,
    ended: Result<(), WorkerError>,
    parts: &Parts,
) -> (Left, Option<TakeoverError>) {
    let is_quiet = parts.background.wait(LISTS);
    match ended {
        Ok(()) => {}
        // The worker may have panicked in the middle of a change.
        Err(WorkerError::Panicked) if has_region => {
            return (Left::Spoilt(held), Some(TakeoverError::Panicked));
        }
        Err(WorkerError::Panicked) => return (Left::Spoilt(held), None),
        // Changes that had begun were completed: the items are valid.
        // Operator: Nothing: these clients reconnect.
        Err(error) => tracing::error!("closed the connections of a failed takeover: {error}"),
    }
    if !is_quiet {
        return (Left::Engine(held), Some(TakeoverError::Busy));
    }
    if !has_region {
        return (Left::Engine(held), None);
    }
    match held.hand_over(parts) {
        Ok(region) => (Left::Region(Arc::new(region)), None),
        Err((held, why)) => (Left::Engine(held), Some(why.into())),
    }
}

/// Takes back the ports of a server, and everything else that a successor would have got.
fn prepare_again(again: StartOptions, mut sockets: super::Sockets) -> Result<Prepared, StartError> {
    let streams = std::mem::take(&mut sockets.managed_streams).into_iter().map(Inherited::Stream);
    let datagrams = std::mem::take(&mut sockets.managed_datagrams).into_iter().map(Inherited::Datagram);
    let inherited = streams.chain(datagrams).collect();
    prepare(again, inherited, sockets)
}

impl Left {
    /// The rest of the engine after a failed successor: after COMMIT the successor may have stored
    /// values and confirmed them to clients.
    fn after(self, failing: &Failing) -> Self {
        match (self, failing) {
            (left, Failing::BeforeCommit(_)) => left,
            (Left::Region(region), Failing::AfterCommit(_)) => Left::Region(Arc::new(region.spoilt())),
            (Left::Engine(held) | Left::Spoilt(held), Failing::AfterCommit(_)) => Left::Spoilt(held),
        }
    }
}

fn go_on(
    again: StartOptions,
    sockets: super::Sockets,
    incoming: Vec<Incoming>,
    left: Left,
    found: Option<(RegionPlace, Opening)>,
    parts: &Parts,
) -> Result<Running, StartError> {
    let prepared = match prepare_again(again, sockets) {
        Ok(prepared) => prepared,
        Err(error) => {
            left.close(found.as_ref(), parts);
            return Err(error);
        }
    };
    match left {
        Left::Region(region) => {
            let running = prepared.open(Bringing::back(incoming, Some(region.clone()), parts));
            if running.is_err() {
                Left::Region(region).close(found.as_ref(), parts);
            }
            running
        }
        Left::Engine(held) => prepared.serve(held, found, parts, Bringing::back(incoming, None, parts)),
        Left::Spoilt(held) => {
            drop(held);
            prepared.open(Bringing::back(incoming, None, parts))
        }
    }
}

#[cfg(test)]
mod tests;
