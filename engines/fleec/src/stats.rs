//! What the engine counts, and how it is summed up.

use crate::core::Core;
use guira_contract::{ClassCounts, ClassStats, EngineStats};
use guira_items::{Count, Held};

impl Core {
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
            pages_free: self.memory.pool_size(),
            index_bytes: self.table.committed() as u64,
            index_slots: self.table.buckets(),
            index_growing: self.table.is_crowded(),
            index_growths: 0,
            displacements: 0,
            read_retries: since(Count::ReadRetries),
            hand_steps: since(Count::HandSteps),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            policy_item_bytes: 0,
            classes: self.class_stats(&held),
        }
    }

    fn class_stats(&self, held: &[Held]) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let pages = self.memory.pages_of(class);
            if pages == 0 {
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
                counts: ClassCounts::default(),
                age: 0,
            });
        }
        all
    }
}
