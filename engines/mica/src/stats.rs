//! What the engine counts, summed up.

use crate::bucket::SLOTS;
use crate::core::Core;
use crate::entry::ONE_CLASS;
use crate::space::Space;
use guira_contract::Counter;
use guira_contract::{ClassStats, EngineStats};
use guira_memory::MIB;
use guira_memory::slab::ClassId;
use guira_sync::atomic::Ordering;
use guira_sync::words::WORD;

impl<S: Space> Core<S> {
    pub(crate) fn stats(&self) -> EngineStats {
        let held = self.shell.registry().held();
        let buckets: u64 = self.partitions.iter().map(|partition| partition.index.buckets()).sum();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            index_bytes: self.index_bytes(),
            index_slots: buckets * SLOTS as u64,
            index_growing: self.partitions.iter().any(|partition| partition.index.to_move().is_some()),
            index_growths: self.growths.load(Ordering::Relaxed),
            lock_waits: self.waiting.waits.count(),
            memory_limit: self.memory() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.used() as u64,
            region_no_room: self.shell.region().refusals(),
            classes: self.one_class(),
            ..EngineStats::counted(self.shell.registry().since_reset())
        }
    }

    /// There are no classes; tools that look at them see one, of words.
    fn one_class(&self) -> Vec<ClassStats> {
        let held = self.shell.registry().held().first().copied().unwrap_or_default();
        if held.items == 0 && self.shell.registry().since_reset()(Counter::ItemsStored) == 0 {
            return Vec::new();
        }
        let share = self.share();
        let bytes: usize = self.partitions.iter().map(|partition| partition.space_bytes(share)).sum();
        let used_chunks = held.bytes.div_ceil(WORD as u64);
        vec![ClassStats {
            id: u32::from(ONE_CLASS),
            chunk_size: WORD as u64,
            chunks_per_page: (MIB / WORD) as u64,
            pages: bytes.div_ceil(MIB) as u64,
            items: held.items,
            bytes: held.bytes,
            used_chunks,
            free_chunks: ((bytes / WORD) as u64).saturating_sub(used_chunks),
            counts: self.shell.registry().class_counts(ClassId(0)),
            age: 0,
        }]
    }
}
