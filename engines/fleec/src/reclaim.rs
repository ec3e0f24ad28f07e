//! Where chunks come from, and where they go.
//!
//! A session that needs chunks takes free ones of the class, or a new page; else it turns the hand ([`FleecSession::sweep`]), which frees items of any
//! class. If none of the class comes up for a while, a page is emptied that has the most free chunks of the class that has the most free memory
//! ([`FleecSession::take_over`]). All of that is bounded, and none of it waits.
//!
//! What was taken off the list is *retired*: somebody may have announced it before. From time to time a session looks at all that is announced, and
//! frees what is not.

use crate::bucket_clock::{self, PATIENCE};
use crate::core::Core;
use crate::list::Target;
use crate::session::FleecSession;
use crate::update::{account_removed, is_long};
use guira_contract::{ClassCounter, Counter, ItemState, StoreError};
use guira_items::hooks::{self, Window};
use guira_items::{Eviction, Item, Pieces, Removal};
use guira_memory::slab::lockfree::Emptied;
use guira_memory::slab::{ClassId, PAGE_BYTES};
use guira_memory::{MIB, Offset};
use guira_sync::atomic::{Ordering, yield_now};
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;
use std::cell::RefCell;
use std::sync::PoisonError;

/// A session takes chunks by the batch, of up to this many …
const BATCH_CHUNKS: usize = 32;
/// … and up to this many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// So many items are retired before a session looks at what is announced, unless it needs memory.
const RETIRED_MAX: usize = 32;

/// The hand looks at so many buckets at once.
const SWEEP: u64 = 32;

/// So many items of a bucket are spared at once.
const SPARED_MAX: usize = 8;

/// So many times the hand is turned for one chunk at the most, and once in so many a page may be taken from another class.
const SWEEPS_MAX: u32 = 256;
const SWEEPS_A_PAGE: u32 = 4;
/// So much free memory in another class is used before more is evicted.
const IDLE_BYTES: usize = PAGE_BYTES;
/// A session that has found no memory looks so often again, and if nothing may be evicted so often: then memory is full for long.
const RECALL_ROUNDS: u32 = 64;
const KEEPING_ROUNDS: u32 = 8;
/// The emptiest of so many pages is taken.
const PAGE_CHOICE: usize = 8;

/// In caches below this many bytes sessions keep no chunks to themselves: a page in which every session keeps one cannot be emptied, and there are
/// only a few for each class. 32 MiB.
const SCARCE_BELOW: usize = 32 * MIB;
/// In caches below this many bytes there may be more classes than pages: 128 MiB …
const FEW_PAGES_BELOW: usize = 128 * MIB;
/// … and a class may use chunks that are larger than its own by one part in so many.
const LENT_PART: u32 = 2;

/// Where nothing may be evicted, so many chunks of a class are left for changes of what is there, which give back as much as they take; of large
/// ones, as many as come to this many bytes.
const RESERVED: u64 = 2;
const RESERVED_BYTES: u64 = 4096;

/// A store that finds no memory where nothing may be evicted looks for dead items so many times at the most, as long as it finds some.
const LOOKS: usize = 16;

/// What a chunk is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// An item more, or one whose place another takes as a whole.
    Fresh,
    /// A change of an item, whose own chunk is given back for it.
    Exchange,
}

/// Chunks that a session needs.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    class: ClassId,
    taking: Taking,
    /// It takes up to so many.
    batch: usize,
}

/// What goes of a bucket that the hand comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Everything,
    /// What was never read, and has not been stored over since the hand last came by: what comes to a bucket that is read all the time, and is not used
    /// itself, would stay for ever.
    Unused,
}

impl Core {
    /// How many chunks of a class a session takes at once.
    fn batch_of(&self, class: ClassId) -> usize {
        let chunk = self.memory.classes().geometry(class).chunk as usize;
        if self.budget.limit() < SCARCE_BELOW { 1 } else { (BATCH_BYTES / chunk).clamp(1, BATCH_CHUNKS) }
    }

