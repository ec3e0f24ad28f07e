//! A running server lets go, and goes on if its successor fails.

use super::handed::Incoming;
use super::{Bringing, Failing, Leaving, Successor, TakeoverError};
use crate::counters::ServerCount;
use crate::node::{Held, Running, StartError, StopError, prepare};
use crate::shared::Shared;
use guira_memory::lasting::HandedRegion;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Stopwatch;
use guira_transport::Inherited;
use std::sync::Arc;
use std::time::Duration;

/// How long connections are waited for that cannot go over as they are: all others wait as well.
const STRAGGLERS: Duration = Duration::from_millis(50);
/// The same for lists of items that are being sent.
const LISTS: Duration = Duration::from_millis(500);

/// How a server has not been taken over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// It serves again.
    #[error(transparent)]
    Back(TakeoverError),
    /// It does not serve any more.
    #[error("the server cannot go on after a takeover has failed")]
    Ended(#[from] StartError),
    /// It has failed before anybody could take over.
    #[error(transparent)]
    Stopped(#[from] StopError),
}

/// What is left of the engine of a server that lets go.
enum Left {
    /// The region, for a successor.
    Region(Arc<HandedRegion>),
    /// All of it: it has no region, or is in use.
    Engine(Box<dyn Held>),
}

impl Running {
    /// Lets `successor` take over. Clients wait meanwhile. If it fails, this server goes on, which is then returned with the reason.
    ///
    /// # Errors
    /// If nobody serves any more.
    pub fn hand_over(
        self,
        mut successor: Successor,
    ) -> Result<Option<(Running, TakeoverError)>, HandOverError> {
        let Running { crew, admin, shared, held, door, found, again, .. } = self;
        let (pid, build) = (successor.pid(), successor.build.clone());
        tracing::info!(pid, build, "a successor takes over");
        // Its clients ask the successor again. It uses the engine, which is about to be let go.
        admin.map_or(Ok(()), |(_, crew)| crew.end(STRAGGLERS)).map_err(StopError::from)?;
        let before = shared.connections.current.load(Ordering::Relaxed);
        let started = Stopwatch::start();
        let arrivals = crew.hand_over(STRAGGLERS).map_err(StopError::from)?;
        let stopped = started.elapsed();
        let is_idle = wait_for_lists(&shared);
        let left = match &found {
            Some(_) if is_idle => {
                let region = held.hand_over(&shared).map_err(StopError::from)?;
                Left::Region(Arc::new(region.ok_or(StopError::Panicked)?))
            }
            _ => Left::Engine(held),
        };
        let settled = started.elapsed();
        let now = shared.clock.now();
        let connections: Vec<_> = arrivals
            .into_iter()
            .map(|arrival| {
                let written = arrival.write(&shared, now);
                (arrival, written)
            })
            .collect();
        let region = match &left {
            Left::Region(region) => Some(&**region),
            Left::Engine(_) => None,
        };
        let result = if is_idle {
            successor.give(&Leaving { connections: &connections, region })
        } else {
            successor.refuse(&TakeoverError::Busy);
            Err(Failing::BeforeCommit(TakeoverError::Busy))
        };
        let mut sockets = door.map(|door| door.sockets).unwrap_or_default();
        match result {
            Ok(()) => {
                sockets.disown_files();
                let micros = |time: Duration| time.as_micros() as u64;
                tracing::info!(
                    pid,
                    connections = connections.len(),
                    closed = before.saturating_sub(connections.len() as u64),
                    us = micros(started.elapsed()),
                    us_workers = micros(stopped),
                    us_region = micros(settled - stopped),
                    "the successor has taken over"
                );
                Ok(None)
            }
            Err(failing) => {
                // The successor may have executed what they had sent, or answered a part of it: they are closed, as the items are dropped.
                let back = if matches!(failing, Failing::BeforeCommit(_)) { connections } else { Vec::new() };
                let incoming = back.into_iter().map(|(arrival, _)| Incoming::Back(arrival)).collect();
                let mut running = go_on(again, sockets, incoming, left, &failing, &shared)?;
                running.found = running.found.or(found);
                let (Failing::BeforeCommit(why) | Failing::AfterCommit(why)) = failing;
                tracing::warn!(pid, us = started.elapsed().as_micros() as u64, "this server goes on: {why}");
                Ok(Some((running, why)))
            }
        }
    }

    /// Where successors ask, if they may.
    pub fn door(&self) -> Option<&super::Door> {
        self.door.as_ref()
    }
}

/// Waits until nothing works on items any more. False if something still does.
fn wait_for_lists(shared: &Shared) -> bool {
    let started = Stopwatch::start();
    while shared.background_tasks.load(Ordering::SeqCst) > 0 {
        if started.elapsed() >= LISTS {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Starts the server again, with everything that was to go to a successor.
fn go_on(
    (options, secrets): (crate::Options, crate::Secrets),
    mut sockets: super::Sockets,
    incoming: Vec<Incoming>,
    left: Left,
    failing: &Failing,
    shared: &Shared,
) -> Result<Running, StartError> {
    let streams = std::mem::take(&mut sockets.managed_streams).into_iter().map(Inherited::Stream);
    let datagrams = std::mem::take(&mut sockets.managed_datagrams).into_iter().map(Inherited::Datagram);
    let inherited = streams.chain(datagrams).collect();
    let prepared = prepare(&options, secrets, inherited, sockets)?;
    let running = match (left, failing) {
        (Left::Region(region), Failing::BeforeCommit(_)) => {
            prepared.open(Bringing::back(incoming, Some(region)))
        }
        (Left::Region(region), Failing::AfterCommit(_)) => {
            let spoilt = Arc::new(region.spoilt());
            drop(region);
            prepared.open(Bringing::back(incoming, Some(spoilt)))
        }
        (Left::Engine(held), Failing::BeforeCommit(_)) => {
            prepared.serve(held, shared, Bringing::back(incoming, None))
        }
        // What it holds may be older than what the successor has told clients.
        (Left::Engine(held), Failing::AfterCommit(_)) => {
            drop(held);
            prepared.open(Bringing::back(incoming, None))
        }
    }?;
    running.shared.hub.counters.add(ServerCount::TakeoversFailed, 1);
    Ok(running)
}
