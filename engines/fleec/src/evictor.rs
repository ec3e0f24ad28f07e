//! Which items go when memory is needed: the hand goes around the buckets, lowers their CLOCK values and evicts the items of those that reach the end.

use crate::editor::Editor;
use crate::index::Target;
use crate::index::bucket_clock::{self, PATIENCE};
use guira_contract::{Counter, ItemState};
use guira_items::Removal;
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use std::cell::RefCell;

/// The hand visits this many buckets at once, so that their items can be prefetched.
const SWEEP: u64 = 32;

/// Items of a bucket that are spared in one visit.
const SPARED_MAX: usize = 8;

/// What the hand evicts of a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Everything,
    /// Items that were never read, and not replaced since the last visit: in a bucket that is read all the time they would stay for ever.
    Unused,
}

/// Turns the hand until something was evicted, or it has visited all buckets. Returns the number of evicted items.
pub(crate) fn sweep(editor: &mut Editor<'_>, now: Seconds) -> u64 {
    let (core, counters) = (editor.core(), editor.counters());
    let mut visited = 0;
    loop {
        let mut victims = [(0, Goes::Everything); SWEEP as usize];
        let mut count = 0;
        for bucket in core.table.turn_hand(SWEEP) {
            let goes = match core.table.decay(bucket) {
                None => Some(Goes::Everything),
                Some(_) if visited >= PATIENCE => Some(Goes::Everything),
                Some(value) => bucket_clock::has_lodgers(value).then_some(Goes::Unused),
            };
            if let Some((goes, at)) = goes.zip(core.table.first_of(bucket)) {
                core.shell.region().prefetch(at.bytes());
                victims[count] = (bucket, goes);
                count += 1;
            }
        }
        visited += SWEEP;
        counters.add(Counter::HandSteps, SWEEP);
        let evict = |(bucket, goes): &(u64, Goes)| evict_bucket(editor, *bucket, *goes, now);
        let evicted = victims[..count].iter().map(evict).sum::<u64>();
        if evicted > 0 || visited > 2 * PATIENCE + core.table.buckets() {
            return evicted;
        }
    }
}

/// Evicts items of a bucket. Returns how many.
fn evict_bucket(editor: &mut Editor<'_>, bucket: u64, goes: Goes, now: Seconds) -> u64 {
    let (core, counters) = (editor.core(), editor.counters());
    let is_unread = |at| core.item(at, now).is_none_or(|item| !item.header.state().has(ItemState::FETCHED));
    let mut evicted = 0;
    // Items that were replaced since the last visit go at the next one, unless they are replaced again.
    let spared: RefCell<Vec<Offset>> = RefCell::default();
    loop {
        let more = editor.at_spot(
            (bucket, Target::First),
            |at| goes == Goes::Everything || (is_unread(at) && !spared.borrow().contains(&at)),
            |nodes, spot| {
                let node = spot.node?;
                let item = core.item(node.at, now)?;
                let is_dead = core.dead(&item, now).is_some();
                if goes == Goes::Unused && !is_dead && item.header.overwrote() {
                    // Bounded, or the hand would stay here while a client replaces an item over and over.
                    item.forget_overwriting();
                    let mut spared = spared.borrow_mut();
                    spared.push(node.at);
                    return (spared.len() < SPARED_MAX).then_some(0);
                }
                // An item that is being sent or changed would be lost without giving memory.
                if core.announcements.is_held(&item, nodes.hazard()) {
                    return None;
                }
                let removed = spot.remove(nodes, node);
                if removed {
                    let why = if is_dead { Removal::Dead } else { Removal::Evicted };
                    core.account_removed(counters, &item, why, now);
                } else {
                    counters.add(Counter::SwapsLost, 1);
                }
                Some(i64::from(removed))
            },
        );
        match more {
            None => return evicted,
            Some(removed) => {
                editor.count_items(-removed);
                evicted += removed as u64;
            }
        }
    }
}
