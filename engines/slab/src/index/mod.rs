//! Optimistic concurrent cuckoo hashing (MemC3, section 3).
//!
//! # Concurrency
//! Every bucket is covered by a version counter ([`guira_sync::version`]). A reader takes the versions of its key's two
//! buckets, searches them and whatever items their slots lead to, and believes what it saw if neither version has
//! changed. A writer holds the counters of all buckets of the key it works on; nothing about a key, neither its
//! slot nor its item, changes under anybody else.
//!
//! An insert into two full buckets first searches a *cuckoo path* without locks ([`path`]), then moves entries along it
//! backwards, one at a time, each under the counters of the two buckets that it concerns. A path that is
//! out of date when a step comes is given up and searched anew.
//!
//! # Growth
//! While the table grows there are two tables ([`Layout::next`]), and a key's counters are those of its buckets in
//! both. Readers look into the old one first; writers store into the new one only; a migrator moves the entries of the old table
//! bucket by bucket. It starts when every thread knows of the new table, and the old one's memory is given
//! back when every thread has forgotten it: see [`grow`].

mod bucket;
mod grow;
mod path;
#[cfg(feature = "probe")]
mod probe;
mod table;

pub use bucket::SLOTS;
use bucket::{BUCKET_BYTES, SECOND_AT, Slots};
pub(crate) use bucket::{Bucket, Entry};
pub(crate) use grow::{Growth, GrowthStep, Items, SavedIndex};
pub use path::SearchLimits;
#[cfg(feature = "probe")]
pub use probe::{IndexProbe, Touched};
pub(crate) use table::Table;

use guira_contract::KeyHash;
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU32, AtomicU64, Backoff, Ordering};
use guira_sync::version::{Locked, Stripe, Version, Versions};
use std::sync::{Arc, Mutex};
use table::Place;

/// The index of an engine.
#[derive(Debug)]
pub struct Cuckoo {
    region: Arc<Region>,
    versions: Versions,
    /// Where the two ranges of the Region begin that tables lie in, turn by turn; in cache lines.
    arenas: [usize; 2],
    /// The most buckets that fit in an arena.
    buckets_max: u32,
    /// The system commits memory in steps of so many bytes.
    commit_step: usize,
    /// See [`Layout`].
    layout: AtomicU64,
    /// Buckets of the next table while the layout says that there is one.
    next_buckets: AtomicU32,
    limits: SearchLimits,
    /// LOCK: growth. Held by one thread while it does a step, during which it takes version stripes; never taken
    /// while one is held.
    growth: Mutex<Growth>,
}

/// Which tables there are, in one word:
///
/// ```text
///  63        34   33        32      31        0
/// | generation | growing | arena | buckets     |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout(u64);

impl Layout {
    const ARENA: u64 = 1 << 32;
    const GROWING: u64 = 1 << 33;
    const GENERATION: u64 = 1 << 34;

    #[inline(always)]
    fn arena(self) -> usize {
        usize::from(self.0 & Self::ARENA != 0)
    }

    #[inline(always)]
    fn growing(self) -> bool {
        self.0 & Self::GROWING != 0
    }

    #[inline(always)]
    fn buckets(self) -> u32 {
        self.0 as u32
    }

    fn stable(buckets: u32, arena: usize, generation: u64) -> Self {
        Layout(u64::from(buckets) | (arena as u64 * Self::ARENA) | (generation & !(Self::GENERATION - 1)))
    }
}

/// Which slot of which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotAt {
    pub(crate) table: Table,
    pub(crate) bucket: u32,
    pub(crate) slot: usize,
}

/// What the first look at a key's buckets came to. It is worth something once [`Cuckoo::confirms`] says so.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The first item that has the key's tag; place 0 if none has.
    item: Offset,
    seen: [(Stripe, Version); 2],
    layout: u64,
}

impl Guess {
    /// No layout is this one.
    const NO_LAYOUT: u64 = u64::MAX;

    #[inline(always)]
    pub(crate) fn item(self) -> Option<Offset> {
        (self.item.bytes() != 0).then_some(self.item)
    }

    /// How many searches were in vain if this was not confirmed: none while the table grows, since that was known.
    pub(crate) fn retries(self) -> u64 {
        u64::from(self.layout != Self::NO_LAYOUT)
    }
}

