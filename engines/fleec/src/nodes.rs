//! Where the nodes of the list are, and what becomes of those that are taken off it.

use crate::core::Core;
use crate::link::Link;
use crate::list::Nodes;
use crate::options::LINK_BYTES;
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::hint::select_unpredictable;

/// The nodes of an engine, as a session sees them.
#[derive(Debug)]
pub(crate) struct CoreNodes<'n, 'r> {
    pub(crate) core: &'n Core,
    /// What this session has taken off the list, and nobody else will find.
    pub(crate) retired: &'r mut Vec<Offset>,
}

impl Core {
    /// The link of the item at `at`, which may come from a racy read.
    #[inline(always)]
    pub(crate) fn link_of_item(&self, at: Offset) -> Option<&AtomicU64> {
        let link = Offset::from_bytes((at.bytes() as u64).wrapping_sub(LINK_BYTES as u64));
        Some(&self.region.window::<1>(link)?[0])
    }

    /// Asks for the item at `at`.
    #[inline(always)]
    pub(crate) fn prefetch_item(&self, at: Offset) {
        self.region.prefetch(at.bytes() - LINK_BYTES);
        self.region.prefetch(at.bytes() + 48);
    }

    /// The item after the one at `at`, or that one if it is the last of its bucket: a guess, good for asking for it.
    #[inline(always)]
    pub(crate) fn after_item(&self, at: Offset) -> Offset {
        let Some(link) = self.link_of_item(at) else {
            return at;
        };
        let next = Link(link.load(Ordering::Relaxed)).next();
        // As likely as not: a branch would be mispredicted, and that costs more than to ask for the same item again.
        select_unpredictable(self.table.has(next) || next.bytes() == 0, at, next)
    }

    /// The link of the node at `at`.
    #[inline(always)]
    pub(crate) fn link_at(&self, at: Offset) -> Option<&AtomicU64> {
        match self.table.bucket_at(at) {
            Some(bucket) => Some(self.table.head(bucket)),
            None => self.link_of_item(at),
        }
    }
}

impl<'n> Nodes<'n> for CoreNodes<'n, '_> {
    #[inline(always)]
    fn link(&self, at: Offset) -> Option<&'n AtomicU64> {
        self.core.link_at(at)
    }

    #[inline(always)]
    fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.core.table.bucket_at(at)
    }

    fn hash_at(&self, at: Offset) -> Option<u64> {
        self.core.item(at, Seconds(0)).map(|item| self.core.hash(item.key(&mut [0; 256])).0)
    }

    fn unlinked(&mut self, at: Offset) {
        self.retired.push(at);
    }
}

/// The same for a reader, who takes nothing off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadNodes<'n>(pub(crate) &'n Core);

impl<'n> Nodes<'n> for ReadNodes<'n> {
    #[inline(always)]
    fn link(&self, at: Offset) -> Option<&'n AtomicU64> {
        self.0.link_at(at)
    }

    #[inline(always)]
    fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.0.table.bucket_at(at)
    }

    fn hash_at(&self, _at: Offset) -> Option<u64> {
        None
    }

    fn unlinked(&mut self, _at: Offset) {}
}
