//! What the engine counts, and how it is summed up.

use crate::core::Core;
use guira_contract::{ClassCounts, ClassStats, EngineStats};
use guira_items::ClassUsage;

impl Core {
    pub(crate) fn reset_stats(&self) {
        self.shell.registry().reset();
        self.gate.waits.reset();
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let held = self.shell.registry().held();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            items_rescued: self.upkeep.items_rescued(),
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
            let counts = self.shell.registry().class_counts(class);
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