impl Default for Guess {
    /// One that is never confirmed.
    fn default() -> Self {
        Guess { item: Offset::from_bytes(0), seen: Default::default(), layout: Self::NO_LAYOUT }
    }
}

/// Who looks at the items that a search comes by.
pub(crate) trait Visitor {
    /// What it takes from the item that it looks for.
    type Result;
    /// Looks at the item at `at`, which may be any item with the tag, or no item any more.
    fn visit(&mut self, at: Offset) -> Option<Self::Result>;
    /// What was taken is worth nothing.
    fn undo(&mut self, result: Self::Result);
    /// The search has to be repeated.
    fn repeats(&mut self);
}

/// The buckets of one key, locked.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    index: &'a Cuckoo,
    locked: Locked<'a>,
    table: Table,
    place: Place,
    next: Option<(Table, Place)>,
}

impl Cuckoo {
    /// An index in the two arenas at bytes `arenas`, each with room for `buckets_max` buckets, that starts with `buckets`. The
    /// first arena is zero, or holds a table of that size.
    pub(crate) fn new(
        region: Arc<Region>,
        arenas: [usize; 2],
        (buckets, buckets_max): (u32, u32),
        commit_step: usize,
        stripes: usize,
        limits: SearchLimits,
    ) -> Self {
        Cuckoo {
            region,
            versions: Versions::new(stripes),
            arenas: arenas.map(|bytes| bytes / BUCKET_BYTES),
            buckets_max,
            commit_step,
            layout: AtomicU64::new(Layout::stable(buckets, 0, 0).0),
            next_buckets: AtomicU32::new(0),
            limits,
            growth: Mutex::new(Growth::default()),
        }
    }

