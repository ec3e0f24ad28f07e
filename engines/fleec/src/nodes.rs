//! Where the nodes of the list are, and what becomes of those that are taken off it.

use crate::core::Core;
use crate::link::Link;
use crate::list::{Nodes, Search, Spot, Target};
use crate::options::LINK_BYTES;
use crate::table::Growth;
use guira_items::SessionCounters;
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;
use std::hint::select_unpredictable;

/// The nodes of an engine, as somebody sees them who changes the list.
#[derive(Debug)]
pub(crate) struct CoreNodes<'n, 'r> {
    pub(crate) core: &'n Core,
    /// His announcements.
    pub(crate) hazard: &'n Hazard,
    /// What he has taken off the list, and nobody else will find.
    retired: &'r mut Vec<Offset>,
    /// He has marked a node and not taken it off.
    has_left: bool,
}

impl<'n, 'r> CoreNodes<'n, 'r> {
    pub(crate) fn new(core: &'n Core, hazard: &'n Hazard, retired: &'r mut Vec<Offset>) -> Self {
        CoreNodes { core, hazard, retired, has_left: false }
    }
}

/// What a session changes the list with.
#[derive(Debug)]
pub(crate) struct Hands<'s> {
    pub(crate) core: &'s Core,
    pub(crate) hazard: &'s Hazard,
    pub(crate) retired: &'s mut Vec<Offset>,
    pub(crate) counters: &'s SessionCounters,
}

impl<'s> Hands<'s> {
    /// Finds the place of `target` and shows it to `act`. What is found stays as it is until `act` is over.
    pub(crate) fn at_spot<R>(
        &mut self,
        bucket: u64,
        target: Target,
        matches: impl Fn(Offset) -> bool,
        act: impl FnOnce(&mut CoreNodes<'s, '_>, &Spot<'s>) -> R,
    ) -> R {
        let (core, hazard) = (self.core, self.hazard);
        let mut nodes = CoreNodes::new(core, hazard, self.retired);
        let mut search = Search::new(hazard);
        let _pass = core.gate.enter(bucket);
        let spot = search.spot(&mut nodes, core.table.head(bucket), target, &matches);
        let result = act(&mut nodes, &spot);
        if nodes.has_left {
            // Whoever looks for the place takes off what is marked on the way. Without this it would stay until somebody comes by.
            search.spot(&mut nodes, core.table.head(bucket), target, &matches);
        }
        search.told(self.counters);
        hazard.clear();
        result
    }

    /// Adds a bucket if there are too many items for those that there are.
    pub(crate) fn grow(&mut self) -> Growth {
        let (core, hazard) = (self.core, self.hazard);
        let mut nodes = CoreNodes::new(core, hazard, self.retired);
        let mut search = Search::new(hazard);
        // Of the bucket that is about to be divided.
        let _pass = core.gate.enter(core.table.buckets());
        let growth = core.table.grow(&mut nodes, &mut search, &core.budget);
        hazard.clear();
        search.told(self.counters);
        growth
    }
}

impl Core {
    /// The link of the item at `at`, which may come from a racy read.
    #[inline(always)]
    pub(crate) fn link_of_item(&self, at: Offset) -> Option<&AtomicU64> {
        let link = Offset::from_bytes((at.bytes() as u64).wrapping_sub(LINK_BYTES as u64));
        Some(&self.shell.region().window::<1>(link)?[0])
    }

    /// Asks for the item at `at`.
    #[inline(always)]
    pub(crate) fn prefetch_item(&self, at: Offset) {
        self.shell.region().prefetch(at.bytes() - LINK_BYTES);
        self.shell.region().prefetch(at.bytes() + 48);
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
        self.core.item(at, Seconds(0)).map(|item| self.core.shell.hash(item.key(&mut [0; 256])).0)
    }

    fn unlinked(&mut self, at: Offset) {
        self.retired.push(at);
    }

    fn left_behind(&mut self) {
        self.has_left = true;
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

    fn left_behind(&mut self) {}
}
