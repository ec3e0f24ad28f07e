//! The sums of what the engine counts.

use crate::core::Core;
use guira_contract::{ClassCounts, ClassStats, EngineStats};
use guira_items::ClassUsage;

pub(crate) fn of(core: &Core) -> EngineStats {
    let (registry, budget) = (core.shell.registry(), core.sizing.budget());
    let held = registry.held();
    EngineStats {
        items: held.iter().map(|held| held.items).sum(),
        bytes: held.iter().map(|held| held.bytes).sum(),
        crawling: core.expiry.crawler.is_crawling(),
        crawls: core.expiry.crawler.crawls(),
        items_rescued: core.memory.items_rescued(),
        pages_free: core.memory.slab().pool_size(),
        index_bytes: core.table.committed() as u64,
        index_slots: core.table.buckets(),
        index_growing: core.table.is_crowded(),
        lock_waits: core.table.waits().count(),
        memory_limit: budget.limit() as u64,
        memory_reserve: core.plan.reserve as u64,
        memory_used: budget.used() as u64,
        short_lived_untracked: core.expiry.short_lived.untracked(),
        short_lived_busy: core.expiry.short_lived.busy(),
        region_no_room: core.shell.region().refusals(),
        classes: class_stats(core, &held),
        ..EngineStats::counted(registry.since_reset())
    }
}

pub(crate) fn reset(core: &Core) {
    core.shell.registry().reset();
    core.table.waits().reset();
}

fn class_stats(core: &Core, held: &[ClassUsage]) -> Vec<ClassStats> {
    let mut all = Vec::new();
    for class in core.memory.classes().ids() {
        let pages = core.memory.slab().pages_of(class);
        let counts = core.shell.registry().class_counts(class);
        if pages == 0 && counts == ClassCounts::default() {
            continue;
        }
        let geometry = core.memory.classes().geometry(class);
        let (held, free) = (held[usize::from(class.0)], core.memory.free_chunks(class));
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
            age_weight_ppm: 1_000_000,
        });
    }
    all
}
