//! Removing what has expired or was flushed.

use crate::index::Target;
use crate::local::Local;
use guira_contract::Counter;
use guira_items::Removal;
use guira_memory::Offset;
use guira_sync::clock::Seconds;

/// A store without memory, where nothing is evicted, looks for dead items in this many buckets.
const LOOKED_FOR_DEAD: u64 = 256;

struct Cleaned {
    /// The next bucket on the list.
    next: Option<u64>,
    removed: usize,
    /// Something was not where it had been.
    missing: bool,
}

/// What has become of an item that was to be removed or stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Removed,
    /// It is alive, and of the generation of new items.
    Stamped,
    /// It was not where it had been.
    Missing,
}

/// Removes what is dead between a bucket and the next one on the list, and stamps the rest with the generation of new items.
fn clean(local: &mut Local, bucket: u64, now: Seconds) -> Cleaned {
    let mut cleaned = clean_once(local, bucket, now);
    let mut removed = cleaned.removed;
    // What was missing may have been replaced by a session that judged it before a flush: the copy is here, and has to be judged as well.
    while cleaned.missing {
        cleaned = clean_once(local, bucket, now);
        removed += cleaned.removed;
    }
    local.reclaim_some();
    Cleaned { removed, ..cleaned }
}

fn clean_once(local: &mut Local, bucket: u64, now: Seconds) -> Cleaned {
    let core = local.core();
    let generation = core.flushes.generation();
    let mut seen: Vec<(Offset, Option<u64>)> = Vec::new();
    let next = core.table.scan_bucket(bucket, &mut seen, |at| {
        let item = core.item(at, now)?;
        let needs_work = item.header.generation() != generation || core.dead(&item, now).is_some();
        Some((at, needs_work.then(|| core.hash_of(&item))))
    });
    let mut cleaned = Cleaned { next, removed: 0, missing: false };
    for (at, hash) in seen {
        let class = local.core().memory.class_at(at);
        let outcome = hash.map(|hash| remove_or_stamp(local, at, hash, now));
        let is_removed = outcome == Some(Outcome::Removed);
        cleaned.removed += usize::from(is_removed);
        cleaned.missing |= outcome == Some(Outcome::Missing);
        local.counters().crawled(class, 1, u64::from(is_removed));
    }
    cleaned
}

/// Removes the item at `at` if it is dead, and otherwise stamps it with the generation of new items.
fn remove_or_stamp(local: &mut Local, at: Offset, hash: u64, now: Seconds) -> Outcome {
    loop {
        if local.editor().remove_at(at, hash, Removal::Dead, now) {
            return Outcome::Removed;
        }
        let mut editor = local.editor();
        let core = editor.core();
        let place = (core.table.bucket_of(hash), Target::Item(hash));
        let stamped = editor.at_spot(
            place,
            |other| other == at,
            |_, spot| {
                // Loaded before the item is judged.
                let generation = core.flushes.generation();
                let Some(item) = spot.node.and_then(|node| core.item(node.at, now)) else {
                    return Some(Outcome::Missing);
                };
                let is_alive = core.flushes.dead_as_of(generation, &item, now).is_none();
                is_alive.then(|| {
                    item.stamp(generation);
                    Outcome::Stamped
                })
            },
        );
        // Otherwise it has died between the two looks.
        if let Some(outcome) = stamped {
            return outcome;
        }
    }
}

/// Follows up an item at `at` that was put into the table with the stamp of `generation`. If there was a flush meanwhile the crawler may have passed already:
/// the item is removed or stamped anew. See [`guira_items::Flushes::is_still`].
#[inline]
pub(crate) fn follow_up(local: &mut Local, (at, hash): (Offset, u64), generation: u32, now: Seconds) {
    if !local.core().flushes.is_still(generation) {
        stamp_again(local, (at, hash), now);
    }
}

#[cold]
#[inline(never)]
fn stamp_again(local: &mut Local, (at, hash): (Offset, u64), now: Seconds) {
    loop {
        let generation = local.core().flushes.generation();
        let outcome = remove_or_stamp(local, at, hash, now);
        if outcome != Outcome::Stamped || local.core().flushes.is_still(generation) {
            return;
        }
    }
}

/// Does a slice of the crawler's work. False if there is nothing to do for now.
pub(crate) fn crawl(local: &mut Local, now: Seconds) -> bool {
    let core = local.core().clone();
    core.expiry.crawler.crawl((&core.flushes, &core.quiescence), now, |bucket| clean(local, bucket, now).next)
}

/// Removes some of the short-lived items that have expired. False if there are none left.
pub(crate) fn remove_short_lived(local: &mut Local, now: Seconds) -> bool {
    let Some(due) = local.core().expiry.short_lived.take_due(now) else {
        return false;
    };
    let core = local.core().clone();
    for at in due {
        // Whatever lies there now: it is removed only if the table has it under this hash.
        let hash =
            core.item(at, now).filter(|item| core.dead(item, now).is_some()).map(|item| core.hash_of(&item));
        let is_removed = hash.is_some_and(|hash| local.editor().remove_at(at, hash, Removal::Dead, now));
        local.counters().add(Counter::ShortLivedReclaimed, u64::from(is_removed));
    }
    local.reclaim_some();
    true
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
