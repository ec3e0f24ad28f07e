//! What a slab engine counts, and how it is summed up.

use crate::core::Core;
use crate::index::Scheme;
use guira_contract::{ClassStats, EngineStats};
use guira_items::ClassUsage;
use guira_memory::slab::{ClassGuard, ClassId};
use guira_sync::waits::Waits;

pub(crate) fn reset<X: Scheme>(core: &Core<X>) {
    core.items.shell().registry().reset();
    waits(core).into_iter().for_each(Waits::reset);
}

/// Of the locks that sessions take.
fn waits<X: Scheme>(core: &Core<X>) -> [&Waits; 3] {
    [core.index.waits(), core.evictor.waits(), core.pool.memory().waits()]
}

pub(crate) fn collect<X: Scheme>(core: &Core<X>) -> EngineStats {
    let held = core.items.shell().registry().held();
    EngineStats {
        items: held.iter().map(|held| held.items).sum(),
        bytes: held.iter().map(|held| held.bytes).sum(),
        crawling: core.crawler.is_crawling(),
        crawls: core.crawler.rounds(),
        moving: core.pool.drains().is_draining(),
        items_rescued: core.pool.drains().items_rescued(),
        parts_rescued: core.pool.drains().parts_rescued(),
        pages_free: core.pool.memory().pool_size() as u64,
        index_bytes: core.index.bytes() as u64,
        index_slots: core.index.slots(),
        index_growing: core.index.is_growing(),
        index_growths: core.index.growths(),
        lock_waits: waits(core).map(Waits::count).into_iter().sum(),
        memory_limit: core.pool.budget().limit() as u64,
        memory_reserve: core.sizing.plan().reserve as u64,
        memory_used: core.pool.budget().used() as u64,
        short_lived_untracked: core.short_lived.untracked(),
        short_lived_busy: core.short_lived.busy(),
        region_no_room: core.items.region().refusals(),
        policy_item_bytes: policy_item_bytes(core, &held),
        classes: class_stats(core, &held),
        ..EngineStats::counted(core.items.shell().registry().since_reset())
    }
}

/// Bytes that the policy notes of each item in the class with the most items.
fn policy_item_bytes<X: Scheme>(core: &Core<X>, held: &[ClassUsage]) -> u64 {
    let classes = core.pool.memory().classes();
    let items = |class: &ClassId| held.get(usize::from(class.0)).map_or(0, |held| held.items);
    let fullest = classes.ids().max_by_key(items);
    fullest.map_or(0, |class| core.evictor.metadata_of_chunk(classes.geometry(class)) as u64)
}

/// How long ago the first item from word `word` of a class's pages on, in that page, was last read or stored.
fn age_at<X: Scheme>(core: &Core<X>, guard: &ClassGuard<'_>, word: usize) -> u64 {
    let per_page = guard.geometry().bitmap_words as usize;
    let Some(page) = guard.pages().get(word / per_page) else {
        return 0;
    };
    let now = core.items.shell().time_seen();
    let ahead =
        core.pool.memory().start_of(*page).plus(guard.geometry().start_of((word % per_page) as u32 * 64));
    let mut chunks = guard.occupied_chunks(*page).into_iter().filter(|at| *at >= ahead);
    let item = chunks.find_map(|at| core.items.at(at, now));
    item.map_or(0, |item| core.items.idle(&item))
}

fn class_stats<X: Scheme>(core: &Core<X>, held: &[ClassUsage]) -> Vec<ClassStats> {
    let mut all = Vec::new();
    for class in core.pool.memory().classes().ids() {
        let hand = core.evictor().lock(class);
        let counts = core.items.shell().registry().class_counts(class);
        let guard = core.pool.memory().lock(class);
        let usage = guard.usage();
        if usage.pages == 0 && counts.evicted == 0 {
            continue;
        }
        let next = core.evictor().next_to_go(class, &hand, guard.pages());
        let word = hand.hand().word();
        drop(hand);
        let age = match next {
            Some(at) => {
                core.items.at(at, core.items.shell().time_seen()).map_or(0, |item| core.items.idle(&item))
            }
            None => age_at(core, &guard, word),
        };
        let held = held[usize::from(class.0)];
        all.push(ClassStats {
            id: u32::from(class.0) + 1,
            chunk_size: u64::from(guard.geometry().chunk),
            chunks_per_page: u64::from(guard.geometry().chunks),
            pages: usage.pages,
            items: held.items,
            bytes: held.bytes,
            used_chunks: usage.chunks - usage.free,
            free_chunks: usage.free,
            counts,
            age,
            age_weight_ppm: core.pool.balance().weight_ppm(class),
        });
    }
    all
}
