//! Finding the entry of a key, and locking its buckets.

use super::grow::Growth;
use super::locked::{Found, LockedBuckets};
use super::scheme::{First, Scheme, SearchLimits};
use super::table::{Ahead, Table};
use guira_contract::KeyHash;
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Backoff, Ordering};
use guira_sync::lock::Mutex;
use guira_sync::version::{Stripe, Version, Versions};
use std::hint::select_unpredictable;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Index<S> {
    pub(super) region: Arc<Region>,
    pub(super) versions: Versions,
    /// Where the two ranges of the Region begin that tables lie in, turn by turn; in buckets.
    pub(super) arenas: [usize; 2],
    /// The most buckets that fit in an arena.
    pub(super) buckets_max: u32,
    /// The system commits memory in steps of this many bytes.
    pub(super) commit_step: usize,
    pub(super) layout: AtomicU64,
    /// Buckets of the tables in both arenas while the layout says that there are two.
    pub(super) sizes: [AtomicU32; 2],
    pub(super) limits: SearchLimits,
    /// Growth has no step to do: set under the growth lock by a thread that has found none, cleared under it before the
    /// layout says that there are two tables.
    pub(super) rests: AtomicBool,
    /// LOCK: growth. Held by one thread while it does a step, during which it takes version stripes; never taken
    /// while one is held.
    pub(super) growth: Mutex<Growth<S>>,
}

/// Which tables there are, in one word:
///
/// ```text
///  63        34   33        32      31        0
/// | generation | growing | arena | buckets     |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout(pub(super) u64);

impl Layout {
    pub(super) const ARENA: u64 = 1 << 32;
    pub(super) const GROWING: u64 = 1 << 33;
    pub(super) const GENERATION: u64 = 1 << 34;

    #[inline(always)]
    pub(super) fn arena(self) -> usize {
        usize::from(self.0 & Self::ARENA != 0)
    }

    #[inline(always)]
    pub(super) fn growing(self) -> bool {
        self.0 & Self::GROWING != 0
    }

    #[inline(always)]
    pub(super) fn buckets(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn stable(buckets: u32, arena: usize, generation: u64) -> Self {
        Layout(u64::from(buckets) | (arena as u64 * Self::ARENA) | (generation & !(Self::GENERATION - 1)))
    }
}

/// What the first look at a key's buckets came to. It is worth something once [`Index::confirms`] says so.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The first item that has the key's tag; place 0 if none has.
    item: Offset,
    /// The counters of the key's buckets, first that of the bucket with the entry of `item`.
    seen: [(Stripe, Version); 2],
    layout: u64,
}

/// Where no item is.
const NO_ITEM: Offset = Offset::from_bytes(0);

impl Guess {
    /// No layout is this one.
    const NO_LAYOUT: u64 = u64::MAX;

    #[inline(always)]
    pub(crate) fn item(self) -> Option<Offset> {
        (self.item != NO_ITEM).then_some(self.item)
    }

    /// How many searches were in vain if this was not confirmed: none while the table grows, since that was known.
    pub(crate) fn retries(self) -> u64 {
        u64::from(self.layout != Self::NO_LAYOUT)
    }
}

