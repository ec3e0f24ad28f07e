//! Changing the list.

use super::list::{Nodes, Search, Spot, Target};
use super::table::{Growth, Index};
use guira_items::{Item, SessionCounters, Shell};
use guira_memory::{Budget, Offset};
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;

/// The nodes of the list as a writer sees them.
#[derive(Debug)]
pub(crate) struct EditNodes<'n, 'r> {
    index: &'n Index,
    shell: &'n Shell,
    hazard: &'n Hazard,
    /// Takes the items that leave the list.
    retired: &'r mut Vec<Offset>,
    /// A marked node was left on the list.
    has_left: bool,
}

impl EditNodes<'_, '_> {
    pub(crate) fn hazard(&self) -> &Hazard {
        self.hazard
    }
}

impl<'n> Nodes<'n> for EditNodes<'n, '_> {
    #[inline(always)]
    fn link(&self, at: Offset) -> Option<&'n AtomicU64> {
        self.index.link_at(at)
    }

    #[inline(always)]
    fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.index.bucket_at(at)
    }

    #[inline]
    fn hash_at(&self, at: Offset) -> Option<u64> {
        let item = Item::at(self.shell.region(), at, Seconds(0))?;
        Some(self.shell.hash(item.key(&mut [0; 256])).0)
    }

    fn unlinked(&mut self, at: Offset) {
        self.retired.push(at);
    }

    fn left_behind(&mut self) {
        self.has_left = true;
    }
}

/// What a writer needs to change the list.
#[derive(Debug)]
pub(crate) struct ListEditor<'s> {
    pub(crate) index: &'s Index,
    pub(crate) shell: &'s Shell,
    pub(crate) hazard: &'s Hazard,
    /// Takes the items that leave the list.
    pub(crate) retired: &'s mut Vec<Offset>,
}

impl<'s> ListEditor<'s> {
    fn nodes(&mut self) -> EditNodes<'s, '_> {
        let ListEditor { index, shell, hazard, retired } = self;
        EditNodes { index, shell, hazard, retired, has_left: false }
    }

    /// Finds the place of `target` and shows it to `act`. What is found stays as it is until `act` returns.
    #[inline(always)]
    pub(crate) fn at_spot<R>(
        &mut self,
        counters: &SessionCounters,
        (bucket, target): (u64, Target),
        matches: impl Fn(Offset) -> bool,
        act: impl FnOnce(&mut EditNodes<'s, '_>, &Spot<'s>) -> R,
    ) -> R {
        let (index, hazard) = (self.index, self.hazard);
        let mut nodes = self.nodes();
        let mut search = Search::new(hazard);
        let _pass = index.enter(bucket);
        let spot = search.spot(&mut nodes, index.head(bucket), target, &matches);
        let result = act(&mut nodes, &spot);
        if nodes.has_left {
            // A second search takes off what is marked on the way. Without it the node would stay until the next operation comes by.
            search.spot(&mut nodes, index.head(bucket), target, &matches);
        }
        search.count(counters);
        hazard.clear();
        result
    }

    /// Adds a bucket if there are too many items.
    pub(crate) fn grow(&mut self, counters: &SessionCounters, budget: &Budget) -> Growth {
        let (index, hazard) = (self.index, self.hazard);
        // Nothing is written that other sessions read as long as there is nothing to do.
        if !index.is_crowded() {
            return Growth::Enough;
        }
        let mut nodes = self.nodes();
        let mut search = Search::new(hazard);
        // The number of the new bucket stands for the bucket that it is split from.
        let _pass = index.enter(index.buckets());
        let growth = index.grow(&mut nodes, &mut search, budget);
        hazard.clear();
        search.count(counters);
        growth
    }

    /// Completes the insert of a bucket that a session left half done. No other thread uses the index.
    pub(crate) fn finish_growth(&mut self) {
        let (index, hazard) = (self.index, self.hazard);
        index.settle(&mut self.nodes(), &mut Search::new(hazard));
    }
}
