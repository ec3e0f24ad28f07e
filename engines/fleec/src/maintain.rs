//! What is done in slices between batches: buckets are added, what has expired is removed, memory is given back.

use crate::core::Core;
use crate::session::FleecSession;
use crate::table::Growth;
use guira_contract::{Counter, Pace, Reassign, ResizeError, Switch, Tuning};
use guira_items::{Crawled, Eviction, MINIMUM, Removal};
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::sync::{Mutex, PoisonError};

/// What is going on in the background.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// LOCK: crawler. Held for a slice of its work by one thread at a time, never waited for but by statistics.
    crawl: Mutex<Crawl>,
    /// The crawler does nothing but what flushes need. Relaxed, as all here: it looks again soon.
    crawler_off: AtomicBool,
    /// The crawler is to set out at once.
    crawl_asked: AtomicBool,
    /// No page changes its class unless a class has none.
    automove_off: AtomicBool,
    /// Times the crawler has set out.
    crawls: AtomicU64,
    /// Items moved out of pages that were emptied.
    rescued: AtomicU64,
}

/// Where the crawler is.
#[derive(Debug, Default)]
struct Crawl {
    /// The next bucket, if it is on its way.
    bucket: Option<u64>,
    /// When it set out.
    started: Seconds,
    crawled: Crawled,
}

/// The crawler sets out this often, in seconds, and whenever there was a flush.
const CRAWL_INTERVAL: u32 = 30;
/// It looks at so many buckets in a slice.
const CRAWL_SLICE: u32 = 64;
/// Under load it gets a slice once in so many rounds of upkeep.
const BUSY_ROUNDS_A_SLICE: u32 = 64;
/// A store adds so many buckets if there are too few.
const BUCKETS_A_STORE: usize = 2;
/// A store without memory, where nothing is evicted, looks for dead items in so many buckets.
const LOOKED_FOR_DEAD: u64 = 256;

/// What came of removing what is dead from a bucket.
struct Tidied {
    /// The bucket behind it on the list.
    next: Option<u64>,
    removed: usize,
}

impl Upkeep {
    pub(crate) fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.crawler_off.store(switch == Switch::Off, Ordering::Relaxed),
            Tuning::CrawlNow => self.crawl_asked.store(true, Ordering::Relaxed),
            Tuning::Automove(switch) => self.automove_off.store(switch == Switch::Off, Ordering::Relaxed),
        }
    }

    /// Times the crawler has set out.
    pub(crate) fn crawls(&self) -> u64 {
        self.crawls.load(Ordering::Relaxed)
    }

    pub(crate) fn count_rescued(&self) {
        self.rescued.fetch_add(1, Ordering::Relaxed);
    }

    /// Items moved out of pages that were emptied.
    pub(crate) fn items_rescued(&self) -> u64 {
        self.rescued.load(Ordering::Relaxed)
    }

    /// Whether the crawler is on its way, or about to be.
    pub(crate) fn is_crawling(&self) -> bool {
        let crawl = self.crawl.lock().unwrap_or_else(PoisonError::into_inner);
        crawl.bucket.is_some() || self.crawl_asked.load(Ordering::Relaxed)
    }
}

