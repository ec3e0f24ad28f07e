//! What a slab engine counts, and how it is summed up.

use crate::core::Core;
use guira_contract::{ClassStats, EngineStats};
use guira_memory::slab::ClassGuard;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use guira_sync::counters::Counters;
use std::sync::{Arc, Mutex, PoisonError};

/// What a session counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    ItemsAdded,
    ItemsRemoved,
    BytesAdded,
    BytesRemoved,
    Evictions,
    EvictedUnfetched,
    IndexEvictions,
    Reclaimed,
    ExpiredUnfetched,
    CrawlerReclaimed,
    CrawlerChecked,
    PagesMoved,
    Displacements,
    ReadRetries,
    HandSteps,
}

pub(crate) const COUNTS: usize = Count::HandSteps as usize + 1;

/// One session's counters.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters(Counters<COUNTS>);

impl SessionCounters {
    #[inline(always)]
    pub(crate) fn add(&self, what: Count, amount: u64) {
        self.0.add(what as usize, amount);
    }
}

/// The counters of all sessions there were.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// LOCK: counters. Leaf.
    all: Mutex<Vec<Arc<SessionCounters>>>,
    /// What sessions counted that are over. Taken under the lock of the others.
    gone: SessionCounters,
    /// What the counters said at the last reset.
    base: Mutex<[u64; COUNTS]>,
}

impl Registry {
    pub(crate) fn register(&self) -> Arc<SessionCounters> {
        let counters = Arc::new(SessionCounters::default());
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// A session is over: what it counted is kept.
    pub(crate) fn retire(&self, counters: &Arc<SessionCounters>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, counters));
        for index in 0..COUNTS {
            self.gone.0.add(index, counters.0.get(index));
        }
    }

    /// What was counted altogether, and at the last reset.
    pub(crate) fn saved(&self) -> [[u64; COUNTS]; 2] {
        [self.sums(), *self.base.lock().unwrap_or_else(PoisonError::into_inner)]
    }

    /// Goes on counting from there.
    pub(crate) fn restore(&self, [sums, base]: [[u64; COUNTS]; 2]) {
        let counters = self.register();
        sums.iter().enumerate().for_each(|(index, sum)| counters.0.add(index, *sum));
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = base;
    }

    fn sums(&self) -> [u64; COUNTS] {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = [0u64; COUNTS];
        for counters in all.iter().map(Arc::as_ref).chain([&self.gone]) {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(counters.0.get(index));
            }
        }
        sums
    }
}

impl Core {
    /// Items stored at the moment. Sums over sessions are no snapshot, so a little more or less.
    pub(crate) fn items_now(&self) -> u64 {
        let sums = self.registry.sums();
        sums[Count::ItemsAdded as usize].saturating_sub(sums[Count::ItemsRemoved as usize])
    }

    pub(crate) fn reset_stats(&self) {
        *self.registry.base.lock().unwrap_or_else(PoisonError::into_inner) = self.registry.sums();
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let sums = self.registry.sums();
        let base = *self.registry.base.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |what: Count| sums[what as usize];
        let since = |what: Count| sums[what as usize].saturating_sub(base[what as usize]);
        EngineStats {
            items: now(Count::ItemsAdded).saturating_sub(now(Count::ItemsRemoved)),
            bytes: now(Count::BytesAdded).saturating_sub(now(Count::BytesRemoved)),
            total_items: since(Count::ItemsAdded),
            evictions: since(Count::Evictions),
            evicted_unfetched: since(Count::EvictedUnfetched),
            index_evictions: since(Count::IndexEvictions),
            reclaimed: since(Count::Reclaimed),
            expired_unfetched: since(Count::ExpiredUnfetched),
            crawler_reclaimed: since(Count::CrawlerReclaimed),
            crawler_checked: since(Count::CrawlerChecked),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            moving: self.upkeep.is_draining(),
            pages_moved: since(Count::PagesMoved),
            pages_free: self.memory.pool_size() as u64,
            index_bytes: self.index.bytes() as u64,
            index_slots: self.index.slots(),
            index_growing: self.index.is_growing(),
            index_growths: self.index.growths(),
            displacements: since(Count::Displacements),
            read_retries: since(Count::ReadRetries),
            hand_steps: since(Count::HandSteps),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            classes: self.class_stats(),
        }
    }

    /// How long ago the first item from word `word` of a class's pages on, in that page, was last read or stored.
    fn age_at(&self, guard: &ClassGuard<'_>, word: usize) -> u64 {
        let per_page = guard.geometry().bitmap_words as usize;
        let Some(page) = guard.pages().get(word / per_page) else {
            return 0;
        };
        let now = Seconds(self.seen.load(Ordering::Relaxed));
        let ahead =
            self.memory.start_of(*page).plus(guard.geometry().start_of((word % per_page) as u32 * 64));
        let mut chunks = guard.occupied_chunks(*page).into_iter().filter(|at| *at >= ahead);
        let item = chunks.find_map(|at| self.item(at, now));
        item.map_or(0, |item| u64::from(now.0.saturating_sub(item.header.last_access(now).0)))
    }

    fn class_stats(&self) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let hand = self.lock_hand(class);
            let counts = hand.counts;
            let guard = self.memory.lock(class);
            let usage = guard.usage();
            if usage.pages == 0 && counts.evicted == 0 {
                continue;
            }
            let word = hand.hand.word();
            drop(hand);
            all.push(ClassStats {
                id: u32::from(class.0) + 1,
                chunk_size: u64::from(guard.geometry().chunk),
                chunks_per_page: u64::from(guard.geometry().chunks),
                pages: usage.pages,
                used_chunks: usage.chunks - usage.free,
                free_chunks: usage.free,
                counts,
                age: self.age_at(&guard, word),
            });
        }
        all
    }
}
