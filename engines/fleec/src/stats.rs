//! What the engine counts, and how it is summed up.

use crate::core::Core;
use crate::update::Unlinked;
use guira_contract::{ClassCounts, ClassStats, EngineStats, Expiry, ItemState};
use guira_items::{Count, Held, Item};
use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use guira_sync::clock::Seconds;

/// What became of the items of a class. Relaxed: statistics.
#[derive(Debug, Default)]
pub(crate) struct Tally(Padded<[AtomicU64; TOLD]>);

/// The places of what is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    Evicted,
    EvictedNonzero,
    EvictedUnfetched,
    /// Not a count: how long the last one evicted had not been read or stored.
    EvictedTime,
    Reclaimed,
    ExpiredUnfetched,
    CrawlerReclaimed,
    CrawlerChecked,
    OutOfMemory,
}

/// How many numbers a tally has.
pub(crate) const TOLD: usize = Told::OutOfMemory as usize + 1;

impl Tally {
    pub(crate) fn add(&self, what: Told, amount: u64) {
        self.0[what as usize].fetch_add(amount, Ordering::Relaxed);
    }

    fn get(&self, what: Told) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    fn counts(&self) -> ClassCounts {
        ClassCounts {
            evicted: self.get(Told::Evicted),
            evicted_nonzero: self.get(Told::EvictedNonzero),
            evicted_unfetched: self.get(Told::EvictedUnfetched),
            evicted_time: self.get(Told::EvictedTime),
            reclaimed: self.get(Told::Reclaimed),
            expired_unfetched: self.get(Told::ExpiredUnfetched),
            crawler_reclaimed: self.get(Told::CrawlerReclaimed),
            crawler_checked: self.get(Told::CrawlerChecked),
            out_of_memory: self.get(Told::OutOfMemory),
        }
    }

    /// All of it, to be kept across a restart.
    pub(crate) fn saved(&self) -> [u64; TOLD] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Goes on from there.
    pub(crate) fn restore(&self, saved: [u64; TOLD]) {
        self.0.iter().zip(saved).for_each(|(count, saved)| count.store(saved, Ordering::Relaxed));
    }

    fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

impl Core {
    /// What became of the items of a class.
    pub(crate) fn tally(&self, class: ClassId) -> &Tally {
        &self.tallies[usize::from(class.0)]
    }

    /// Counts an item that went, for its class.
    pub(crate) fn tally_unlinked(&self, item: &Item<'_>, why: Unlinked, now: Seconds) {
        let Some(class) = self.memory.class_at(item.at) else {
            return;
        };
        let tally = self.tally(class);
        let fetched = item.header.state().has(ItemState::FETCHED);
        let (all, unfetched) = match why {
            Unlinked::Gone => return,
            Unlinked::Dead => (Told::Reclaimed, Told::ExpiredUnfetched),
            Unlinked::Evicted => (Told::Evicted, Told::EvictedUnfetched),
        };
        tally.add(all, 1);
        if !fetched {
            tally.add(unfetched, 1);
        }
        if why == Unlinked::Evicted {
            tally.add(Told::EvictedNonzero, u64::from(item.expiry() != Expiry::Never));
            let idle = now.0.saturating_sub(item.header.last_access(now).0);
            tally.0[Told::EvictedTime as usize].store(u64::from(idle), Ordering::Relaxed);
        }
    }

    pub(crate) fn reset_stats(&self) {
        self.registry.reset();
        self.gate.waits.reset();
        self.tallies.iter().for_each(Tally::reset);
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let since = self.registry.since_reset();
        let held = self.registry.held();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            total_items: since(Count::ItemsStored),
            evictions: since(Count::Evictions),
            evicted_unfetched: since(Count::EvictedUnfetched),
            index_evictions: 0,
            reclaimed: since(Count::Reclaimed),
            expired_unfetched: since(Count::ExpiredUnfetched),
            crawler_reclaimed: since(Count::CrawlerReclaimed),
            crawler_checked: since(Count::CrawlerChecked),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            moving: false,
            pages_moved: since(Count::PagesMoved),
            items_rescued: 0,
            pages_free: self.memory.pool_size(),
            index_bytes: self.table.committed() as u64,
            index_slots: self.table.buckets(),
            index_growing: self.table.is_crowded(),
            index_growths: 0,
            displacements: 0,
            read_retries: since(Count::ReadRetries),
            write_retries: since(Count::WriteRetries),
            swaps_lost: since(Count::SwapsLost),
            lock_waits: self.gate.waits.count(),
            hand_steps: since(Count::HandSteps),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            region_no_room: self.region.refusals(),
            policy_item_bytes: 0,
            classes: self.class_stats(&held),
        }
    }

    fn class_stats(&self, held: &[Held]) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let pages = self.memory.pages_of(class);
            let counts = self.tally(class).counts();
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
