//! What a session has to itself: its announcements, counters, retired items and free chunks.

use crate::core::Core;
use crate::editor::Editor;
use crate::pool::ChunkCache;
use crate::retired::{Retired, is_long};
use guira_items::{Pieces, SessionCounters};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;
use guira_sync::quiescence::Participant;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Local {
    core: Arc<Core>,
    hazard: Hazard,
    counters: Arc<SessionCounters>,
    cache: ChunkCache,
    retired: Retired,
    /// See [`Editor::count_items`].
    uncounted: i64,
    /// Its lane for notes of short-lived items.
    lane: usize,
    /// The recalls that it has heeded.
    recalls_seen: u64,
    participant: Participant,
}

impl Local {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Local {
            hazard: core.announcements.claim(),
            counters: core.shell.registry().register(),
            cache: ChunkCache::new(&core.memory),
            retired: Retired::default(),
            uncounted: 0,
            lane: core.expiry.short_lived.lane(),
            recalls_seen: 0,
            participant: core.quiescence.register(),
            core,
        }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    #[inline(always)]
    pub(crate) fn hazard(&self) -> &Hazard {
        &self.hazard
    }

    #[inline(always)]
    pub(crate) fn cache(&mut self) -> &mut ChunkCache {
        &mut self.cache
    }

    #[inline(always)]
    pub(crate) fn lane(&self) -> usize {
        self.lane
    }

    #[inline(always)]
    pub(crate) fn editor(&mut self) -> Editor<'_> {
        self.editor_and_cache().0
    }

    #[inline(always)]
    pub(crate) fn editor_and_cache(&mut self) -> (Editor<'_>, &mut ChunkCache) {
        let Local { core, hazard, counters, cache, retired, uncounted, .. } = self;
        (Editor::new(core, hazard, counters, retired.items(), uncounted), cache)
    }

    #[cfg(all(test, not(guira_loom)))]
    pub(crate) fn retired(&self) -> &Retired {
        &self.retired
    }

    /// Frees retired items if that pays.
    #[inline]
    pub(crate) fn reclaim_some(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let core = &*self.core;
        if self.retired.is_due(|| core.memory.is_scarce(), |at| is_long_at(core, at)) {
            self.reclaim();
        }
    }

    /// Frees the retired items that no session has announced.
    pub(crate) fn reclaim(&mut self) {
        let Local { core, cache, retired, .. } = self;
        retired.reclaim(&core.announcements, |at| is_long_at(core, at), |at| free_item(core, cache, at));
    }

    pub(crate) fn adopt_orphans(&mut self) {
        if self.core.announcements.has_orphans() {
            self.retired.adopt(&self.core.announcements);
            self.reclaim();
        }
    }

    /// Gives all free chunks to the pool.
    pub(crate) fn give_all_back(&mut self) {
        self.reclaim();
        self.cache.give_all(&self.core.memory);
    }

    /// Asks all sessions to give back their free chunks, and gives back its own.
    pub(crate) fn recall(&mut self) {
        self.recalls_seen = self.core.memory.recall();
        self.give_all_back();
    }

    /// What was begun is done: items are published, and followed up.
    #[inline]
    pub(crate) fn quiesce(&self) {
        self.participant.quiesce();
    }

    /// Nothing is begun until it is online again.
    pub(crate) fn offline(&self) {
        self.participant.offline();
    }

    pub(crate) fn online(&self) {
        self.participant.online();
    }

    /// Gives back its free chunks if another session has found no memory since.
    #[inline]
    pub(crate) fn heed_recalls(&mut self) {
        if self.recalls_seen != self.core.memory.recalls() {
            self.heed();
        }
    }

    #[cold]
    fn heed(&mut self) {
        self.recalls_seen = self.core.memory.recalls();
        self.give_all_back();
    }

    /// Keeps nothing: the session may be idle for long. Items that are still announced are left to the other sessions.
    pub(crate) fn release(&mut self) {
        self.give_all_back();
        self.core.table.count_items(std::mem::take(&mut self.uncounted));
        self.retired.orphan(&self.core.announcements);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.release();
        self.core.shell.registry().retire(&self.counters);
    }
}

/// Whether the item at `at`, which the caller retired, has a value so long that it may be pinned.
fn is_long_at(core: &Core, at: Offset) -> bool {
    core.item(at, Seconds(0)).is_some_and(|item| is_long(&item))
}

/// Frees the chunks of an item that no session can find any more.
fn free_item(core: &Core, cache: &mut ChunkCache, at: Offset) {
    let item = core.item(at, Seconds(0)).filter(|item| item.chain().is_some());
    if let Some(item) = item {
        Pieces::freed(core.shell.region(), &item).into_iter().for_each(|at| cache.keep(&core.memory, at));
    }
    cache.keep(&core.memory, at);
}