    #[inline(always)]
    fn layout(&self) -> Layout {
        // Acquire: pairs with the Release in `grow`: who knows of a table sees it empty, or filled.
        Layout(self.layout.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn current(&self, layout: Layout) -> Table {
        Table { base: self.arenas[layout.arena()], buckets: layout.buckets() }
    }

    #[inline(always)]
    fn next(&self, layout: Layout) -> Option<Table> {
        layout.growing().then(|| Table {
            base: self.arenas[1 - layout.arena()],
            buckets: self.next_buckets.load(Ordering::Relaxed),
        })
    }

    /// Slots in the table, or in the next one while it grows.
    pub(crate) fn slots(&self) -> u64 {
        let layout = self.layout();
        let table = self.next(layout).unwrap_or(self.current(layout));
        u64::from(table.buckets) * SLOTS as u64
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> usize {
        let layout = self.layout();
        let next = self.next(layout).map_or(0, |table| Table::bytes(table.buckets));
        Table::bytes(layout.buckets()) + next
    }

    /// Bytes that the system commits for a table of `buckets` buckets.
    pub(crate) fn committed(&self, buckets: u32) -> usize {
        Table::bytes(buckets).next_multiple_of(self.commit_step)
    }

    /// Whether there are two tables.
    pub(crate) fn is_growing(&self) -> bool {
        self.layout().growing()
    }

    /// Asks for the buckets of a key.
    #[inline(always)]
    pub(crate) fn prefetch_buckets(&self, hash: KeyHash) {
        let table = self.current(self.layout());
        let place = table.place(hash);
        self.region.prefetch(table.address(place.first));
        self.region.prefetch(table.address(place.second));
    }

    /// The buckets of a place, and the slots in them whose tags have the right low byte. Both buckets are looked at before
    /// anything depends on which of them it is: that is a coin's toss, and a branch on it would be mispredicted half the
    /// time, just when the processor could go on to the next lookup.
    #[inline(always)]
    fn likely(&self, table: Table, place: Place) -> ([Bucket<'_>; 2], Slots) {
        let buckets = [table.bucket(&self.region, place.first), table.bucket(&self.region, place.second)];
        (buckets, buckets[0].with_low_in_both(buckets[1], place.tag as u8))
    }

    /// Finds the first item that has the key's tag: the right one, nearly always.
    #[inline(always)]
    pub(crate) fn guess(&self, hash: KeyHash) -> Guess {
        let layout = self.layout();
        let table = self.current(layout);
        let place = table.place(hash);
        let Some(seen) = self.begin(place) else {
            return Guess::default();
        };
        let (buckets, mut slots) = self.likely(table, place);
        let found = next_with_tag(&buckets, &mut slots, place.tag);
        Guess {
            item: found.map_or(Offset::from_bytes(0), |(bucket, slot)| bucket.item(slot)),
            seen,
            layout: if layout.growing() { Guess::NO_LAYOUT } else { layout.0 },
        }
    }

    /// Whether what was read since `guess` was made, of its item or of the absence of one, is what was there all that time.
    #[inline(always)]
    pub(crate) fn confirms(&self, guess: &Guess) -> bool {
        Versions::validate();
        self.same(guess.seen) && self.layout.load(Ordering::Relaxed) == guess.layout
    }

    /// One search of the only table. `None` if it is worth nothing.
    fn attempt<V: Visitor>(&self, hash: KeyHash, visitor: &mut V) -> Option<Option<V::Result>> {
        let layout = self.layout();
        let table = self.current(layout);
        let place = table.place(hash);
        let seen = self.begin(place)?;
        let result = self.scan(table, place, visitor);
        Versions::validate();
        let valid = self.same(seen) && self.layout.load(Ordering::Relaxed) == layout.0;
        if valid && (result.is_some() || !layout.growing()) {
            return Some(result);
        }
        if let Some(result) = result {
            visitor.undo(result);
        }
        None
    }

    /// Shows the visitor the items that a key may be, until it takes one. What it is shown may change under its eyes:
    /// if it did, what it took is taken back and the search begins anew.
    pub(crate) fn search<V: Visitor>(&self, hash: KeyHash, visitor: &mut V) -> Option<V::Result> {
        let mut backoff = Backoff::default();
        loop {
            let layout = self.layout();
            let searched = match self.next(layout) {
                Some(next) => self.attempt_both(layout, next, hash, visitor),
                None => self.attempt(hash, visitor),
            };
            if let Some(result) = searched {
                return result;
            }
            visitor.repeats();
            backoff.wait();
        }
    }

    #[inline(always)]
    fn begin(&self, place: Place) -> Option<[(Stripe, Version); 2]> {
        let stripes = [self.versions.stripe(place.first), self.versions.stripe(place.second)];
        let versions = self.versions.try_begin_both(stripes)?;
        Some([(stripes[0], versions[0]), (stripes[1], versions[1])])
    }

    #[inline(always)]
    fn same(&self, seen: [(Stripe, Version); 2]) -> bool {
        self.versions.same(seen[0].0, seen[0].1) && self.versions.same(seen[1].0, seen[1].1)
    }

    /// Shows the visitor the items behind all slots with the right tag.
    fn scan<V: Visitor>(&self, table: Table, place: Place, visitor: &mut V) -> Option<V::Result> {
        let (buckets, mut slots) = self.likely(table, place);
        loop {
            let (bucket, slot) = next_with_tag(&buckets, &mut slots, place.tag)?;
            if let Some(result) = visitor.visit(bucket.item(slot)) {
                return Some(result);
            }
        }
    }

    /// A search of both tables, under the versions of all four buckets. `None` if it is worth nothing.
    fn attempt_both<V: Visitor>(
        &self,
        layout: Layout,
        new: Table,
        hash: KeyHash,
        visitor: &mut V,
    ) -> Option<Option<V::Result>> {
        let old = self.current(layout);
        let (old_place, new_place) = (old.place(hash), new.place(hash));
        let seen = [self.begin(old_place)?, self.begin(new_place)?];
        let mut result = self.scan(old, old_place, visitor);
        if result.is_none() {
            result = self.scan(new, new_place, visitor);
        }
        Versions::validate();
        if self.same(seen[0]) && self.same(seen[1]) && self.layout.load(Ordering::Relaxed) == layout.0 {
            return Some(result);
        }
        if let Some(result) = result {
            visitor.undo(result);
        }
        None
    }

    /// Locks the buckets of a key, in both tables if there are two.
    pub(crate) fn lock(&self, hash: KeyHash) -> Held<'_> {
        loop {
            let layout = self.layout();
            let table = self.current(layout);
            let place = table.place(hash);
            let next = self.next(layout).map(|next| (next, next.place(hash)));
            let both = |place: Place| [self.versions.stripe(place.first), self.versions.stripe(place.second)];
            let locked = match next {
                None => self.versions.lock(both(place)),
                Some((_, next)) => {
                    let ([first, second], [third, fourth]) = (both(place), both(next));
                    self.versions.lock([first, second, third, fourth])
                }
            };
            if self.layout() == layout {
                return Held { index: self, locked, table, place, next };
            }
            locked.release_unchanged();
        }
    }

    /// Makes room for a key in one of its buckets by moving entries to their other buckets. Returns how many were moved, or `None`
    /// if no path was found.
    pub(crate) fn make_room(&self, hash: KeyHash) -> Option<u64> {
        let layout = self.layout();
        let table = self.next(layout).unwrap_or(self.current(layout));
        let place = table.place(hash);
        let path = path::search(&self.region, table, place, self.limits)?;
        Some(path::execute(self, table, &path))
    }
}

/// Takes from `slots` up to the next that has the whole tag.
#[inline(always)]
fn next_with_tag<'a>(buckets: &[Bucket<'a>; 2], slots: &mut Slots, tag: u16) -> Option<(Bucket<'a>, usize)> {
    loop {
        let slot = slots.next()?;
        let (bucket, slot) = (buckets[slot / SECOND_AT], slot % SECOND_AT);
        if bucket.has_more(slot, tag) {
            return Some((bucket, slot));
        }
    }
}

impl<'a> Held<'a> {
    /// The slot whose item `look` recognises, and what it makes of it.
    #[inline(always)]
    pub(crate) fn find<R>(&self, mut look: impl FnMut(Offset) -> Option<R>) -> Option<(SlotAt, R)> {
        self.find_in(self.table, self.place, &mut look)
            .or_else(|| self.next.and_then(|(table, place)| self.find_in(table, place, &mut look)))
    }

