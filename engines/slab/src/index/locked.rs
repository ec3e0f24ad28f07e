//! The buckets of one key, locked.

use super::scheme::{Neighbour, Scheme};
use super::table::Table;
use guira_memory::{Offset, Region};
use guira_sync::version::Locked;

/// An entry that was found under its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<L> {
    pub(super) at: L,
    pub(crate) item: Offset,
}

/// The counters of a key's buckets in two tables.
pub(super) const IN_TWO_TABLES: usize = 4;

/// The buckets of one key, locked by up to `N` counters: by all of them, or by that of the bucket that has the key's entry,
/// so that operations on one key are in one order (F2 of docs/develop/concurrency.md).
#[derive(Debug)]
pub(crate) struct LockedBuckets<'a, S: Scheme, const N: usize = IN_TWO_TABLES> {
    region: &'a Region,
    pub(super) locked: Locked<'a, N>,
    pub(super) table: Table<S>,
    pub(super) place: S::Place,
    pub(super) next: Option<(Table<S>, S::Place)>,
}

impl<'a, S: Scheme, const N: usize> LockedBuckets<'a, S, N> {
    #[inline(always)]
    pub(super) fn new(
        region: &'a Region,
        locked: Locked<'a, N>,
        (table, place): (Table<S>, S::Place),
        next: Option<(Table<S>, S::Place)>,
    ) -> Self {
        LockedBuckets { region, locked, table, place, next }
    }

    /// The entry whose item `look` recognises, and what it makes of it.
    #[inline(always)]
    pub(crate) fn find<R>(&self, mut look: impl FnMut(Offset) -> Option<R>) -> Option<(Found<S::At>, R)> {
        let mut find_in = |table, place| {
            let look = |item| look(item).map(|result| (item, result));
            let (at, (item, result)) = S::find(self.region, table, place, || true, look)?;
            Some((Found { at, item }, result))
        };
        find_in(self.table, self.place).or_else(|| self.next.and_then(|(table, place)| find_in(table, place)))
    }

    /// Whether `found` is an entry of the older table. It lies in the key's own buckets.
    pub(super) fn find_old(&self, found: Found<S::At>) -> bool {
        let look = |item| (item == found.item).then_some(());
        let entry = S::find(self.region, self.table, self.place, || true, look);
        entry.is_some_and(|(at, ())| at == found.at)
    }

    /// The table that new entries go to, and the key's place in it.
    #[inline(always)]
    fn target(&self) -> (Table<S>, S::Place) {
        self.next.unwrap_or((self.table, self.place))
    }

    /// Lets an entry lead to `item`.
    #[inline(always)]
    pub(crate) fn replace(&self, found: Found<S::At>, item: Offset) {
        S::replace(self.region, found.at, found.item, item);
    }

    pub(crate) fn remove(&self, found: Found<S::At>) {
        S::remove(self.region, found.at, found.item);
    }

    /// Adds an entry for `item`. False if there is no room.
    pub(crate) fn insert(&self, item: Offset) -> bool {
        let (table, place) = self.target();
        S::insert(self.region, table, place, item)
    }

    /// Whether there is room for an entry.
    pub(crate) fn has_room(&self) -> bool {
        let (table, place) = self.target();
        S::has_room(self.region, table, place)
    }

    /// The entries that are in the way of one that finds no room.
    pub(crate) fn neighbours(&self) -> Vec<Neighbour<S::At>> {
        let (table, place) = self.target();
        S::neighbours(self.region, table, place)
    }

    /// Removes the entry of another key under the counter of its slot alone, the exception of F2.
    pub(crate) fn remove_neighbour(&self, neighbour: &Neighbour<S::At>) {
        S::remove(self.region, neighbour.at, neighbour.item);
    }

    /// Whether the counter of the bucket of `found` is held.
    #[inline(always)]
    pub(crate) fn covers(&self, found: Found<S::At>) -> bool {
        self.locked.covers(S::bucket_of(self.place, found.at))
    }

    /// The same, with room for `M` counters.
    pub(crate) fn among<const M: usize>(self) -> LockedBuckets<'a, S, M> {
        let LockedBuckets { region, locked, table, place, next } = self;
        LockedBuckets { region, locked: locked.among(), table, place, next }
    }

    /// Unlocks without a new version: nothing was changed.
    pub(crate) fn release_unchanged(self) {
        self.locked.release_unchanged();
    }
}
