//! Follows the deletes to learn which of them all caches have received.

use std::sync::Arc;
use std::time::Duration;

use crate::programs::TARGET;
use crate::rows::{Door, Rows, key};
use crate::world::World;

/// The interval of checks, and the pause at the end of the log.
const LOOK: Duration = Duration::from_millis(50);
const REST: Duration = Duration::from_millis(200);

impl World {
    /// Whether all deletes before this place of the log have reached the caches.
    fn has_delivered(&self, place: u64) -> bool {
        let acknowledged = match &self.progress {
            Some(progress) => progress.has_delivered(TARGET, place),
            None => self.followed.has_reached(place),
        };
        acknowledged && !self.owes_deletes()
    }
}

/// Updates the position that all caches have reached, until the region stops.
pub(crate) fn follow(world: &Arc<World>) {
    let (mut door, sight) = (Door::of(&world.rows), &world.truth.sight);
    while world.stop.check().is_ok() {
        let (calms, versions) = (sight.calms(), world.truth.history.versions());
        let Ok(place) = door.place() else { continue };
        while !world.has_delivered(place) {
            if world.stop.wait(LOOK).is_err() {
                return;
            }
        }
        sight.arrived(&versions, calms, world.truth.history.now());
        world.followed.end_round();
        let _ = world.stop.wait(REST);
    }
}

/// Deletes the changed rows of this process's table, as an invalidator does for the log of a
/// database.
pub(crate) fn invalidate(world: &Arc<World>) {
    let Rows::Table(table) = &world.rows else { return };
    let mut place = 0;
    while world.stop.wait(LOOK).is_ok() {
        for row in table.changed_since(place) {
            while !world.deleter.delete(&[&key(row)]) {
                if world.stop.wait(LOOK).is_err() {
                    return;
                }
            }
            place += 1;
            world.followed.reach(place as u64);
        }
    }
}