    /// How many free chunks of a class there are for this.
    fn spare(&self, class: ClassId, taking: Taking) -> u64 {
        if self.options.engine.eviction == Eviction::On || taking == Taking::Exchange {
            return u64::MAX;
        }
        let chunk = u64::from(self.memory.classes().geometry(class).chunk);
        self.memory.free_chunks(class).saturating_sub(RESERVED.min(RESERVED_BYTES / chunk))
    }
}

impl FleecSession {
    /// Fills the session's cache of `class`, which is empty.
    pub(crate) fn refill(&mut self, class: ClassId, taking: Taking, now: Seconds) -> Result<(), StoreError> {
        self.core.shell.see_time(now);
        let is_last = taking == Taking::Exchange && self.core.spare(class, Taking::Fresh) == 0;
        let wanted = Wanted { class, taking, batch: if is_last { 1 } else { self.core.batch_of(class) } };
        if self.refill_free(wanted) {
            return Ok(());
        }
        self.reclaim();
        if self.has_chunk(class) || self.refill_free(wanted) {
            return Ok(());
        }
        let found = match self.core.options.engine.eviction {
            Eviction::On => self.borrow(class) || self.evict(wanted, now),
            Eviction::Off => self.refill_keeping(wanted, now),
        };
        if !found {
            self.counters.add_to_class(Some(class), ClassCounter::OutOfMemory, 1);
            return Err(StoreError::NoMemory);
        }
        Ok(())
    }

    pub(crate) fn has_chunk(&self, class: ClassId) -> bool {
        !self.caches[usize::from(class.0)].is_empty()
    }

    /// Takes free chunks, from the class's pages or from a new one.
    fn refill_free(&mut self, Wanted { class, taking, batch }: Wanted) -> bool {
        let core = &*self.core;
        let cache = &mut self.caches[usize::from(class.0)];
        let mut take = || {
            let most = core.spare(class, taking).min(batch as u64) as usize;
            most > 0 && core.memory.take(class, most, cache) > 0
        };
        take() || (core.memory.grow(class) && take())
    }

    /// Takes a chunk of a class that is a little larger, if there are few pages for each class: before anything is evicted. A class that has pages
    /// does so only where more than an eighth is free, or it would have larger chunks than it needs for good.
    fn borrow(&mut self, class: ClassId) -> bool {
        let core = &*self.core;
        if core.budget.limit() >= FEW_PAGES_BELOW {
            return false;
        }
        let (classes, has_pages) = (core.memory.classes(), self.has_pages(class));
        let chunk = classes.geometry(class).chunk;
        let is_idle = |other: &ClassId| {
            let all = core.memory.pages_of(*other) * u64::from(classes.geometry(*other).chunks);
            !has_pages || 8 * core.memory.free_chunks(*other) > all
        };
        let lender = classes
            .ids()
            .skip(usize::from(class.0) + 1)
            .take_while(|other| classes.geometry(*other).chunk <= chunk + chunk / LENT_PART)
            .find(|other| core.memory.free_chunks(*other) > 0 && is_idle(other));
        lender.is_some_and(|lender| core.memory.take(lender, 1, &mut self.caches[usize::from(class.0)]) > 0)
    }

    /// Evicts until there is a chunk of the class.
    fn evict(&mut self, wanted: Wanted, now: Seconds) -> bool {
        let class = wanted.class;
        for _ in 0..SWEEPS_MAX {
            self.sweeps = self.sweeps.wrapping_add(1);
            let is_due = self.sweeps.is_multiple_of(SWEEPS_A_PAGE);
            if is_due && self.take_over(class, now) && self.refill_free(wanted) {
                return true;
            }
            let evicted = self.sweep(now);
            self.reclaim();
            if self.has_chunk(class) || self.refill_free(wanted) {
                return true;
            }
            if evicted == 0 {
                break;
            }
        }
        self.recall(RECALL_ROUNDS, wanted, now)
    }

