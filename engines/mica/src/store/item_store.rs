//! The interface of a store.

use super::holder::{Holder, Relocated};
use crate::entry::{Anchor, Entry};
use guira_contract::{KEY_MAX, StoreError};
use guira_items::{ClassUsage, Fields};
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;
use guira_sync::words::WORD;
use std::fmt::Debug;
use std::sync::Arc;

/// The state of a store that a restart needs.
pub(crate) type SavedStore = [u64; 6];

/// The memory of a partition's items. An offset, in words, names an item.
#[allow(private_interfaces, private_bounds, reason = "stores are written in this crate only")]
pub trait ItemStore: Debug + Send + Sync + Sized + 'static {
    /// The first bytes of the state of a Region. They change with the layout of anything in it.
    const FORMAT: [u8; 8];
    /// Whether items are evicted.
    const IS_LOSSY: bool;

    /// Fields that every item has. A store cannot give an item a time, or a cas unique, without a field for it, and must not lose the item for that.
    const FIELDS: Fields;

    /// An empty store of `ring` words that begins `base` bytes from the start of the Region, with offsets of `offset_bits` bits.
    fn new(region: Arc<Region>, base: usize, ring: u64, offset_bits: u32) -> Self;

    /// Where the entry at `offset` lies.
    fn at(&self, offset: u64) -> Offset;

    /// Whether the item at `offset`, found in the index, is still there.
    fn is_live(&self, offset: u64) -> bool;

    /// The same for a reader that does not hold the partition, after it has copied the item.
    fn is_still_live(&self, offset: u64) -> bool;

    /// Whether the item at `offset` was flushed, and its room not reused since.
    fn is_flushed(&self, offset: u64) -> bool;

    /// Where entries lie one after the other: first offset and length in words.
    fn runs(&self) -> [(u64, u64); 2];

    /// How many words ago the item at `offset` was stored; 0 if that is not known.
    fn age(&self, offset: u64) -> u64;

    fn is_evicting(&self) -> bool;

    /// Whether there is an older half yet.
    fn has_older_half(&self) -> bool;

    /// Whether the item at `offset` will be evicted before as much is stored as was stored since the item was.
    fn is_in_older_half(&self, offset: u64) -> bool;

    /// How many words may be used, from the start.
    fn end(&self) -> u64;

    /// Sets the number of words that may be used.
    fn set_end(&self, end: u64);

    /// How many words were ever used, from the start: they are committed.
    fn reached(&self) -> u64;

    /// How many words are backed, from the start.
    fn backed(&self) -> u64;

    /// Notes how many words are backed.
    fn set_backed(&self, words: u64);

    /// Finds room for `units` words for [`ItemStore::take`]. Items may be evicted, or move. If that evicts the item at `replaced`, which is about to be
    /// replaced, it counts as replaced, and `replaced` becomes `None`.
    ///
    /// # Errors
    /// If there is none.
    fn find_room(
        &self,
        holder: &mut impl Holder,
        units: u64,
        replaced: &mut Option<u64>,
    ) -> Result<(), StoreError>;

    /// Takes the room that was found for `units` words: its offset, and the anchor of an item there. Since it was found, items may at most have left.
    fn take(&self, units: u64) -> (u64, Anchor);

    /// Frees the entry at `offset`: the index does not lead to it any more.
    fn leave(&self, offset: u64, is_pinned: impl Fn(u64) -> bool);

    fn flush(&self, holder: &mut impl Holder);

    fn after_store(&self, holder: &mut impl Holder);

    /// Follows up a move of the end from `before`.
    fn end_moved(&self, holder: &mut impl Holder, before: u64);

    /// Does a step to give memory beyond the end back. `relocate` moves some items from there, `discard` gives the memory back. False if there is nothing to do,
    /// or it cannot be done.
    fn give_back<H: Holder>(
        &self,
        holder: &mut H,
        relocate: impl FnMut(&mut H) -> Relocated,
        discard: impl FnOnce(&mut H) -> bool,
    ) -> bool;

    /// The state that a restart needs.
    fn saved(&self) -> SavedStore;

    /// Restores the state. False if there can be no such store.
    fn restore(&self, saved: SavedStore) -> bool;

    /// Frees what was kept for values that were being sent. None is any more.
    fn settle(&self) {}

    /// What a process that continues at once needs beside [`ItemStore::saved`], instead of looking at all entries. The store is settled.
    fn handed(&self) -> Vec<u64>;

    /// Continues with what [`ItemStore::handed`] has returned; the rest was restored. False if there can be no such store.
    fn go_on(&self, handed: &[u64]) -> bool;

    /// Checks all entries, of a store of at most `ring` words that is not in use yet, and adds the offsets of items to `offsets`. `None` if there can be no such
    /// entries.
    fn recover(&self, ring: u64, offsets: &mut OffsetSum) -> Option<ClassUsage>;
}

/// The usage of the item with `anchor` at `at`; `None` if there can be no such item.
pub(super) fn usage_of(region: &Region, at: Offset, anchor: Anchor) -> Option<ClassUsage> {
    let entry = Entry::at(region, at, Seconds(0))?;
    let is_sound =
        entry.size() <= anchor.units() * WORD && (1..=KEY_MAX).contains(&entry.key(&mut [0; 256]).len());
    is_sound.then(|| ClassUsage { items: 1, bytes: entry.size() as u64 })
}

/// A sum over offsets that does not depend on their order, and is hardly ever the same for others: their number and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetSum {
    count: u64,
    sum: u64,
}

impl OffsetSum {
    pub(crate) fn add(&mut self, offset: u64) {
        let mixed = (offset + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.count += 1;
        self.sum = self.sum.wrapping_add((mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93));
    }
}
