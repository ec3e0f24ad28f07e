//! Removing what has expired or was flushed.

use crate::local::Local;
use guira_items::Removal;
use guira_memory::Offset;
use guira_sync::clock::Seconds;

/// A store without memory, where nothing is evicted, looks for dead items in this many buckets.
const LOOKED_FOR_DEAD: u64 = 256;

struct Cleaned {
    /// The next bucket on the list.
    next: Option<u64>,
    removed: usize,
}

/// Removes what is dead between a bucket and the next one on the list.
fn clean(local: &mut Local, bucket: u64, now: Seconds) -> Cleaned {
    let core = local.core().clone();
    let mut seen: Vec<(Offset, Option<u64>)> = Vec::new();
    let next = core.table.scan_bucket(bucket, &mut seen, |at| {
        let item = core.item(at, now)?;
        Some((at, core.dead(&item, now).map(|_| core.hash_of(&item))))
    });
    let mut removed = 0;
    for (at, dead) in seen {
        let class = core.memory.class_at(at);
        let is_removed = dead.is_some_and(|hash| local.editor().remove_at(at, hash, Removal::Dead, now));
        removed += usize::from(is_removed);
        local.counters().crawled(class, 1, u64::from(is_removed));
    }
    local.reclaim_some();
    Cleaned { next, removed }
}

/// Does a slice of the crawler's work. False if there is nothing to do for now.
pub(crate) fn crawl(local: &mut Local, now: Seconds) -> bool {
    let core = local.core().clone();
    core.crawler.crawl(&core.flushes, now, |bucket| clean(local, bucket, now).next)
}

/// Removes what is dead from the next buckets of the hand. True if there was anything.
pub(crate) fn remove_some(local: &mut Local, now: Seconds) -> bool {
    let buckets = local.core().table.turn_hand(LOOKED_FOR_DEAD);
    buckets.map(|bucket| clean(local, bucket, now).removed).sum::<usize>() > 0
}

/// Removes every dead item.
pub(crate) fn remove_all(local: &mut Local, now: Seconds) {
    let mut bucket = Some(0);
    while let Some(at) = bucket {
        bucket = clean(local, at, now).next;
    }
}