    /// Asks the others to give back what they keep, and looks again so many times.
    #[cold]
    fn recall(&mut self, rounds: u32, wanted: Wanted, now: Seconds) -> bool {
        let class = wanted.class;
        self.recalls_seen = self.core.recalls.fetch_add(1, Ordering::Relaxed) + 1;
        self.give_all_back();
        for _ in 0..rounds {
            let taken = self.refill_free(wanted)
                || match self.core.options.engine.eviction {
                    Eviction::On => self.take_any(class, now),
                    Eviction::Off => self.take_empty(class),
                };
            if taken && (self.has_chunk(class) || self.refill_free(wanted)) {
                return true;
            }
            yield_now();
        }
        false
    }

    /// Gives back what it keeps to itself, since somebody has found no memory.
    #[cold]
    pub(crate) fn heed_recall(&mut self) {
        self.recalls_seen = self.core.recalls.load(Ordering::Relaxed);
        self.give_all_back();
    }

    /// Gives back what it keeps to itself.
    pub(crate) fn give_all_back(&mut self) {
        self.reclaim();
        self.core.memory.classes().ids().for_each(|class| self.give_cached(class));
    }

    /// Turns the hand until something was evicted, or it has been everywhere. Returns how much.
    pub(crate) fn sweep(&mut self, now: Seconds) -> u64 {
        let core = self.core.clone();
        let mut looked = 0;
        loop {
            let mut victims = [(0, Goes::Everything); SWEEP as usize];
            let mut count = 0;
            for bucket in core.table.turn_hand(SWEEP) {
                let goes = match core.table.fade(bucket) {
                    None => Some(Goes::Everything),
                    Some(_) if looked >= PATIENCE => Some(Goes::Everything),
                    Some(value) => bucket_clock::has_lodgers(value).then_some(Goes::Unused),
                };
                if let Some((goes, at)) = goes.zip(core.table.first_of(bucket)) {
                    core.shell.region().prefetch(at.bytes());
                    victims[count] = (bucket, goes);
                    count += 1;
                }
            }
            looked += SWEEP;
            self.counters.add(Counter::HandSteps, SWEEP);
            let evict = |(bucket, goes): &(u64, Goes)| self.evict_bucket(*bucket, *goes, now);
            let evicted = victims[..count].iter().map(evict).sum::<u64>();
            if evicted > 0 || looked > 2 * PATIENCE + core.table.buckets() {
                return evicted;
            }
        }
    }

    /// Evicts items of a bucket. Returns how many.
    fn evict_bucket(&mut self, bucket: u64, goes: Goes, now: Seconds) -> u64 {
        let core = self.core.clone();
        let is_unread =
            |at| core.item(at, now).is_none_or(|item| !item.header.state().has(ItemState::FETCHED));
        let mut evicted = 0;
        // What was stored over goes the next time, unless it is again.
        let spared: RefCell<Vec<Offset>> = RefCell::default();
        loop {
            let counters = self.counters.clone();
            let more = self.at_spot(
                bucket,
                Target::First,
                |at| goes == Goes::Everything || (is_unread(at) && !spared.borrow().contains(&at)),
                |nodes, spot| {
                    let node = spot.node?;
                    let item = core.item(node.at, now)?;
                    let is_dead = core.dead(&item, now).is_some();
                    if goes == Goes::Unused && !is_dead && item.header.overwrote() {
                        // Not while somebody stores it over and over: the hand would stay here.
                        item.forget_overwriting();
                        let mut spared = spared.borrow_mut();
                        spared.push(node.at);
                        return (spared.len() < SPARED_MAX).then_some(0);
                    }
                    // To take what is being sent, or changed, would cost an item and give no memory.
                    if core.is_held(&item, nodes.hazard) {
                        return None;
                    }
                    let removed = spot.remove(nodes, node);
                    if removed {
                        let why = if is_dead { Removal::Dead } else { Removal::Evicted };
                        account_removed(&core, &counters, &item, why, now);
                    } else {
                        counters.add(Counter::SwapsLost, 1);
                    }
                    Some(i64::from(removed))
                },
            );
            match more {
                None => return evicted,
                Some(removed) => {
                    self.count_items(-removed);
                    evicted += removed as u64;
                }
            }
        }
    }

