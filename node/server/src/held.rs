//! The engine of a server, of whatever type, apart from its use: closed, handed over, or served again.

use crate::errors::StartError;
use crate::kept_policy;
use crate::node::{Running, Starting, start_with};
use crate::saved_counters;
use crate::shared::Shared;
use guira_contract::{CloseError, Control, Engine, NotHandedOver, Opening};
use guira_memory::lasting::HandedRegion;
use guira_roster::RegionPlace;
use std::time::Duration;

/// How long background tasks are waited for when the server stops, once connections are closed.
pub(crate) const BACKGROUND_WAIT: Duration = Duration::from_secs(5);

/// An engine of any type.
pub(crate) trait Held: Send {
    /// Closes it after its last use.
    fn close(self: Box<Self>, shared: &Shared) -> Result<(), CloseError>;
    /// Closes it for a successor; if that cannot be done, it comes back as it was.
    fn hand_over(self: Box<Self>, shared: &Shared) -> Result<HandedRegion, (Box<dyn Held>, CloseError)>;
    /// Serves it again, after `shared` has. `found` is the region that it has, and what was found there at the start. If that fails, it is
    /// closed.
    fn serve(
        self: Box<Self>,
        starting: Starting<'_>,
        found: Option<(RegionPlace, Opening)>,
        shared: &Shared,
    ) -> Result<Running, StartError>;
}

/// What the server itself keeps beside the items.
fn notes(shared: &Shared, control: &impl Control) -> Vec<u8> {
    [saved_counters::write(shared), kept_policy::write(shared, control)].concat()
}

impl<E: Engine + Clone> Held for E {
    fn close(self: Box<Self>, shared: &Shared) -> Result<(), CloseError> {
        let notes = notes(shared, &*self);
        Engine::close(*self, shared.clock.now(), &notes)
    }

    fn hand_over(self: Box<Self>, shared: &Shared) -> Result<HandedRegion, (Box<dyn Held>, CloseError)> {
        let notes = notes(shared, &*self);
        let handed = Engine::hand_over(*self, shared.clock.now(), &notes);
        handed.map_err(|NotHandedOver { engine, why }| (Box::new(engine) as Box<dyn Held>, why))
    }

    fn serve(
        self: Box<Self>,
        mut starting: Starting<'_>,
        found: Option<(RegionPlace, Opening)>,
        shared: &Shared,
    ) -> Result<Running, StartError> {
        let notes = notes(shared, &*self);
        let opening = found.as_ref().map(|(_, opening)| opening.clone());
        match start_with(&mut starting, &*self, &notes, opening, shared.clock.clone()) {
            Ok(running) => Ok(running.with_region(found)),
            Err(error) => {
                if let Some((place, _)) = found {
                    close_unserved(self, shared, &place);
                }
                Err(error)
            }
        }
    }
}

/// Closes the engine of a server that could not go on, so that the next start finds its items.
pub(crate) fn close_unserved(held: Box<dyn Held>, shared: &Shared, place: &RegionPlace) {
    shared.wait_for_background(BACKGROUND_WAIT);
    log_closed(place, held.close(shared));
}

/// Tells what becomes of the items in the region of a server that could not go on.
pub(crate) fn log_closed(place: &RegionPlace, closed: Result<(), impl std::fmt::Display>) {
    match closed {
        Ok(()) => {
            // Operator: Nothing: the server that could not start has lost no items.
            tracing::warn!("closed region {place}; the next start restores its items");
        }
        // Operator: The cache starts empty: expect load on the database.
        Err(error) => tracing::error!("lost the items in region {place}: {error}"),
    }
}