    #[inline(always)]
    fn find_in<R>(
        &self,
        table: Table,
        place: Place,
        look: &mut impl FnMut(Offset) -> Option<R>,
    ) -> Option<(SlotAt, R)> {
        let (buckets, slots) = self.index.likely(table, place);
        for slot in slots {
            let (which, slot) = (slot / SECOND_AT, slot % SECOND_AT);
            if buckets[which].has_more(slot, place.tag)
                && let Some(result) = look(buckets[which].item(slot))
            {
                let bucket = if which == 0 { place.first } else { place.second };
                return Some((SlotAt { table, bucket, slot }, result));
            }
        }
        None
    }

    fn bucket(&self, at: SlotAt) -> Bucket<'a> {
        at.table.bucket(&self.index.region, at.bucket)
    }

    /// The table that new entries go to, and the key's place in it.
    fn target(&self) -> (Table, Place) {
        self.next.unwrap_or((self.table, self.place))
    }

    /// Replaces what `at` holds.
    pub(crate) fn replace(&self, at: SlotAt, item: Offset) {
        self.bucket(at).lead_to(at.slot, item);
    }

    /// Empties `at`.
    pub(crate) fn remove(&self, at: SlotAt) {
        self.bucket(at).clear(at.slot);
    }

    /// Puts `item` into a free slot, of the emptier bucket. False if both are full.
    pub(crate) fn insert(&self, item: Offset) -> bool {
        let (table, place) = self.target();
        let first = table.bucket(&self.index.region, place.first);
        let second = table.bucket(&self.index.region, place.second);
        let (free_first, free_second) = (first.free(), second.free());
        let (bucket, free) = if free_second.count() > free_first.count() {
            (second, free_second)
        } else {
            (first, free_first)
        };
        let Some(slot) = free.first() else {
            return false;
        };
        bucket.put(slot, Entry { tag: place.tag, item });
        true
    }

    /// Whether one of the buckets that new entries go to has a free slot.
    pub(crate) fn has_room(&self) -> bool {
        let (table, place) = self.target();
        let first = table.bucket(&self.index.region, place.first);
        first.with_low_in_both(table.bucket(&self.index.region, place.second), 0).count() > 0
    }

    /// All entries of the two buckets that new entries go to.
    pub(crate) fn candidates(&self) -> Vec<(SlotAt, Entry)> {
        let (table, place) = self.target();
        let mut all = Vec::new();
        for bucket in [place.first, place.second] {
            let words = table.bucket(&self.index.region, bucket);
            all.extend(
                (0..SLOTS).filter_map(|slot| Some((SlotAt { table, bucket, slot }, words.entry(slot)?))),
            );
        }
        all
    }

    /// The key's tag.
    pub(crate) fn tag(&self) -> u16 {
        self.place.tag
    }

    /// Unlocks without a new version: nothing was changed.
    pub(crate) fn release_unchanged(self) {
        self.locked.release_unchanged();
    }
}