impl FleecSession {
    pub(crate) fn do_maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.core.shell.see_time(now);
        self.rounds = self.rounds.wrapping_add(1);
        let mut done = 0;
        while done < budget && self.grow_by_one() == Growth::Grown {
            done += 1;
        }
        if pace == Pace::Idle {
            self.reclaim();
            if self.core.has_orphans() {
                self.adopt_orphans();
            }
        }
        // One page at a time: a thousand items may go with it.
        done += usize::from(self.give_back(now));
        let slices = match pace {
            Pace::Idle => budget.saturating_sub(done),
            Pace::Busy => usize::from(self.rounds.is_multiple_of(BUSY_ROUNDS_A_SLICE)),
        };
        done + (0..slices).take_while(|_| self.crawl(now)).count()
    }

    /// Adds a bucket if there are too many items for those that there are.
    fn grow_by_one(&mut self) -> Growth {
        self.hands().0.grow()
    }

    /// Adds a bucket or two, for a store.
    #[cold]
    #[inline(never)]
    pub(crate) fn help_growth(&mut self) {
        for _ in 0..BUCKETS_A_STORE {
            if self.grow_by_one() != Growth::Grown {
                break;
            }
        }
    }

    /// Gives the memory of a page back, if more is used than may be or the table needs it. False if there is nothing to do, or to be had.
    fn give_back(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        let wanting = core.table.is_wanting();
        core.budget.keep(if wanting { core.table.step_bytes() } else { 0 });
        let is_short = core.budget.excess() > 0 || (wanting && core.budget.left() < core.budget.kept());
        if !is_short {
            return false;
        }
        if core.memory.surrender_pooled() {
            return true;
        }
        if core.options.engine.eviction == Eviction::Off {
            return false;
        }
        match self.empty_page(None, now) {
            Some(emptied) => core.memory.surrender(emptied),
            None => {
                // Only pages with free chunks can be emptied: there are none before something goes.
                let evicted = self.sweep(now);
                self.give_all_back();
                evicted > 0
            }
        }
    }

    /// Looks at some buckets for what has expired. False if there is nothing to do for now.
    fn crawl(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        core.settle_flush(now);
        let Ok(mut crawl) = core.upkeep.crawl.try_lock() else {
            return false;
        };
        let Some(mut bucket) = crawl.bucket else {
            return set_out(&core, &mut crawl, now);
        };
        for _ in 0..CRAWL_SLICE {
            match self.remove_dead_of(bucket, now).next {
                Some(next) => bucket = next,
                None => {
                    crawl.bucket = None;
                    core.flushes.end_crawl(crawl.crawled);
                    return true;
                }
            }
        }
        crawl.bucket = Some(bucket);
        true
    }

    /// Removes what is dead between a bucket and the next one on the list. Returns that one.
    fn remove_dead_of(&mut self, bucket: u64, now: Seconds) -> Tidied {
        let core = self.core.clone();
        let mut seen: Vec<(Offset, Option<u64>)> = Vec::new();
        let next = core.scan_bucket(bucket, &mut seen, |at| {
            let item = core.item(at, now)?;
            let is_dead = core.dead(&item, now).is_some();
            Some((at, is_dead.then(|| core.shell.hash(item.key(&mut [0; 256])).0)))
        });
        let mut removed = 0;
        for (at, is_dead) in seen {
            let class = core.memory.class_at(at);
            let is_removed = is_dead.is_some_and(|hash| self.remove_at(at, hash, Removal::Dead, now));
            removed += usize::from(is_removed);
            self.counters.crawled(class, 1, u64::from(is_removed));
        }
        self.reclaim_some();
        Tidied { next, removed }
    }

    /// Removes what is dead in the next buckets that the hand would look at. False if nothing was.
    pub(crate) fn remove_some_dead(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        let buckets = core.table.turn_hand(LOOKED_FOR_DEAD);
        buckets.map(|bucket| self.remove_dead_of(bucket, now).removed).sum::<usize>() > 0
    }

    /// Removes every item that is dead.
    pub(crate) fn remove_all_dead(&mut self, now: Seconds) {
        let mut bucket = Some(0);
        while let Some(at) = bucket {
            bucket = self.remove_dead_of(at, now).next;
        }
    }
}

/// Sends the crawler on its way if it is time, or if there was a flush.
fn set_out(core: &Core, crawl: &mut Crawl, now: Seconds) -> bool {
    let asked = core.upkeep.crawl_asked.swap(false, Ordering::Relaxed);
    let resting = core.upkeep.crawler_off.load(Ordering::Relaxed)
        || now.0.saturating_sub(crawl.started.0) < CRAWL_INTERVAL;
    if resting && !asked && !core.flushes.needs_crawl(|()| true) {
        return false;
    }
    core.upkeep.crawls.fetch_add(1, Ordering::Relaxed);
    *crawl = Crawl { bucket: Some(0), started: now, crawled: core.flushes.begin_crawl(|()| true) };
    true
}

impl Core {
    /// Moves a page from one class to another, both numbered from 1, at an operator's wish.
    pub(crate) fn reassign(self: &std::sync::Arc<Self>, from: Option<u32>, to: u32) -> Reassign {
        let class = |number: u32| -> Option<ClassId> {
            self.memory.classes().ids().find(|class| u32::from(class.0) + 1 == number)
        };
        let (donor, taker) = (from.map(class), class(to));
        if donor == Some(None) || (to != 0 && taker.is_none()) {
            return Reassign::NoClass;
        }
        // Without eviction nothing is lost for this.
        if self.options.engine.eviction == Eviction::Off {
            return Reassign::NothingToSpare;
        }
        let mut session = FleecSession::new(self.clone());
        let now = self.shell.time_seen();
        let emptied = match donor.flatten() {
            Some(donor) if self.memory.pages_of(donor) < 2 => None,
            Some(donor) => session.empty_page_of(donor, now),
            None => session.empty_page(taker, now),
        };
        match (emptied, taker) {
            (None, _) => return Reassign::NothingToSpare,
            (Some(emptied), Some(taker)) => self.memory.hand_over(emptied, taker),
            (Some(emptied), None) => self.memory.release(emptied),
        }
        session.counters.add(Counter::PagesMoved, 1);
        Reassign::Begun
    }

    /// Charges the metadata of as many pages as `memory` bytes come to, if that was not done before: it is not given back.
    pub(crate) fn describe(&self, memory: usize) {
        // Relaxed: of two at once, each charges its part.
        let before = self.described.fetch_max(memory, Ordering::Relaxed);
        let metadata = |memory| self.plan.metadata(memory, self.shell.commit_step());
        self.budget.charge(metadata(memory.max(before)) - metadata(before));
    }

    /// From now on up to `memory` bytes may be committed.
    pub(crate) fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        let least = MINIMUM.max(2 * self.options.engine.max_item_size).max(2 * self.table.committed());
        if memory < least {
            return Err(ResizeError::TooSmall { memory, least });
        }
        if memory > self.plan.reserve {
            return Err(ResizeError::TooBig { memory, most: self.plan.reserve });
        }
        self.shell.check_room(self.budget.limit(), memory)?;
        self.describe(memory);
        self.budget.set_limit(memory);
        Ok(())
    }
}