    /// Frees what was retired, if that is worth a look at what is announced.
    #[inline]
    pub(crate) fn reclaim_some(&mut self) {
        // What was announced last time probably still is.
        let new = self.retired.len().saturating_sub(self.kept);
        let has_long = || self.retired.last().is_some_and(|at| self.core.is_long_at(*at));
        if new >= RETIRED_MAX || (new > 0 && (has_long() || self.core.budget.limit() < SCARCE_BELOW)) {
            self.reclaim();
        }
    }

    /// Frees what was retired and nobody has announced.
    pub(crate) fn reclaim(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let mut announced = std::mem::take(&mut self.announced);
        self.core.hazards.announced(|place| announced.push(place));
        let retired = std::mem::take(&mut self.retired);
        if retired.iter().any(|at| self.core.is_long_at(*at)) {
            self.core.pins.announced(|place| announced.push(place));
        }
        announced.sort_unstable();
        for at in &retired {
            if announced.binary_search(&(at.bytes() as u64)).is_ok() {
                self.retired.push(*at);
            } else {
                self.free_item(*at);
            }
        }
        announced.clear();
        self.announced = announced;
        self.kept = self.retired.len();
    }

    /// Frees the chunks of an item that nobody can find any more.
    fn free_item(&mut self, at: Offset) {
        let core = self.core.clone();
        if let Some(item) = core.item(at, Seconds(0)) {
            Pieces::chunks(core.shell.region(), &item).into_iter().for_each(|chunk| self.free_chunk(chunk));
        }
        self.free_chunk(at);
    }

    /// Keeps a chunk for what this session stores next; of too many, half are for all.
    fn free_chunk(&mut self, at: Offset) {
        let Some(class) = self.core.memory.class_at(at) else {
            return;
        };
        let batch = self.core.batch_of(class);
        let cache = &mut self.caches[usize::from(class.0)];
        cache.push(at);
        // If there are none to spare it is not kept for what is stored next: that might be an item more.
        let most = if batch == 1 || self.core.spare(class, Taking::Fresh) == 0 { 0 } else { 2 * batch };
        if cache.len() > most {
            let given = batch.min(cache.len());
            cache.drain(..given).for_each(|at| self.core.memory.give(at));
        }
    }

    /// Takes a page for `class` from the class with the most free memory, if that is so much that it had better be used before more is evicted.
    fn take_over(&mut self, class: ClassId, now: Seconds) -> bool {
        let richest = self.core.memory.richest(Some(class));
        let donor = richest.filter(|(_, bytes)| *bytes >= IDLE_BYTES as u64 || !self.has_pages(class));
        let Some(emptied) = donor.and_then(|(donor, _)| self.empty_page_of(donor, now)) else {
            return false;
        };
        self.hand_over(emptied, class);
        true
    }

    fn has_pages(&self, class: ClassId) -> bool {
        self.core.memory.pages_of(class) > 0
    }

    fn hand_over(&mut self, emptied: Emptied, class: ClassId) {
        self.core.memory.hand_over(emptied, class);
        self.counters.add(Counter::PagesMoved, 1);
    }

    /// Takes a page for `class` from whichever other class has one that can be emptied.
    fn take_any(&mut self, class: ClassId, now: Seconds) -> bool {
        match self.empty_page(Some(class), now) {
            Some(emptied) => {
                self.hand_over(emptied, class);
                true
            }
            None => false,
        }
    }

    /// Empties a page of another class than `except`.
    pub(crate) fn empty_page(&mut self, except: Option<ClassId>, now: Seconds) -> Option<Emptied> {
        let memory = &self.core.memory;
        let bytes =
            |class: &ClassId| memory.free_chunks(*class) * u64::from(memory.classes().geometry(*class).chunk);
        let mut donors: Vec<ClassId> = memory.classes().ids().collect();
        donors.retain(|class| Some(*class) != except && self.has_pages(*class));
        // Looked at once for each: what changes meanwhile would be no order.
        donors.sort_by_cached_key(|class| std::cmp::Reverse(bytes(class)));
        donors.into_iter().find_map(|donor| self.empty_page_of(donor, now))
    }

