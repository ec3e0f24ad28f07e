//! Growing the table while it is in use, or making it smaller: that is the same, into a table with fewer buckets.
//!
//! ```text
//! Idle --begin--> Preparing --memory is there--> Announced --everybody knows--> Moving --all moved--> Forgetting --all forgot, memory given back--> Idle
//! ```
//!
//! - *Preparing*: nobody knows of the new table, whose memory a thread commits that no request waits for ([`super::ahead`]). Where there is no
//!   such thread, or a table is needed at once, there is no such phase.
//! - *Announced*: the layout names two tables, but a thread in the middle of a batch may still know of one only, and
//!   insert into it. Nothing is moved before every thread has passed a quiescent point.
//! - *Moving*: from now on no session inserts into the old table. Its entries are moved bucket by bucket, each under the
//!   counters of all four buckets of its key, so that a reader finds it in one table or the other.
//! - *Forgetting*: the layout names the new table only. The memory of the old one is given back once no session can
//!   be reading it any more.
//!
//! There is no edge from Moving back to Idle: growth that has begun to move ends in the new table. But it can turn back: then the
//! old table becomes the new one, which is *Announced* like any other, and what has been moved moves back. A table that becomes smaller does
//! so when memory has been made larger again meanwhile.

use super::locked::{Found, LockedBuckets};
use super::lookup::{Index, Layout};
use super::scheme::Scheme;
use super::table::{Ahead, Table};
use guira_contract::KeyHash;
use guira_memory::Offset;
use guira_sync::atomic::Ordering;
use guira_sync::quiescence::{Quiescence, Ticket};
use guira_sync::waits::Waits;

/// Where growth is. Kept behind a lock that is never waited for.
#[derive(Debug)]
pub(crate) struct Growth<S> {
    pub(super) phase: Phase<S>,
    grown: u64,
    /// The table that is being committed ahead, and how far.
    pub(super) ahead: Option<Ahead<S>>,
    /// Whether a thread is at it.
    pub(super) is_touching: bool,
}

impl<S> Growth<S> {
    /// Nothing grows. `first` is to be committed ahead.
    pub(super) fn new(first: Ahead<S>) -> Self {
        Growth { phase: Phase::Idle, grown: 0, ahead: Some(first), is_touching: false }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Phase<S> {
    Idle,
    /// The next table has this many buckets, and is being committed.
    Preparing(u32),
    Announced(Ticket),
    Moving {
        bucket: u32,
    },
    Forgetting {
        ticket: Ticket,
        old: Table<S>,
        discarded: usize,
    },
}

/// What a step of growth came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrowthStep {
    /// There is nothing to do.
    Idle,
    /// Somebody else is at it, or has to pass a quiescent point first.
    Waiting,
    Moved,
    /// So many bytes of the old table were given back.
    Discarded(usize),
}

/// Who commits the next table's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    Unaided,
    /// A thread of its own, beside them: it is needed at once.
    AtOnce,
    /// A thread of its own, before the table is used.
    WhenCommitted,
}

/// What became of an entry that was to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// It is in the new table, or gone.
    Done,
    /// It changed meanwhile, or room had to be made for it.
    Again,
    /// There is no place for it, and it must not be lost.
    NoPlace,
}

/// Who knows the items that the entries stand for.
pub(crate) trait MovedItems {
    /// The hash of the key of the item at `at`, or `None` if there is no item.
    fn hash_of(&self, at: Offset) -> Option<KeyHash>;
    /// Whether an item may be lost for want of a place. If not, growth waits until there is one.
    fn may_lose(&self) -> bool;
    /// There is no place for the item at `at` in the new table, and its entry is gone.
    fn lost(&mut self, at: Offset);
}

/// What has to be known to go on with a table that lies in the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedIndex {
    pub(crate) layout: u64,
    /// Buckets of the table that entries move into, or 0.
    pub(crate) next_buckets: u32,
    /// The bucket whose entries move next.
    pub(crate) moving: u32,
    pub(crate) grown: u64,
}

/// An entry that could not be moved so often is looked at under the lock of its bucket.
const TRIES: u32 = 1000;

/// A scan of all items prefetches the first item of a bucket this many buckets ahead, and for the following ones when those before have come.
const AHEAD: [u32; 3] = [48, 32, 16];

/// Bytes of an old table that are given back in one step.
const DISCARD_STEP: usize = 2 << 20;

impl<S: Scheme> Index<S> {
    /// How often a writer waited for another.
    pub(crate) fn waits(&self) -> &Waits {
        self.versions.waits()
    }

    pub(crate) fn growths(&self) -> u64 {
        self.lock_growth().grown
    }

