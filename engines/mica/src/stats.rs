//! The sums of what the engine counts.

use crate::core::Core;
use crate::entry::ONE_CLASS;
use crate::index::{BUCKET_BYTES, SLOTS};
use crate::store::ItemStore;
use guira_contract::{ClassStats, Counter, EngineStats};
use guira_memory::MIB;
use guira_memory::slab::ClassId;
use guira_sync::atomic::Ordering;
use guira_sync::words::WORD;

pub(crate) fn of<S: ItemStore>(core: &Core<S>) -> EngineStats {
    let (registry, sizing) = (core.shell.registry(), &core.sizing);
    let held = registry.held();
    let indexes = || core.partitions.iter().map(|partition| partition.index());
    let buckets: u64 = indexes().map(|index| index.buckets()).sum();
    let spares: u64 = indexes().map(|index| index.spares_in_use()).sum();
    EngineStats {
        items: held.iter().map(|held| held.items).sum(),
        bytes: held.iter().map(|held| held.bytes).sum(),
        crawling: core.crawler.is_crawling(),
        crawls: core.crawler.crawls(),
        index_bytes: (buckets + spares) * BUCKET_BYTES as u64,
        index_slots: buckets * SLOTS as u64,
        index_growing: indexes().any(|index| index.to_move().is_some()),
        index_growths: core.growths.load(Ordering::Relaxed),
        lock_waits: core.locks.waits().count(),
        memory_limit: sizing.memory() as u64,
        memory_reserve: core.plan.reserve as u64,
        memory_used: core.used() as u64,
        short_lived_untracked: 0,
        short_lived_busy: 0,
        region_no_room: core.shell.region().refusals(),
        classes: one_class(core),
        ..EngineStats::counted(registry.since_reset())
    }
}

pub(crate) fn reset<S>(core: &Core<S>) {
    core.shell.registry().reset();
    core.locks.waits().reset();
}

/// There are no classes; tools that look at them see one, of words.
fn one_class<S: ItemStore>(core: &Core<S>) -> Vec<ClassStats> {
    let registry = core.shell.registry();
    let held = registry.held().first().copied().unwrap_or_default();
    if held.items == 0 && registry.since_reset()(Counter::ItemsStored) == 0 {
        return Vec::new();
    }
    let share = core.sizing.share();
    let bytes: usize = core.partitions.iter().map(|partition| partition.store_bytes(share)).sum();
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
        counts: registry.class_counts(ClassId(0)),
        age: 0,
        age_weight_ppm: 1_000_000,
    }]
}