    /// Empties a page of `donor`.
    pub(crate) fn empty_page_of(&mut self, donor: ClassId, now: Seconds) -> Option<Emptied> {
        self.give_cached(donor);
        let held = self.core.memory.hold_emptiest(donor, PAGE_CHOICE)?;
        hooks::pause(Window::Emptying);
        self.clear_page(&held, now);
        self.reclaim();
        self.give_cached(donor);
        self.core.memory.empty(held)
    }

    /// Gives the free chunks of a class that this session has to all.
    fn give_cached(&mut self, class: ClassId) {
        for at in std::mem::take(&mut self.caches[usize::from(class.0)]) {
            self.core.memory.give(at);
        }
    }

    /// Takes the item at `at` out of the table, if it is there, under this hash. Of several reasons, that it is dead comes first.
    pub(crate) fn remove_at(&mut self, at: Offset, hash: u64, why: Removal, now: Seconds) -> bool {
        let core = self.core.clone();
        let counters = self.counters.clone();
        loop {
            let bucket = core.table.bucket_of(hash);
            let removed = self.at_spot(
                bucket,
                Target::Item(hash),
                |other| other == at,
                |nodes, spot| {
                    let node = spot.node?;
                    let item = core.item(at, now)?;
                    let is_dead = core.dead(&item, now).is_some();
                    if (why == Removal::Dead && !is_dead)
                        || (why == Removal::Evicted && core.is_held(&item, nodes.hazard))
                    {
                        return None;
                    }
                    let removed = spot.remove(nodes, node);
                    if removed {
                        account_removed(
                            &core,
                            &counters,
                            &item,
                            if is_dead { Removal::Dead } else { why },
                            now,
                        );
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

    /// Finds chunks without removing anything that is alive: what is dead goes, and pages that hold nothing.
    fn refill_keeping(&mut self, wanted: Wanted, now: Seconds) -> bool {
        let class = wanted.class;
        for _ in 0..LOOKS {
            // What is dead may be of other classes.
            let found = self.remove_some_dead(now);
            self.reclaim();
            if self.has_chunk(class) || self.refill_free(wanted) {
                return true;
            }
            if !found {
                break;
            }
        }
        (self.take_empty(class) && self.refill_free(wanted)) || self.recall(KEEPING_ROUNDS, wanted, now)
    }

    /// Takes a page over that holds nothing at all.
    fn take_empty(&mut self, class: ClassId) -> bool {
        let core = self.core.clone();
        for donor in core.memory.classes().ids().filter(|donor| *donor != class) {
            self.give_cached(donor);
            let Some(held) = core.memory.hold_emptiest(donor, PAGE_CHOICE) else {
                continue;
            };
            if let Some(emptied) = core.memory.empty(held) {
                self.hand_over(emptied, class);
                return true;
            }
        }
        false
    }

    /// Frees what sessions have left that are over.
    pub(crate) fn adopt_orphans(&mut self) {
        let Ok(mut orphans) = self.core.orphans.try_lock() else {
            return;
        };
        self.retired.append(&mut orphans);
        drop(orphans);
        self.reclaim();
    }
}

impl Core {
    /// Whether anybody but the holder of `own` has announced `item`, as those do who send its value, or are about to change it.
    pub(crate) fn is_held(&self, item: &Item<'_>, own: &Hazard) -> bool {
        let place = item.at.bytes() as u64;
        let mut held = false;
        self.hazards.announced_by_others(own, |other| held |= other == place);
        held || (is_long(item) && self.pins.is_announced(place))
    }

    /// Leaves what was retired, and is announced by somebody, to whoever comes by.
    pub(crate) fn orphan(&self, retired: &mut Vec<Offset>) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).append(retired);
    }

    /// Whether the item at `at`, which is ours, has a value so long that it may be pinned.
    fn is_long_at(&self, at: Offset) -> bool {
        self.item(at, Seconds(0)).is_some_and(|item| is_long(&item))
    }

    /// Whether there are orphans, if nobody else is at them.
    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans.try_lock().is_ok_and(|orphans| !orphans.is_empty())
    }
}

// A page is emptied by a session whose caches are far smaller.
const _: () = assert!(2 * BATCH_BYTES < PAGE_BYTES);