    /// Begins to grow to `buckets` buckets, or to shrink. False if that is as many as there are, more than fit, if the table is growing
    /// already, or if there is no room where the Region lies.
    pub(crate) fn begin_growth(&self, buckets: u32, begin: Begin, quiescence: &Quiescence) -> bool {
        let mut growth = self.lock_growth();
        let layout = self.layout();
        if !matches!(growth.phase, Phase::Idle) || buckets == layout.buckets() || buckets > self.buckets_max {
            return false;
        }
        let next = Table::new(self.arenas[1 - layout.arena()], buckets);
        growth.ahead = (begin != Begin::Unaided).then(|| Ahead::of(next));
        if begin == Begin::WhenCommitted {
            growth.phase = Phase::Preparing(buckets);
            return true;
        }
        let is_announced = self.announce(&mut growth, buckets, quiescence);
        if !is_announced {
            growth.ahead = None;
        }
        is_announced
    }

    /// Lets everybody know of the next table, of `buckets` buckets. False if there is no room where the Region lies.
    pub(super) fn announce(&self, growth: &mut Growth<S>, buckets: u32, quiescence: &Quiescence) -> bool {
        let layout = self.layout();
        if !self.back_table(Table::new(self.arenas[1 - layout.arena()], buckets)) {
            return false;
        }
        self.set_sizes(layout, buckets);
        self.rests.store(false, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Index::layout`: who sees two tables sees the size of the second.
        self.layout.store(layout.0 | Layout::GROWING, Ordering::Release);
        growth.phase = Phase::Announced(quiescence.ticket());
        growth.grown += u64::from(buckets > layout.buckets());
        true
    }

    /// Sees to it that there is room for a table. False if there is none.
    fn back_table(&self, table: Table<S>) -> bool {
        self.region.back(table.address(0), self.committed(table.buckets))
    }

    /// Sees to it that there is room for all tables. False if there is none.
    pub(crate) fn back_tables(&self) -> bool {
        let layout = self.layout();
        self.back_table(self.current(layout)) && self.next(layout).is_none_or(|next| self.back_table(next))
    }

    fn set_sizes(&self, layout: Layout, next: u32) {
        self.sizes[layout.arena()].store(layout.buckets(), Ordering::Relaxed);
        self.sizes[1 - layout.arena()].store(next, Ordering::Relaxed);
    }

    /// If the table is becoming smaller, sees to it that it stays as large as it is. False if it is not, or if that is done with.
    pub(crate) fn turn_back(&self, quiescence: &Quiescence) -> bool {
        let mut growth = self.lock_growth();
        let layout = self.layout();
        let Some(smaller) = self.next(layout).filter(|next| next.buckets < layout.buckets()) else {
            return false;
        };
        let back =
            Layout::stable(smaller.buckets, 1 - layout.arena(), layout.0.wrapping_add(Layout::GENERATION));
        self.rests.store(false, Ordering::Relaxed);
        // Release: as in `announce`.
        self.layout.store(back.0 | Layout::GROWING, Ordering::Release);
        growth.ahead = None;
        growth.phase = Phase::Announced(quiescence.ticket());
        true
    }

    pub(crate) fn can_grow(&self) -> bool {
        matches!(self.lock_growth().phase, Phase::Idle)
    }

    /// Bytes of a table that is being left behind, and that were not given back yet.
    pub(crate) fn to_be_discarded(&self) -> usize {
        match self.lock_growth().phase {
            Phase::Idle => 0,
            Phase::Preparing(buckets) => {
                let old = self.layout().buckets();
                if buckets < old { self.committed(old) } else { 0 }
            }
            Phase::Announced(_) | Phase::Moving { .. } => self.committed(self.layout().buckets()),
            Phase::Forgetting { old, discarded, .. } => self.committed(old.buckets) - discarded,
        }
    }

    /// Buckets of the current table, and the most there can be.
    pub(crate) fn buckets(&self) -> (u32, u32) {
        (self.layout().buckets(), self.buckets_max)
    }

    /// Does one step of growth: at most one bucket of entries, or 2 MiB of old memory.
    pub(crate) fn grow_step(&self, quiescence: &Quiescence, items: &mut impl MovedItems) -> GrowthStep {
        // Each worker comes by in each round: it writes to no line for that.
        if self.rests.load(Ordering::Relaxed) {
            return GrowthStep::Idle;
        }
        let Some(mut growth) = self.growth.try_lock() else {
            return GrowthStep::Waiting;
        };
        match growth.phase {
            Phase::Idle | Phase::Preparing(_) => {
                self.rests.store(true, Ordering::Relaxed);
                GrowthStep::Idle
            }
            Phase::Announced(ticket) if !quiescence.passed(ticket) => GrowthStep::Waiting,
            Phase::Announced(_) => {
                growth.phase = Phase::Moving { bucket: 0 };
                GrowthStep::Moved
            }
            Phase::Moving { bucket } => {
                let layout = self.layout();
                let old = self.current(layout);
                if bucket < old.buckets {
                    if !self.move_bucket(old, bucket, items) {
                        return GrowthStep::Waiting;
                    }
                    growth.phase = Phase::Moving { bucket: bucket + 1 };
                } else {
                    let buckets = self.next(layout).map_or(0, |next| next.buckets);
                    let next = Layout::stable(
                        buckets,
                        1 - layout.arena(),
                        layout.0.wrapping_add(Layout::GENERATION),
                    );
                    // Release: pairs with the Acquire in `Index::layout`: who sees the new layout sees the
                    // new table filled.
                    self.layout.store(next.0, Ordering::Release);
                    growth.phase = Phase::Forgetting { ticket: quiescence.ticket(), old, discarded: 0 };
                }
                GrowthStep::Moved
            }
            Phase::Forgetting { ticket, .. } if growth.is_touching || !quiescence.passed(ticket) => {
                GrowthStep::Waiting
            }
            Phase::Forgetting { ticket, old, discarded } => {
                growth.ahead = growth.ahead.filter(|ahead| ahead.table != old);
                let total = self.committed(old.buckets);
                let step = DISCARD_STEP.min(total - discarded);
                // On failure the memory is not given back, but it must read as zero when the arena is used again.
                if self.region.discard(old.address(0) + discarded, step).is_err() {
                    self.erase(old, discarded, step);
                }
                let discarded = discarded + step;
                growth.phase = if discarded == total {
                    Phase::Idle
                } else {
                    Phase::Forgetting { ticket, old, discarded }
                };
                GrowthStep::Discarded(step)
            }
        }
    }

    /// Ends what can be ended when the table is not in use any more: an old table is given back.
    pub(crate) fn settle(&self) {
        let mut growth = self.lock_growth();
        match growth.phase {
            Phase::Idle | Phase::Moving { .. } => {}
            Phase::Preparing(_) => self.give_up_preparing(&mut growth),
            // No session knows of one table only any more.
            Phase::Announced(_) => growth.phase = Phase::Moving { bucket: 0 },
            Phase::Forgetting { old, discarded, .. } => {
                let rest = self.committed(old.buckets) - discarded;
                if self.region.discard(old.address(0) + discarded, rest).is_err() {
                    self.erase(old, discarded, rest);
                }
                growth.phase = Phase::Idle;
            }
        }
    }

    /// Bytes that are committed for all tables.
    pub(crate) fn committed_now(&self) -> usize {
        let layout = self.layout();
        let next = self.next(layout).map_or(0, |table| self.committed(table.buckets));
        self.committed(layout.buckets()) + next
    }

    /// Shows `look` the items of all entries until it says no. True if it has not. The tables do not change meanwhile.
    pub(crate) fn all_items(&self, mut look: impl FnMut(Offset) -> bool) -> bool {
        let layout = self.layout();
        let tables = [Some(self.current(layout)), self.next(layout)];
        tables.into_iter().flatten().all(|table| {
            (0..table.buckets).all(|bucket| {
                for (steps, ahead) in (0..).zip(AHEAD) {
                    let ahead = bucket.saturating_add(ahead);
                    if ahead < table.buckets {
                        S::prefetch_all_of(&self.region, table, ahead, steps);
                    }
                }
                S::all_of(&self.region, table, bucket, &mut look)
            })
        })
    }

    /// Removes the entries whose items `keep` says no to, where entries do not depend on each other. The index is not in use yet.
    pub(crate) fn retain(&self, mut keep: impl FnMut(Offset) -> bool) {
        let layout = self.layout();
        for table in [Some(self.current(layout)), self.next(layout)].into_iter().flatten() {
            for (bucket, cursor) in
                (0..table.buckets).flat_map(|bucket| (0..S::CURSORS).map(move |c| (bucket, c)))
            {
                if let Some((at, item)) = S::entry(&self.region, table, bucket, cursor)
                    && !keep(item)
                {
                    S::remove(&self.region, at, item);
                }
            }
        }
    }

    /// Sees to it that the arena in which there is no table reads as zero. If holes cannot be made, it does so already: settling has
    /// erased it.
    pub(crate) fn clear_unused(&self) {
        let layout = self.layout();
        if !layout.growing() {
            let arena = Table::<S>::new(self.arenas[1 - layout.arena()], self.buckets_max);
            let _ = self
                .region
                .discard(arena.address(0), Table::<S>::bytes(arena.buckets).next_multiple_of(4096));
        }
    }

    /// What has to be known to go on with the table, which is settled.
    pub(crate) fn saved(&self) -> SavedIndex {
        let growth = self.lock_growth();
        let layout = self.layout();
        let moving = match growth.phase {
            Phase::Moving { bucket } => bucket,
            _ => 0,
        };
        let next_buckets = self.next(layout).map_or(0, |table| table.buckets);
        SavedIndex { layout: layout.0, next_buckets, moving, grown: growth.grown }
    }

    /// Goes on with a table. The index is not in use yet. False, and nothing is changed, if there can be no such table.
    pub(crate) fn restore(&self, saved: SavedIndex) -> bool {
        let layout = Layout(saved.layout);
        let exists = |buckets: u32| (1..=self.buckets_max).contains(&buckets);
        let growing =
            layout.growing() && exists(saved.next_buckets) && saved.next_buckets != layout.buckets();
        let stable = !layout.growing() && saved.next_buckets == 0 && saved.moving == 0;
        if !exists(layout.buckets()) || !(growing || stable) || saved.moving > layout.buckets() {
            return false;
        }
        let mut growth = self.lock_growth();
        // Relaxed would do: sessions come by the index later, through a lock.
        self.set_sizes(layout, saved.next_buckets);
        self.rests.store(false, Ordering::Relaxed);
        self.layout.store(layout.0, Ordering::Release);
        growth.phase = if growing { Phase::Moving { bucket: saved.moving } } else { Phase::Idle };
        growth.grown = saved.grown;
        growth.ahead = None;
        true
    }

    pub(super) fn erase(&self, old: Table<S>, from: usize, bytes: usize) {
        for at in (old.address(0) + from..old.address(0) + from + bytes).step_by(8) {
            guira_sync::words::store(self.region.word(Offset::from_bytes(at as u64)), 0);
        }
    }

    /// Moves all entries of a bucket. False if one has no place in the new table and must not be lost.
    fn move_bucket(&self, old: Table<S>, bucket: u32, items: &mut impl MovedItems) -> bool {
        (0..S::CURSORS).all(|cursor| {
            let mut tries = 0;
            while let Some((at, item)) = S::entry(&self.region, old, bucket, cursor) {
                match self.move_entry(bucket, Found { at, item }, items) {
                    Moved::NoPlace => return false,
                    Moved::Done => tries = 0,
                    Moved::Again => tries += 1,
                }
                if tries > TRIES {
                    self.remove_broken(old, bucket, cursor, items);
                }
            }
            true
        })
    }

    /// Removes an entry that leads to no item, or to one of another bucket: the file of a Region may have lost a block.
    fn remove_broken(&self, old: Table<S>, bucket: u32, cursor: usize, items: &impl MovedItems) {
        let locked = self.versions.lock([self.versions.stripe(bucket)]);
        let is_of_bucket = |hash| S::buckets(S::place(old, hash)).contains(&bucket);
        match S::entry(&self.region, old, bucket, cursor) {
            // No session changes an item while a counter of its buckets is held: it is what it seems to be.
            Some((at, item)) if !items.hash_of(item).is_some_and(is_of_bucket) => {
                S::remove(&self.region, at, item);
            }
            _ => locked.release_unchanged(),
        }
    }

    /// Moves what `found` leads to from `bucket` to the new table.
    fn move_entry(&self, bucket: u32, found: Found<S::At>, items: &mut impl MovedItems) -> Moved {
        let Some(hash) = items.hash_of(found.item) else {
            return Moved::Again;
        };
        let held = self.lock(hash);
        // The hash was read without a lock: it counts only if the counters now held are those of this bucket, and the item is still
        // the one it was read from.
        let stands = |held: &LockedBuckets<'_, S>| {
            S::buckets(held.place).contains(&bucket)
                && held.find_old(found)
                && items.hash_of(found.item) == Some(hash)
        };
        if !stands(&held) {
            held.release_unchanged();
            return Moved::Again;
        }
        if held.has_room() {
            held.remove(found);
            held.insert(found.item);
            return Moved::Done;
        }
        held.release_unchanged();
        if self.make_room(hash).is_none() {
            if !items.may_lose() {
                return Moved::NoPlace;
            }
            let held = self.lock(hash);
            if stands(&held) {
                held.remove(found);
                drop(held);
                items.lost(found.item);
            }
        }
        Moved::Again
    }
}
