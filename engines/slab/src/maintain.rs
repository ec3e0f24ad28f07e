//! What is done in slices between batches: the table grows, drained pages find a new class, the crawler removes what has expired or was flushed.

use crate::core::Core;
use crate::donors::PAGE_CHOICE;
use crate::index::{GrowthStep, Index, Items, Scheme};
use crate::session::SlabSession;
use guira_contract::{ItemView, KeyHash, Pace, Reassign, Switch};
use guira_items::{Crawled, Eviction, Flushable, INLINE_MAX, Removal, SessionCounters};
use guira_memory::Offset;
use guira_memory::slab::{PageId, PageState};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is going on in the background.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// How many drains have begun.
    drains: AtomicU64,
    /// LOCK: upkeep. Leaf, except that pages are released while it is held.
    pages: Mutex<Pages>,
    /// LOCK: crawler. Held for a slice of its work by one thread at a time, never waited for.
    crawl: Mutex<Crawl>,
    /// The crawler does nothing but what flushes need.
    crawler_off: AtomicBool,
    /// The crawler is to set out at once.
    crawl_asked: AtomicBool,
    /// Times the crawler has set out.
    crawls: AtomicU64,
    /// Items that were moved out of pages that changed their class.
    rescued: AtomicU64,
}

#[derive(Debug, Default)]
struct Pages {
    /// Out of service, with chunks still to come back.
    draining: Vec<PageId>,
    /// Empty, until every session has passed a quiescent point.
    retired: Vec<(PageId, Ticket)>,
    /// So many have waited long enough, and are being put into the pool.
    releasing: usize,
}

/// Where the crawler is.
#[derive(Debug, Default)]
struct Crawl {
    /// The next page, if it is on its way.
    page: Option<u32>,
    /// When it set out.
    started: Seconds,
    /// The flush generations that it makes clean.
    crawled: Crawled,
}

/// The crawler sets out this often, in seconds, and whenever there was a flush.
const CRAWL_INTERVAL: u32 = 30;

/// So many pages may be draining when another is drained for the table.
const DRAINING_MAX: usize = 4;

/// Under load the crawler gets a page once in so many rounds of upkeep.
const BUSY_ROUNDS_A_PAGE: u32 = 256;

/// A store does so many steps of growth: while one session has the turn, others store without.
const STEPS_A_STORE: usize = 4;

/// Items are counted once in so many rounds of upkeep, to see whether they need another table.
const ROUNDS_A_CENSUS: u32 = 32;

/// Under load there is a step towards a lower ceiling once in so many rounds of upkeep: it may evict a page of items.
const BUSY_ROUNDS_A_STEP: u32 = 4;

/// Whether the table grows.
enum Grow {
    /// It does, from now on.
    Begun,
    /// It is as large as it can be, or growing already.
    NotNow,
    /// So many bytes would be needed.
    NoMemory(usize),
}

