//! What a store asks of the session that holds its partition.

use crate::entry::Entry;
use crate::index::Index;
use guira_items::Removal;
use guira_sync::clock::Seconds;

/// The session that holds the partition.
pub(crate) trait Holder {
    fn now(&self) -> Seconds;

    fn index(&self) -> &Index;

    /// Whether the value of the item at `offset` is being sent.
    fn is_pinned(&self, offset: u64) -> bool;

    /// Whether an item has expired or was flushed.
    fn is_dead(&self, entry: &Entry<'_>) -> bool;

    fn has_pins(&self) -> bool;

    /// Backs the first `words` words of the store, and some more. If there is no memory the store ends until further notice where it has come: false.
    fn back(&mut self, words: u64) -> bool;

    /// Counts an item that the index does not lead to any more.
    fn account_removed(&self, entry: &Entry<'_>, why: Removal);

    /// Counts an entry that the head has passed.
    fn count_passed(&self);

    /// Removes expired items from the next `count` buckets. False if there were none.
    fn remove_some_dead(&mut self, count: u64) -> bool;
}

/// How far the items beyond the end have been moved to before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relocated {
    Some,
    All,
    /// One finds no room.
    Stuck,
}
