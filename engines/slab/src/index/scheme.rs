//! What a scheme has to say.

use super::table::Table;
use guira_contract::KeyHash;
use guira_memory::{Offset, Region};
use guira_sync::version::Versions;
use std::fmt::Debug;

/// What a first look at the entries of a key comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The item, and in which of the two buckets its entry is: 0 or 1.
    Item(Offset, usize),
    /// There is none.
    Nothing,
    /// There are more entries than a first look goes through.
    Unknown,
}

/// An entry that is not the one that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour<L> {
    pub(crate) at: L,
    pub(crate) item: Offset,
    /// Whether it has the tag of the key that was looked for.
    pub(crate) same_tag: bool,
}

/// How far an insert searches for an empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The longest path, in displacements.
    pub depth: u32,
    /// The most buckets to look at: the number of paths followed at once.
    pub paths: u32,
}

impl Default for SearchLimits {
    /// Measured: see docs/develop/decisions/0003-cuckoo-index.md.
    fn default() -> Self {
        SearchLimits { depth: 4, paths: 256 }
    }
}

/// Where the entries of a key lie, and how one is stored, replaced and removed. What is stored is stored under the version counters of
/// the key's buckets; what is loaded may be torn, and the reader validates it.
#[allow(private_interfaces, reason = "schemes are written in this crate only")]
pub trait Scheme: Copy + Debug + Default + Eq + Send + Sync + 'static {
    const NAME: &'static str;
    /// What a Region begins its state with that was closed with it. Changes with whatever lies in it.
    const FORMAT: [u8; 8];
    /// Bytes of a bucket: a power of two.
    const BUCKET_BYTES: usize;
    /// Bytes before each item that belong to the index: a multiple of 8.
    const LINK_BYTES: usize;
    /// A table is full with this many entries in ten buckets.
    const FULL_TEN: u64;
    /// At what part of that, in percent, the table is too crowded to wait …
    const CROWDED_PERCENT: u64;
    /// … and at what part it is as full as it is meant to be.
    const LOAD_PERCENT: u64;
    /// Whether an insert says by itself that the table is full.
    const TELLS_WHEN_FULL: bool;
    /// A bucket's entries are asked for by numbers up to this.
    const CURSORS: usize;

    /// The buckets of a key, and what its entry is known by.
    type Place: Copy + Debug;
    type At: Copy + Debug + Eq;

    /// Where a key with this hash belongs.
    fn place(table: Table<Self>, hash: KeyHash) -> Self::Place;

    /// The buckets of `place`; the same one twice if there is but one.
    fn buckets(place: Self::Place) -> [u32; 2];

    /// The bucket of an entry that was found at `place`.
    fn bucket_of(place: Self::Place, at: Self::At) -> u32;

    /// The item of the first entry that may be the right one.
    fn first(region: &Region, table: Table<Self>, place: Self::Place) -> First;

    /// Shows `look` the items of all entries that may be the right one, until it takes one. `stands` says whether what was read so far was
    /// not changed meanwhile; a search that would not end without it asks now and then.
    fn find<R>(
        region: &Region,
        table: Table<Self>,
        place: Self::Place,
        stands: impl Fn() -> bool,
        look: impl FnMut(Offset) -> Option<R>,
    ) -> Option<(Self::At, R)>;

    /// Lets the entry at `at`, which leads to `old`, lead to `item`.
    fn replace(region: &Region, at: Self::At, old: Offset, item: Offset);

    /// Removes the entry at `at`, which leads to `item`.
    fn remove(region: &Region, at: Self::At, item: Offset);

    /// Adds an entry for `item`. False if there is no room.
    fn insert(region: &Region, table: Table<Self>, place: Self::Place, item: Offset) -> bool;

    /// Whether an entry could be added.
    fn has_room(region: &Region, table: Table<Self>, place: Self::Place) -> bool;

    /// Makes room for an entry by moving others, each under the counters of the buckets that it concerns. Returns how many were moved, 0 if
    /// another session changed the same entries and the caller has to look again; `None` if that does not help.
    fn make_room(
        index: (&Region, &Versions, SearchLimits),
        table: Table<Self>,
        place: Self::Place,
    ) -> Option<u64>;

    /// The entries that are in the way of one that finds no room.
    fn neighbours(region: &Region, table: Table<Self>, place: Self::Place) -> Vec<Neighbour<Self::At>>;

    /// The entry of `bucket` that has the number `cursor`.
    fn entry(region: &Region, table: Table<Self>, bucket: u32, cursor: usize) -> Option<(Self::At, Offset)>;

    /// Asks for what [`Scheme::all_of`] will look at in `bucket` after `steps` things that were asked for before, beyond the bucket.
    fn prefetch_all_of(_region: &Region, _table: Table<Self>, _bucket: u32, _steps: u32) {}

    /// Shows `look` all items of `bucket`, until it says no. True if it has not.
    fn all_of(region: &Region, table: Table<Self>, bucket: u32, look: impl FnMut(Offset) -> bool) -> bool;
}
