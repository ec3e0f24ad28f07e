//! What the engine counts, and how it is summed up.

use crate::core::Core;
use crate::update::Unlinked;
use guira_contract::{ClassCounter, ClassCounts, ClassStats, EngineStats, Expiry, ItemState};
use guira_items::{ClassUsage, Item};
use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use guira_sync::clock::Seconds;

/// What became of the items of a class. Relaxed: statistics.
#[derive(Debug, Default)]
pub(crate) struct ClassCounters(Padded<[AtomicU64; ClassCounter::COUNT]>);

impl ClassCounters {
    pub(crate) fn add(&self, counter: ClassCounter, amount: u64) {
        self.0[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    fn set(&self, counter: ClassCounter, value: u64) {
        self.0[counter as usize].store(value, Ordering::Relaxed);
    }

    fn counts(&self) -> ClassCounts {
        ClassCounts::counted(|counter| self.0[counter as usize].load(Ordering::Relaxed))
    }

    /// Their values, in the order of [`ClassCounter::ALL`].
    pub(crate) fn values(&self) -> [u64; ClassCounter::COUNT] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Goes on from these values.
    pub(crate) fn restore(&self, values: [u64; ClassCounter::COUNT]) {
        self.0.iter().zip(values).for_each(|(count, value)| count.store(value, Ordering::Relaxed));
    }

    fn reset(&self) {
        self.restore([0; ClassCounter::COUNT]);
    }
}

impl Core {
    /// What became of the items of a class.
    pub(crate) fn class_counters(&self, class: ClassId) -> &ClassCounters {
        &self.class_counters[usize::from(class.0)]
    }

    /// Counts an item that went, for its class.
    pub(crate) fn count_unlinked(&self, item: &Item<'_>, why: Unlinked, now: Seconds) {
        let Some(class) = self.memory.class_at(item.at) else {
            return;
        };
        let counters = self.class_counters(class);
        let fetched = item.header.state().has(ItemState::FETCHED);
        let (all, unfetched) = match why {
            Unlinked::Gone => return,
            Unlinked::Dead => (ClassCounter::Reclaimed, ClassCounter::ExpiredUnfetched),
            Unlinked::Evicted => (ClassCounter::Evicted, ClassCounter::EvictedUnfetched),
        };
        counters.add(all, 1);
        if !fetched {
            counters.add(unfetched, 1);
        }
        if why == Unlinked::Evicted {
            counters.add(ClassCounter::EvictedNonzero, u64::from(item.expiry() != Expiry::Never));
            let idle = now.0.saturating_sub(item.header.last_access(now).0);
            counters.set(ClassCounter::EvictedTime, u64::from(idle));
        }
    }

    pub(crate) fn reset_stats(&self) {
        self.shell.registry().reset();
        self.gate.waits.reset();
        self.class_counters.iter().for_each(ClassCounters::reset);
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let held = self.shell.registry().held();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            pages_free: self.memory.pool_size(),
            index_bytes: self.table.committed() as u64,
            index_slots: self.table.buckets(),
            index_growing: self.table.is_crowded(),
            lock_waits: self.gate.waits.count(),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            region_no_room: self.shell.region().refusals(),
            classes: self.class_stats(&held),
            ..EngineStats::counted(self.shell.registry().since_reset())
        }
    }

    fn class_stats(&self, held: &[ClassUsage]) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let pages = self.memory.pages_of(class);
            let counts = self.class_counters(class).counts();
            if pages == 0 && counts == ClassCounts::default() {
                continue;
            }
            let geometry = self.memory.classes().geometry(class);
            let (held, free) = (held[usize::from(class.0)], self.memory.free_chunks(class));
            all.push(ClassStats {
                id: u32::from(class.0) + 1,
                chunk_size: u64::from(geometry.chunk),
                chunks_per_page: u64::from(geometry.chunks),
                pages,
                items: held.items,
                bytes: held.bytes,
                used_chunks: (pages * u64::from(geometry.chunks)).saturating_sub(free),
                free_chunks: free,
                counts,
                age: 0,
            });
        }
        all
    }
}