impl Default for Guess {
    /// One that is never confirmed.
    fn default() -> Self {
        Guess { item: NO_ITEM, seen: Default::default(), layout: Self::NO_LAYOUT }
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

impl<S: Scheme> Index<S> {
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
        let arenas = arenas.map(|bytes| bytes / S::BUCKET_BYTES);
        Index {
            region,
            versions: Versions::new(stripes),
            arenas,
            buckets_max,
            commit_step,
            layout: AtomicU64::new(Layout::stable(buckets, 0, 0).0),
            sizes: Default::default(),
            limits,
            rests: AtomicBool::new(false),
            growth: Mutex::new(Growth::new(Ahead::of(Table::new(arenas[0], buckets)))),
        }
    }

    #[inline(always)]
    pub(super) fn layout(&self) -> Layout {
        // Acquire: pairs with the Release in `grow`: who knows of a table sees it empty, or filled.
        Layout(self.layout.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(super) fn current(&self, layout: Layout) -> Table<S> {
        Table::new(self.arenas[layout.arena()], layout.buckets())
    }

    #[inline(always)]
    pub(super) fn next(&self, layout: Layout) -> Option<Table<S>> {
        // Relaxed: stored before the layout says that there are two, and not again before it says that there is one.
        let buckets = |arena: usize| self.sizes[arena].load(Ordering::Relaxed);
        let arena = 1 - layout.arena();
        layout.growing().then(|| Table::new(self.arenas[arena], buckets(arena)))
    }

    /// Slots in the table, or in the next one while it grows.
    pub(crate) fn slots(&self) -> u64 {
        let layout = self.layout();
        let table = self.next(layout).unwrap_or(self.current(layout));
        Self::slots_of(table.buckets)
    }

    /// Entries that make a table of `buckets` buckets full.
    pub(crate) fn slots_of(buckets: u32) -> u64 {
        u64::from(buckets) * S::FULL_TEN / 10
    }

    /// How many buckets a table needs that `entries` entries fill to `percent` of what makes it full.
    pub(crate) fn buckets_for(entries: u64, percent: u64) -> u64 {
        (u128::from(entries) * 1000 / u128::from(percent * S::FULL_TEN)) as u64
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> usize {
        let layout = self.layout();
        let next = self.next(layout).map_or(0, |table| Table::<S>::bytes(table.buckets));
        Table::<S>::bytes(layout.buckets()) + next
    }

    /// Bytes that the system commits for a table of `buckets` buckets.
    pub(crate) fn committed(&self, buckets: u32) -> usize {
        Table::<S>::bytes(buckets).next_multiple_of(self.commit_step)
    }

    pub(crate) fn is_growing(&self) -> bool {
        self.layout().growing()
    }

    /// Prefetches the buckets of a key.
    #[inline(always)]
    pub(crate) fn prefetch_buckets(&self, hash: KeyHash) {
        let table = self.current(self.layout());
        let [first, second] = S::buckets(S::place(table, hash));
        self.region.prefetch(table.address(first));
        if second != first {
            self.region.prefetch(table.address(second));
        }
    }

    /// Finds the first item that has the key's tag: the right one, nearly always. Takes the versions of the key's
    /// buckets before it looks (F3 of docs/develop/concurrency.md).
    #[inline(always)]
    pub(crate) fn guess(&self, hash: KeyHash) -> Guess {
        let layout = self.layout();
        let table = self.current(layout);
        let place = S::place(table, hash);
        let Some([first, second]) = self.begin(place) else {
            return Guess::default();
        };
        let (item, which) = match S::first(&self.region, table, place) {
            First::Item(item, which) => (item, which),
            First::Nothing => (NO_ITEM, 0),
            First::Unknown => return Guess::default(),
        };
        // No branch, which would be mispredicted half the time.
        let seen = select_unpredictable(which == 0, [first, second], [second, first]);
        Guess { item, seen, layout: if layout.growing() { Guess::NO_LAYOUT } else { layout.0 } }
    }

    /// Whether the key's buckets have not changed since `guess` was made, so that a read of its item, or a miss, is
    /// valid (F3 of docs/develop/concurrency.md).
    #[inline(always)]
    pub(crate) fn confirms(&self, guess: &Guess) -> bool {
        Versions::validate();
        self.same(guess.seen) && self.layout.load(Ordering::Relaxed) == guess.layout
    }

    /// One search of the only table. `None` if a change made it invalid (F3 of docs/develop/concurrency.md).
    fn attempt<V: Visitor>(&self, hash: KeyHash, visitor: &mut V) -> Option<Option<V::Result>> {
        let layout = self.layout();
        let table = self.current(layout);
        let place = S::place(table, hash);
        let seen = self.begin(place)?;
        let result = self.scan(table, place, seen, visitor);
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

    /// Shows the visitor the items that may have the key, until it takes one. An item may change during the visit: then
    /// the result is undone, and the search repeated.
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
    pub(super) fn begin(&self, place: S::Place) -> Option<[(Stripe, Version); 2]> {
        let stripes = S::buckets(place).map(|bucket| self.versions.stripe(bucket));
        let versions = self.versions.try_begin_both(stripes)?;
        Some([(stripes[0], versions[0]), (stripes[1], versions[1])])
    }

    #[inline(always)]
    pub(super) fn same(&self, seen: [(Stripe, Version); 2]) -> bool {
        self.versions.same(seen[0].0, seen[0].1) && self.versions.same(seen[1].0, seen[1].1)
    }

    /// Shows the visitor the items of all entries that may be the right one.
    fn scan<V: Visitor>(
        &self,
        table: Table<S>,
        place: S::Place,
        seen: [(Stripe, Version); 2],
        visitor: &mut V,
    ) -> Option<V::Result> {
        let stands = || {
            Versions::validate();
            self.same(seen)
        };
        S::find(&self.region, table, place, stands, |item| visitor.visit(item)).map(|(_, result)| result)
    }

    /// A search of both tables, under the versions of all four buckets. `None` if a change made it invalid (F3, case
    /// 5 of docs/develop/concurrency.md).
    fn attempt_both<V: Visitor>(
        &self,
        layout: Layout,
        new: Table<S>,
        hash: KeyHash,
        visitor: &mut V,
    ) -> Option<Option<V::Result>> {
        let old = self.current(layout);
        let (old_place, new_place) = (S::place(old, hash), S::place(new, hash));
        let seen = [self.begin(old_place)?, self.begin(new_place)?];
        let mut result = self.scan(old, old_place, seen[0], visitor);
        if result.is_none() {
            result = self.scan(new, new_place, seen[1], visitor);
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
    pub(crate) fn lock(&self, hash: KeyHash) -> LockedBuckets<'_, S> {
        loop {
            let layout = self.layout();
            let table = self.current(layout);
            let place = S::place(table, hash);
            let next = self.next(layout).map(|next| (next, S::place(next, hash)));
            let both = |place| S::buckets(place).map(|bucket| self.versions.stripe(bucket));
            let locked = match next {
                None => self.versions.lock(both(place)).among(),
                Some((_, next)) => {
                    let ([first, second], [third, fourth]) = (both(place), both(next));
                    self.versions.lock([first, second, third, fourth])
                }
            };
            if self.layout() == layout {
                return LockedBuckets::new(&self.region, locked, (table, place), next);
            }
            locked.release_unchanged();
        }
    }

    /// The same as [`Index::lock`], if there is one table; `None` while it grows.
    #[inline(always)]
    pub(crate) fn lock_in_one_table(&self, hash: KeyHash) -> Option<LockedBuckets<'_, S, 2>> {
        let layout = self.layout();
        if layout.growing() {
            return None;
        }
        let table = self.current(layout);
        let place = S::place(table, hash);
        let locked = self.versions.lock(S::buckets(place).map(|bucket| self.versions.stripe(bucket)));
        if self.layout() != layout {
            locked.release_unchanged();
            return None;
        }
        Some(LockedBuckets::new(&self.region, locked, (table, place), None))
    }

    /// Locks only the bucket with the entry that `guess` has found. `None` if it has found none, or the table grows. The
    /// holder may replace or remove the key's entry if [`LockedBuckets::covers`] it, and add none (F2 of
    /// docs/develop/concurrency.md).
    #[inline(always)]
    pub(crate) fn lock_entry(&self, hash: KeyHash, guess: &Guess) -> Option<LockedBuckets<'_, S, 1>> {
        let layout = self.layout();
        // While the table grows a guess has no layout.
        if guess.item == NO_ITEM || guess.layout != layout.0 {
            return None;
        }
        self.lock_bucket(hash, layout, guess.seen[0].0)
    }

    /// Locks only the bucket with the entry that leads to `item`. `None` if there is none, or the table grows. The holder
    /// may replace or remove this entry, and add none.
    pub(crate) fn lock_entry_of(
        &self,
        hash: KeyHash,
        item: Offset,
    ) -> Option<(LockedBuckets<'_, S, 1>, Found<S::At>)> {
        let layout = self.layout();
        if layout.growing() {
            return None;
        }
        let (table, is_it) = (self.current(layout), |other| (other == item).then_some(()));
        let place = S::place(table, hash);
        // Nothing is locked: a chain that leads in circles ends the search.
        let (at, ()) = S::find(&self.region, table, place, || false, is_it)?;
        let held = self.lock_bucket(hash, layout, self.versions.stripe(S::bucket_of(place, at)))?;
        match held.find(is_it) {
            Some((found, ())) if held.covers(found) => Some((held, found)),
            _ => {
                held.release_unchanged();
                None
            }
        }
    }

    #[inline(always)]
    fn lock_bucket(&self, hash: KeyHash, layout: Layout, stripe: Stripe) -> Option<LockedBuckets<'_, S, 1>> {
        let table = self.current(layout);
        let place = S::place(table, hash);
        let locked = self.versions.lock([stripe]);
        if self.layout() != layout {
            locked.release_unchanged();
            return None;
        }
        Some(LockedBuckets::new(&self.region, locked, (table, place), None))
    }

    /// Makes room for a key in one of its buckets by moving entries to their other buckets. Returns how many were moved, or `None`
    /// if no path was found.
    pub(crate) fn make_room(&self, hash: KeyHash) -> Option<u64> {
        let layout = self.layout();
        let table = self.next(layout).unwrap_or(self.current(layout));
        let place = S::place(table, hash);
        S::make_room((&self.region, &self.versions, self.limits), table, place)
    }
}