impl Upkeep {
    pub(crate) fn drains_begun(&self) -> u64 {
        self.drains.load(Ordering::Relaxed)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn drain_began(&self, page: PageId) {
        self.pages().draining.push(page);
        self.drains.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the crawler sets out by itself. The orderings of what is asked of the crawler are Relaxed: it looks again soon.
    pub(crate) fn switch_crawler(&self, switch: Switch) {
        self.crawler_off.store(switch == Switch::Off, Ordering::Relaxed);
    }

    /// The crawler is to set out at once.
    pub(crate) fn crawl_now(&self) {
        self.crawl_asked.store(true, Ordering::Relaxed);
    }

    /// Times the crawler has set out.
    pub(crate) fn crawls(&self) -> u64 {
        self.crawls.load(Ordering::Relaxed)
    }

    /// An item was moved out of a page that changes its class.
    pub(crate) fn rescued(&self) {
        self.rescued.fetch_add(1, Ordering::Relaxed);
    }

    /// Items that were.
    pub(crate) fn items_rescued(&self) -> u64 {
        self.rescued.load(Ordering::Relaxed)
    }

    /// Whether the crawler is on its way, or about to be.
    pub(crate) fn is_crawling(&self) -> bool {
        let crawl = self.crawl.lock().unwrap_or_else(PoisonError::into_inner);
        crawl.page.is_some() || self.crawl_asked.load(Ordering::Relaxed)
    }

    /// The pages that are draining.
    pub(crate) fn draining(&self) -> Vec<PageId> {
        self.pages().draining.clone()
    }

    /// Takes the pages that have waited long enough. The caller releases them, and says so.
    fn take_retired(&self, passed: impl Fn(Ticket) -> bool) -> Vec<PageId> {
        let mut pages = self.pages();
        let mut taken = Vec::new();
        pages.retired.retain(|(page, ticket)| {
            let passed = passed(*ticket);
            if passed {
                taken.push(*page);
            }
            !passed
        });
        pages.releasing += taken.len();
        taken
    }

    /// Whether an empty page is waiting for quiescent points, and for nothing else.
    pub(crate) fn is_retiring(&self) -> bool {
        let pages = self.pages();
        !pages.retired.is_empty() || pages.releasing > 0
    }

    /// Whether another page may be drained for the table: one that holds something which cannot be evicted now, or which a
    /// session keeps that has gone to sleep, does not hold up the others.
    fn may_drain(&self) -> bool {
        let pages = self.pages();
        pages.retired.is_empty() && pages.draining.len() < DRAINING_MAX
    }

    /// How many pages are draining, and how many wait for quiescent points.
    pub(crate) fn on_their_way(&self) -> (usize, usize) {
        let pages = self.pages();
        (pages.draining.len(), pages.retired.len() + pages.releasing)
    }

    /// Whether a page is on its way from one class to another.
    pub(crate) fn is_draining(&self) -> bool {
        let pages = self.pages();
        !pages.draining.is_empty() || !pages.retired.is_empty()
    }
}

impl<X: Scheme> Core<X> {
    /// Lets a flush take effect that has fallen due. Every operation begins with this; no lock may be held.
    #[inline(always)]
    pub(crate) fn settle_flush(&self, now: Seconds) {
        self.flushes.settle(now, self);
    }

    /// Removes every item that is not of generation `kept`: the crawler's work at one go.
    fn unlink_flushed(&self, kept: u32) {
        // Whoever asked for the flush may have no session: no page changes its class under this sweep.
        let _participant = self.quiescence.register();
        let counters = &self.flush_counters;
        for page in 0..self.memory.pages_touched() {
            // A page that is draining may still hold an item that could not be evicted because it is pinned.
            let (PageState::Serving(class) | PageState::Draining(class)) = self.memory.state_of(PageId(page))
            else {
                continue;
            };
            let chunks = self.memory.lock(class).occupied_chunks(PageId(page));
            for at in chunks {
                let Some((item, hash)) = self.item(at, Seconds(0)).zip(self.hash_at(at)) else {
                    continue;
                };
                if item.header.generation() == kept {
                    continue;
                }
                let held = self.index.lock(hash);
                let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
                let flushed = self.item(at, Seconds(0)).is_some_and(|item| item.header.generation() != kept);
                match slot {
                    Some(slot) if flushed => held.remove(slot),
                    _ => {
                        held.release_unchanged();
                        continue;
                    }
                }
                drop(held);
                self.forget(at, counters);
            }
        }
    }

    /// Frees an item that a flush has unlinked, on behalf of no session.
    fn forget(&self, at: Offset, counters: &SessionCounters) {
        let Some(item) = self.item(at, Seconds(0)) else {
            return;
        };
        let removed = item.removed(self.memory.class_at(at), Core::<X>::bytes_of(&item), Seconds(0));
        counters.item_removed(Removal::Dead, &removed);
        if item.value_len() <= INLINE_MAX || self.pins.unlinked(at) {
            for chunk in self.chunks_of(at) {
                self.give_chunk(chunk);
            }
        }
    }

    /// Moves a page from one class to another, both numbered from 1, at an operator's wish.
    pub(crate) fn reassign(self: &Arc<Self>, from: Option<u32>, to: u32) -> Reassign {
        let class = |number: u32| self.memory.classes().ids().find(|class| u32::from(class.0) + 1 == number);
        let donor = match from {
            None => self.oldest_donor(class(to)),
            Some(number) => class(number),
        };
        if to != 0 && class(to).is_none() {
            return Reassign::NoClass;
        }
        let Some(donor) = donor else {
            return if from.is_none() { Reassign::NothingToSpare } else { Reassign::NoClass };
        };
        if self.upkeep.is_draining() {
            return Reassign::Busy;
        }
        // Without eviction nothing is lost for this.
        if self.options.engine.eviction == Eviction::Off || self.memory.lock(donor).usage().pages < 2 {
            return Reassign::NothingToSpare;
        }
        if let Some(taker) = class(to) {
            self.balance.claim(taker);
        }
        SlabSession::<X>::new(self.clone()).begin_drain(donor, PAGE_CHOICE);
        Reassign::Begun
    }

    /// An empty page waits for every session to pass a quiescent point.
    pub(crate) fn retire(&self, page: PageId) {
        let ticket = self.quiescence.ticket();
        let mut pages = self.upkeep.pages();
        pages.draining.retain(|other| *other != page);
        pages.retired.push((page, ticket));
    }

    /// Puts the pages that have waited long enough into the pool.
    pub(crate) fn release_drained(&self) {
        for page in self.upkeep.take_retired(|ticket| self.quiescence.passed(ticket)) {
            self.forget_page(page);
            // What a class has asked for it gets even while memory shrinks: another page will go instead.
            let shrinks = self.budget.excess() > 0 && self.memory.pool_size() >= self.balance.waiting();
            if shrinks || self.budget.left() < self.budget.kept() {
                self.memory.surrender(page);
            } else {
                self.memory.release(page);
            }
            self.upkeep.pages().releasing -= 1;
        }
    }

    /// Whether the table is so full that it should be larger. If it is not and an insert fails all the same, keys of equal hash
    /// have come in a crowd, and a larger table would not help.
    pub(crate) fn is_crowded(&self) -> bool {
        self.items_now() * 100 >= self.index.slots() * X::CROWDED_PERCENT
    }

    /// Begins to grow the table if there is memory for a larger one.
    fn grow(&self) -> Grow {
        let Some(buckets) = self.next_size(self.items_now()) else {
            return Grow::NotNow;
        };
        let bytes = self.index.committed(buckets);
        if !self.budget.take(bytes) {
            return Grow::NoMemory(bytes);
        }
        if self.index.begin_growth(buckets, &self.quiescence) {
            self.budget.keep(0);
            return Grow::Begun;
        }
        self.budget.give(bytes);
        Grow::NotNow
    }

    /// Begins to grow the table, which is crowded. If there is no memory it is kept from now on as it comes free, and
    /// upkeep frees it, page by page. True if the table grows now.
    pub(crate) fn grow_crowded(&self) -> bool {
        match self.grow() {
            Grow::Begun => true,
            Grow::NotNow => false,
            Grow::NoMemory(bytes) => {
                self.budget.keep(bytes);
                false
            }
        }
    }

    /// Begins to grow the table if there are too many items for it, for an index that never refuses one; if it is becoming too small for
    /// them, turns back.
    fn take_census(&self) {
        if self.index.is_growing() {
            self.turn_back_if_crowded();
        } else if !X::TELLS_WHEN_FULL && self.budget.kept() == 0 && self.is_crowded() {
            self.grow_crowded();
        }
    }

    /// If there are too many items for the smaller table that they are moving into, sees to it that they stay. True if so.
    pub(crate) fn turn_back_if_crowded(&self) -> bool {
        self.is_crowded() && self.index.turn_back(&self.quiescence)
    }

    /// The memory that is kept for a larger table: is it still wanted, and is it enough by now?
    /// True if that has changed.
    fn review_kept(&self) -> bool {
        if self.index.is_growing() || !self.is_crowded() {
            self.budget.keep(0);
            return true;
        }
        self.budget.left() >= self.budget.kept() && self.grow_crowded()
    }

    /// Begins to grow the table while there is memory to do so, if memory will hold more items than the table has slots: called
    /// whenever a class takes a new page.
    pub(crate) fn grow_ahead(&self) {
        let (used, limit) = (self.budget.used() as u64, self.budget.limit() as u64);
        if used * 2 < limit || self.index.is_growing() {
            return;
        }
        let expected = u128::from(self.items_now()) * u128::from(limit) / u128::from(used.max(1));
        let slots = u128::from(self.index.slots());
        if expected * 100 > slots * u128::from(X::LOAD_PERCENT) && self.index.can_grow() {
            self.grow();
        }
    }

    /// How many buckets the next table should have: as many as all of memory will need if items stay as large as they are, but
    /// at most twice as many as there are, and at least an eighth more.
    fn next_size(&self, items: u64) -> Option<u32> {
        let (buckets, most) = self.index.buckets();
        let in_items = self.budget.used().saturating_sub(self.index.bytes()) as u64;
        let each = in_items / items.max(1) + 7;
        let expected = self.budget.limit() as u64 / each.max(1) * 101 / 100;
        let expected = Index::<X>::buckets_for(expected, X::LOAD_PERCENT);
        let expected = u32::try_from(expected).unwrap_or(u32::MAX);
        let least = buckets.saturating_add(buckets / 8 + 1);
        let wanted = expected.clamp(least, buckets.saturating_mul(2).max(least)).min(most);
        (wanted >= least).then_some(wanted)
    }
}

/// What the migrator asks of the engine.
struct Migration<'a, X: Scheme> {
    session: &'a mut SlabSession<X>,
    now: Seconds,
}

impl<X: Scheme> Items for Migration<'_, X> {
    fn hash_of(&self, at: Offset) -> Option<KeyHash> {
        self.session.core.hash_at(at)
    }

