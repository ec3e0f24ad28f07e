//! Where the items of a partition lie, and what becomes of them when there is no room: a circular log, whose oldest go ([`crate::Log`]), or
//! segregated fits, where nothing goes and more is refused ([`crate::Fits`]).

use crate::core::Core;
use crate::entry::{Anchor, Entry};
use crate::partition::Partition;
use crate::restart::OffsetSum;
use crate::update::Writer;
use guira_contract::{KEY_MAX, StoreError};
use guira_items::{ClassUsage, Fields};
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;
use guira_sync::words::WORD;
use std::fmt::Debug;
use std::sync::Arc;

/// Numbers that are kept of a space across a restart.
pub(crate) type SavedSpace = [u64; 6];

/// The memory of a partition's items. An item is named by an offset, in words.
#[allow(private_interfaces, reason = "spaces are written in this crate only")]
pub trait Space: Debug + Send + Sync + Sized + 'static {
    /// What a Region begins its state with that was closed with it. Changes with whatever lies in it.
    const FORMAT: [u8; 8];
    /// Whether items go for others. Then the index gives one up where a bucket is full; otherwise it adds a bucket to it.
    const IS_LOSSY: bool;

    /// Fields that every item has. A store can give no item a time, or a cas unique, that has no room for it, and must not lose it for that.
    const FIELDS: Fields;

    /// An empty one of `ring` words, that begins `base` bytes from the start of the Region, with offsets of so many bits.
    fn new(region: Arc<Region>, base: usize, ring: u64, offset_bits: u32) -> Self;

    /// Where the entry at `offset` lies.
    fn at(&self, offset: u64) -> Offset;

    /// Whether the item at `offset`, which the index has named, is still there.
    fn is_live(&self, offset: u64) -> bool;

    /// The same for a reader that does not hold the partition, after it has copied what lies there.
    fn is_still_live(&self, offset: u64) -> bool;

    /// Whether the item at `offset` was flushed, and its room not used since.
    fn is_flushed(&self, offset: u64) -> bool;

    /// Where items lie one after the other: from which offsets on, and for how many words.
    fn runs(&self) -> [(u64, u64); 2];

    /// How many words ago the item at `offset` was stored; 0 where that is not known.
    fn age(&self, offset: u64) -> u64;

    /// Whether items go for others that come.
    fn is_evicting(&self) -> bool;

    /// Whether so much was stored that any item can be in the older half.
    fn has_older_half(&self) -> bool;

    /// Whether the item at `offset` will go before as much has been stored again as was since it was stored itself.
    fn is_in_older_half(&self, offset: u64) -> bool;

    /// How many words of it may be used, from its start.
    fn end(&self) -> u64;

    /// From now on so many words may be used.
    fn set_end(&self, end: u64);

    /// How many words of it have been used, from its start: what is committed.
    fn reached(&self) -> u64;

    /// How many words of it are certain to find room where the Region lies, from its start.
    fn backed(&self) -> u64;

    /// From now on so many words are.
    fn set_backed(&self, words: u64);

    /// Sees to it that [`Space::take`] finds room for `units` words. Items may go for it, and where they were.
    ///
    /// # Errors
    /// If there is none.
    fn find_room(writer: &mut Writer<'_, Self>, units: u64) -> Result<(), StoreError>;

    /// Takes room for `units` words: its offset, and what an item begins with that is put there. It was looked for, and since then at most left.
    fn take(&self, units: u64) -> (u64, Anchor);

    /// The index leads no longer to the entry at `offset`.
    fn leave(writer: &Writer<'_, Self>, offset: u64);

    /// All items are gone.
    fn flush(writer: &mut Writer<'_, Self>);

    /// An item was stored.
    fn after_store(writer: &mut Writer<'_, Self>);

    /// It may use more than before, or less.
    fn end_moved(writer: &mut Writer<'_, Self>, before: u64);

    /// Does a little to give memory back beyond the end. False if there is nothing to do, or to be had.
    fn give_back(writer: &mut Writer<'_, Self>) -> bool;

    /// What is kept across a restart.
    fn saved(&self) -> SavedSpace;

    /// Goes on from there. False if there can be no such space.
    fn restore(&self, saved: SavedSpace) -> bool;

    /// What the items of a partition come to, and where they lie, if all is as it should be. Nobody uses it yet.
    fn recover(core: &Core<Self>, partition: &Partition<Self>, offsets: &mut OffsetSum)
    -> Option<ClassUsage>;
}

/// What the item that begins with `anchor` at `at` comes to, if it can be one.
pub(crate) fn held_of<S>(core: &Core<S>, at: Offset, anchor: Anchor) -> Option<ClassUsage> {
    let entry = Entry::at(core.shell.region(), at, Seconds(0))?;
    let is_sound =
        entry.size() <= anchor.units() * WORD && (1..=KEY_MAX).contains(&entry.key(&mut [0; 256]).len());
    is_sound.then(|| ClassUsage { items: 1, bytes: entry.size() as u64 })
}
