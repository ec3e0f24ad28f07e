//! Flushes: every item that was stored before is dead at once, and removed later.

use crate::core::Core;
use crate::index::Scheme;
use crate::items::Items;
use guira_contract::{FlushBusy, ItemView};
use guira_items::{Flushable, INLINE_MAX, Removal};
use guira_memory::Offset;
use guira_memory::slab::{PageId, PageState};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;

/// Lets a flush take effect that has fallen due. Every operation begins with this; no lock may be held.
#[inline(always)]
pub(crate) fn settle<X: Scheme>(core: &Core<X>, now: Seconds) {
    core.items.flushes().settle(now, core);
}

/// Items that are stored now are dead from `at` on.
pub(crate) fn schedule<X: Scheme>(core: &Core<X>, now: Seconds, at: Seconds) {
    core.items.flushes().schedule(now, at, core);
}

/// Items that are stored now, and whose keys begin with one of `prefixes`, are dead.
///
/// # Errors
/// If earlier flushes are still under way.
pub(crate) fn flush_prefixes<X: Scheme>(
    core: &Core<X>,
    now: Seconds,
    prefixes: &[&[u8]],
) -> Result<(), FlushBusy> {
    core.items.flushes().flush_prefixes(now, prefixes, core)
}

impl<X: Scheme> Flushable for Core<X> {
    type Mark = Ticket;

    fn mark(&self) -> Ticket {
        self.pool.quiescence().ticket()
    }

    fn sweep(&self, kept: u32, _now: Seconds) {
        if self.items.count() > 0 {
            unlink_flushed(self, kept);
        }
    }
}

/// Removes every item that is not of generation `kept`: the crawler's work at one go.
fn unlink_flushed<X: Scheme>(core: &Core<X>, kept: u32) {
    // The caller may have no session: no page changes its class under this sweep.
    let _participant = core.pool.quiescence().register();
    let memory = core.pool.memory();
    for page in (0..memory.pages_touched()).map(PageId) {
        // A page that is draining may still hold an item that could not be evicted because it is pinned.
        let (PageState::Serving(class) | PageState::Draining(class)) = memory.state_of(page) else {
            continue;
        };
        let chunks = memory.lock(class).occupied_chunks(page);
        for at in chunks {
            unlink_if_flushed(core, at, kept);
        }
    }
}

fn unlink_if_flushed<X: Scheme>(core: &Core<X>, at: Offset, kept: u32) {
    let is_flushed = || core.items.at(at, Seconds(0)).is_some_and(|item| item.header.generation() != kept);
    let Some(hash) = core.items.hash_at(at).filter(|_| is_flushed()) else {
        return;
    };
    let held = core.index.lock(hash);
    let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
    match slot {
        Some(slot) if is_flushed() => held.remove(slot),
        _ => return held.release_unchanged(),
    }
    drop(held);
    let Some(item) = core.items.at(at, Seconds(0)) else {
        return;
    };
    let removed = item.removed(core.pool.memory().class_at(at), Items::bytes_of(&item), Seconds(0));
    core.flush_counters.item_removed(Removal::Dead, &removed);
    if item.value_len() <= INLINE_MAX || core.pins.unlinked(at) {
        core.items.freed_chunks_of(at).into_iter().for_each(|chunk| core.pool.give(chunk));
    }
}