    fn may_lose(&self) -> bool {
        self.session.core.options.engine.eviction == Eviction::On
    }

    fn lost(&mut self, at: Offset) {
        self.session.account_removed(at, Removal::Displaced, self.now);
        self.session.free_item(at, self.now);
    }
}

impl<X: Scheme> SlabSession<X> {
    pub(crate) fn do_maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.core.shell.see_time(now);
        let core = self.core.clone();
        self.seen = now;
        let mut done = 0;
        while done < budget && self.grow_step(now) {
            done += 1;
        }
        if core.budget.kept() > 0 && done < budget {
            done += usize::from(core.review_kept());
            // The table waits for memory: one page after another gives its own.
            if core.budget.left() < core.budget.kept() && core.upkeep.may_drain() {
                if !self.drain_coldest(PAGE_CHOICE) {
                    core.budget.keep(0);
                }
                done += 1;
            }
        }
        if core.upkeep.is_draining() && done < budget {
            core.release_drained();
            // What cannot be evicted now is waited for: it is no work that would be worth staying awake for.
            done += usize::from(self.evict_draining() > 0);
        }
        self.busy_rounds = self.busy_rounds.wrapping_add(1);
        while done < budget && core.turn_step() {
            done += 1;
        }
        if self.busy_rounds.is_multiple_of(ROUNDS_A_CENSUS) {
            core.take_census();
        }
        done += self.shrink(pace, budget - done);
        let pages = match pace {
            Pace::Idle => budget,
            Pace::Busy if self.busy_rounds.is_multiple_of(BUSY_ROUNDS_A_PAGE) => 1,
            Pace::Busy => 0,
        };
        for _ in 0..pages.min(budget.saturating_sub(done)) {
            if !self.crawl(now) {
                break;
            }
            done += 1;
        }
        done
    }

    /// Goes towards a ceiling that is lower than what is used. Returns how many steps were gone.
    fn shrink(&mut self, pace: Pace, budget: usize) -> usize {
        let steps = match pace {
            Pace::Idle => 1,
            Pace::Busy => usize::from(self.busy_rounds.is_multiple_of(BUSY_ROUNDS_A_STEP)),
        };
        (0..steps.min(budget)).take_while(|_| self.core.budget.excess() > 0 && self.shrink_step()).count()
    }

    /// Takes one of the next `choice` pages out of the class whose hand is slowest; without eviction, an empty one. False if there is none.
    pub(crate) fn drain_coldest(&mut self, choice: usize) -> bool {
        match self.core.options.engine.eviction {
            Eviction::Off => self.drain_empty_page(),
            Eviction::On => {
                let donor = self.core.oldest_donor(None);
                donor.inspect(|donor| self.begin_drain(*donor, choice)).is_some()
            }
        }
    }

    /// Does one step of growth. False if there is nothing to do for now.
    pub(crate) fn grow_step(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        match core.index.grow_step(&core.quiescence, &mut Migration { session: self, now }) {
            GrowthStep::Idle | GrowthStep::Waiting => false,
            GrowthStep::Moved => true,
            GrowthStep::Discarded(bytes) => {
                core.budget.give(bytes);
                true
            }
        }
    }

    /// Does a few steps of growth, for a store: what is stored goes into the new table only, which would be full before the old one is
    /// empty if growth depended on upkeep. This session holds nothing that it found without a lock, so that growth need not wait for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn help_growth(&mut self, now: Seconds) {
        for _ in 0..STEPS_A_STORE {
            if !self.grow_step(now) {
                guira_contract::Session::quiesce(self);
                return;
            }
        }
    }

    /// Looks at one page for a store that was refused: what has expired in other classes comes free when the crawler has been there, and it
    /// sets out at once for whoever needs memory, but not twice in a second.
    #[cold]
    pub(crate) fn crawl_for_memory(&mut self, now: Seconds) {
        let now = now.max(self.core.shell.time_seen());
        let is_due =
            self.core.upkeep.crawl.try_lock().is_ok_and(|crawl| crawl.page.is_none() && crawl.started < now);
        if is_due {
            self.core.upkeep.crawl_asked.store(true, Ordering::Relaxed);
        }
        self.crawl(now);
    }

    /// Looks at one page. False if there is nothing to do for now.
    fn crawl(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        core.settle_flush(now);
        let Ok(mut crawl) = core.upkeep.crawl.try_lock() else {
            return false;
        };
        let Some(page) = crawl.page else {
            return set_out(&core, &mut crawl, now);
        };
        if page >= core.memory.pages_touched() {
            crawl.page = None;
            core.flushes.end_crawl(crawl.crawled);
            return false;
        }
        crawl.page = Some(page + 1);
        self.crawl_page(PageId(page), now);
        true
    }

    fn crawl_page(&mut self, page: PageId, now: Seconds) {
        let core = self.core.clone();
        let (PageState::Serving(class) | PageState::Draining(class)) = core.memory.state_of(page) else {
            return;
        };
        let chunks = core.memory.lock(class).occupied_chunks(page);
        let (checked, mut reclaimed) = (chunks.len() as u64, 0);
        for at in chunks {
            let is_dead = core.item(at, now).is_some_and(|item| core.dead(&item, now).is_some());
            if is_dead
                && let Some(hash) = core.hash_at(at)
                && self.unlink(at, hash, Removal::Dead, now)
            {
                reclaimed += 1;
            }
        }
        self.counters.crawled(Some(class), checked, reclaimed);
    }
}

/// Sends the crawler on its way if it is time, or if there was a flush that every session knows of.
fn set_out<X: Scheme>(core: &Core<X>, crawl: &mut Crawl, now: Seconds) -> bool {
    let passed = |since: &Ticket| core.quiescence.passed(*since);
    let asked = core.upkeep.crawl_asked.swap(false, Ordering::Relaxed);
    let resting = core.upkeep.crawler_off.load(Ordering::Relaxed)
        || now.0.saturating_sub(crawl.started.0) < CRAWL_INTERVAL;
    if !core.flushes.needs_crawl(passed) && !asked && resting {
        return false;
    }
    core.upkeep.crawls.fetch_add(1, Ordering::Relaxed);
    *crawl = Crawl { page: Some(0), started: now, crawled: core.flushes.begin_crawl(passed) };
    true
}

impl<X: Scheme> Flushable for Core<X> {
    type Mark = Ticket;

    fn mark(&self) -> Ticket {
        self.quiescence.ticket()
    }

    fn sweep(&self, kept: u32, _now: Seconds) {
        if self.items_now() > 0 {
            self.unlink_flushed(kept);
        }
    }
}
