//! Changing the table: a session's edits, with what they count.

use crate::core::Core;
use crate::index::{EditNodes, Growth, ListEditor, Spot, Target};
use guira_contract::{Counter, Key};
use guira_items::{Removal, SessionCounters};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;

/// A session adds its inserts and removals to the table's count in steps of this many items.
const COUNTED_TOGETHER: i64 = 32;

/// Borrows what a session needs to change the table.
#[derive(Debug)]
pub(crate) struct Editor<'s> {
    core: &'s Core,
    list: ListEditor<'s>,
    counters: &'s SessionCounters,
    /// Inserts less removals that the table does not count yet.
    uncounted: &'s mut i64,
}

impl<'s> Editor<'s> {
    #[inline(always)]
    pub(crate) fn new(
        core: &'s Core,
        hazard: &'s Hazard,
        counters: &'s SessionCounters,
        retired: &'s mut Vec<Offset>,
        uncounted: &'s mut i64,
    ) -> Self {
        let list = ListEditor { index: &core.table, shell: &core.shell, hazard, retired };
        Editor { core, list, counters, uncounted }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &'s Core {
        self.core
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &'s SessionCounters {
        self.counters
    }

    /// Adds `more` to the number of items.
    #[inline]
    pub(crate) fn count_items(&mut self, more: i64) {
        *self.uncounted += more;
        if self.uncounted.abs() >= COUNTED_TOGETHER {
            self.core.table.count_items(std::mem::take(self.uncounted));
        }
    }

    /// Finds the place of `target` and shows it to `act`. What is found stays as it is until `act` returns.
    pub(crate) fn at_spot<R>(
        &mut self,
        place: (u64, Target),
        matches: impl Fn(Offset) -> bool,
        act: impl FnOnce(&mut EditNodes<'s, '_>, &Spot<'s>) -> R,
    ) -> R {
        self.list.at_spot(self.counters, place, matches, act)
    }

    /// The same for the item under `key`, which belongs to `bucket`.
    #[inline(always)]
    pub(crate) fn at_key<R>(
        &mut self,
        bucket: u64,
        key: Key<'_>,
        now: Seconds,
        act: impl FnOnce(&mut EditNodes<'s, '_>, &Spot<'s>) -> R,
    ) -> R {
        let core = self.core;
        let matches = |at| core.item(at, now).is_some_and(|item| item.key_is(key.bytes));
        self.at_spot((bucket, Target::Item(key.hash.0)), matches, act)
    }

    /// Removes the item at `at` if it is in the table under this hash: for [`Removal::Dead`] only if it is dead, for [`Removal::Evicted`] only if
    /// no session holds it. True if it was removed. A dead item counts as dead whatever the reason.
    pub(crate) fn remove_at(&mut self, at: Offset, hash: u64, why: Removal, now: Seconds) -> bool {
        let (core, counters) = (self.core, self.counters);
        loop {
            let place = (core.table.bucket_of(hash), Target::Item(hash));
            let removed = self.at_spot(
                place,
                |other| other == at,
                |nodes, spot| {
                    let node = spot.node?;
                    let item = core.item(at, now)?;
                    let is_dead = core.dead(&item, now).is_some();
                    if (why == Removal::Dead && !is_dead)
                        || (why == Removal::Evicted && core.announcements.is_held(&item, nodes.hazard()))
                    {
                        return None;
                    }
                    let removed = spot.remove(nodes, node);
                    if removed {
                        let why = if is_dead { Removal::Dead } else { why };
                        core.account_removed(counters, &item, why, now);
                    } else {
                        counters.add(Counter::SwapsLost, 1);
                    }
                    Some(removed)
                },
            );
            match removed {
                None => return false,
                Some(false) => {}
                Some(true) => {
                    self.count_items(-1);
                    return true;
                }
            }
        }
    }

    /// Adds a bucket if there are too many items.
    pub(crate) fn grow(&mut self) -> Growth {
        self.list.grow(self.counters, self.core.sizing.budget())
    }
}
