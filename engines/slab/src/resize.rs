//! Changing the size of memory while it is in use.
//!
//! More memory is a higher ceiling and nothing else: address space, metadata and arenas of tables were reserved for it when the
//! engine was opened. Less memory is a lower ceiling, below what is used at that moment. Nothing can be taken until it is reached, so
//! that stores live on what they evict, and [`SlabSession::shrink_step`] goes towards it in steps: pages that nobody uses are given back first,
//! then pages of the classes whose hands are slowest are drained, and a table that is larger than the items that are left will
//! need grows, downwards, into a smaller one.
//!
//! The metadata of pages is not given back: 0.4 % of the most memory there ever was.

use crate::core::Core;
use crate::index::{Index, Scheme};
use crate::reclaim::SCARCE_BELOW;
use crate::session::SlabSession;
use guira_contract::ResizeError;
use guira_items::Eviction;
use guira_items::MINIMUM;
use guira_memory::slab::PAGE_BYTES;
use guira_sync::atomic::Ordering;
use std::sync::PoisonError;

/// What was decided about the size of memory.
#[derive(Debug)]
pub(crate) struct Sizing {
    /// Bytes that are charged for metadata.
    pub(crate) metadata: usize,
    /// What was used, or could be, when memory was last made smaller. Until the new ceiling is reached this one holds.
    before: usize,
}

/// How full a smaller table is to be when memory is as small as it shall be …
const SMALLER_LOAD_PERCENT: u64 = 85;
/// … and at the most when entries begin to move into it.
const MOVED_LOAD_PERCENT: u64 = 90;

/// So many pages may hold something that cannot be evicted now, such as a value that is being sent, before no more are drained.
const DRAINING_MAX: usize = 64;

/// The page that goes is the least read of so many before the hand. More than when one class gives to another, since the hand does
/// not move on meanwhile: what is read would collect under it, and go then.
const SHRINK_CHOICE: usize = 128;

impl Sizing {
    pub(crate) fn new(metadata: usize, memory: usize) -> Self {
        Sizing { metadata, before: memory }
    }
}

impl<X: Scheme> Core<X> {
    /// From now on `memory` bytes may be committed.
    pub(crate) fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        let mut sizing = self.sizing.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.plan.reserve;
        if memory > most {
            return Err(ResizeError::TooBig { memory, most });
        }
        let metadata = self.plan.metadata(memory, self.shell.commit_step()).max(sizing.metadata);
        // A table, and the steps in which it is committed, want a share as well.
        let least = MINIMUM.max(2 * self.options.engine.max_item_size).max(8 * sizing.metadata);
        if memory < least {
            return Err(ResizeError::TooSmall { memory, least });
        }
        self.shell.check_room(self.budget.limit(), memory)?;
        sizing.before = self.budget.used().max(self.budget.limit());
        // What was kept for a larger table was meant for another size.
        self.budget.keep(0);
        self.budget.set_limit(memory);
        self.budget.charge(metadata - sizing.metadata);
        sizing.metadata = metadata;
        // Relaxed: which class an item goes to is a matter of economy.
        self.scarce.store(memory < SCARCE_BELOW, Ordering::Relaxed);
        Ok(())
    }

    /// Begins to move the table into a smaller one, if that is worth it and the items that are left fit. Returns the bytes that will
    /// be given back when a table has been left behind, now or earlier.
    fn shrink_table(&self) -> usize {
        if self.index.can_grow() {
            let (buckets, wanted) = (self.index.buckets().0, self.smaller_table());
            let fits = self.items_now() * 100 <= Index::<X>::slots_of(wanted) * MOVED_LOAD_PERCENT;
            let (old, new) = (self.index.committed(buckets), self.index.committed(wanted));
            let before = self.sizing.lock().unwrap_or_else(PoisonError::into_inner).before;
            let affordable = self.budget.used() + new <= before;
            if wanted < buckets - buckets / 5
                && new < old
                && fits
                && affordable
                && self.index.begin_growth(wanted, &self.quiescence)
            {
                self.budget.charge(new);
            }
        }
        self.index.to_be_discarded()
    }

    /// How many buckets the items have use for that memory will hold, if they stay as large as they are.
    fn smaller_table(&self) -> u32 {
        let items = self.items_now();
        let in_items = self.budget.used().saturating_sub(self.index.bytes()) as u64;
        let each = in_items / items.max(1) + 7;
        let stay = match self.options.engine.eviction {
            Eviction::On => 0,
            Eviction::Off => items,
        };
        let expected = (self.budget.limit() as u64 / each).max(stay);
        let buckets = Index::<X>::buckets_for(expected, SMALLER_LOAD_PERCENT);
        let least = self.plan.buckets_least::<X>(self.budget.limit());
        (buckets.min(u64::from(u32::MAX)) as u32).clamp(least, self.plan.buckets_max)
    }
}

impl<X: Scheme> SlabSession<X> {
    /// Goes a step towards a ceiling that is lower than what is used. False if there is nothing to do for now.
    pub(crate) fn shrink_step(&mut self) -> bool {
        let core = self.core.clone();
        core.release_drained();
        let excess = core.budget.excess();
        if excess == 0 {
            return false;
        }
        if core.memory.give_back(core.balance.waiting()) {
            return true;
        }
        let (draining, retired) = core.upkeep.on_their_way();
        let coming = core.shrink_table() + (draining + retired) * PAGE_BYTES;
        excess > coming && draining < DRAINING_MAX && self.drain_coldest(SHRINK_CHOICE)
    }
}
