//! What a session has of its own.

use crate::core::Core;
use crate::evictor::EventQueue;
use crate::index::Scheme;
use crate::pool::cache::ChunkCache;
use guira_items::SessionCounters;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Participant;
use std::sync::Arc;

/// The parts of a session. Every operation that frees or finds memory works on it.
#[derive(Debug)]
pub(crate) struct SessionState<X: Scheme> {
    pub(crate) core: Arc<Core<X>>,
    pub(crate) counters: Arc<SessionCounters>,
    /// What the orders of classes have still to hear of.
    pub(crate) events: EventQueue,
    /// Free chunks.
    pub(crate) cache: ChunkCache,
    /// Its lane for notes of short-lived items.
    pub(crate) lane: usize,
    /// The time at the last maintenance.
    pub(crate) seen: Seconds,
    /// Rounds of maintenance.
    pub(crate) rounds: u32,
    /// The growth of the table for whose end it will not wait again.
    pub(crate) given_up: Option<u64>,
    participant: Participant,
}

impl<X: Scheme> SessionState<X> {
    pub(crate) fn new(core: Arc<Core<X>>) -> Self {
        let participant = core.pool.quiescence().register();
        let counters = core.items.shell().registry().register();
        let cache = ChunkCache::new(&core.pool);
        let events = EventQueue::default();
        let lane = core.short_lived.lane();
        SessionState {
            core,
            counters,
            events,
            cache,
            lane,
            seen: Seconds(0),
            rounds: 0,
            given_up: None,
            participant,
        }
    }

    /// Has the orders hear of what was stored and read.
    #[inline]
    pub(crate) fn flush_events(&mut self) {
        if !self.events.is_empty() {
            self.core.evictor().flush(&mut self.events);
        }
    }

    /// The same if it is much.
    #[inline]
    pub(crate) fn flush_many_events(&mut self) {
        if self.events.is_full() {
            self.core.evictor().flush(&mut self.events);
        }
    }

    /// The session holds nothing that it found without a lock.
    #[inline]
    pub(crate) fn quiesce(&mut self) {
        self.end_batch();
        self.participant.quiesce();
    }

    /// The same, and others need not wait for it until it is online again.
    pub(crate) fn offline(&mut self) {
        self.end_batch();
        self.participant.offline();
    }

    pub(crate) fn online(&mut self) {
        self.participant.online();
    }

    #[inline]
    fn end_batch(&mut self) {
        self.flush_events();
        self.cache.return_draining(&self.core.pool);
    }

    /// Gives all free chunks back.
    pub(crate) fn release_caches(&mut self) {
        // What the orders do not hear of is in none of them, and never evicted.
        self.flush_events();
        self.cache.release(&self.core.pool);
    }
}

impl<X: Scheme> Drop for SessionState<X> {
    fn drop(&mut self) {
        self.release_caches();
        self.core.items.shell().registry().retire(&self.counters);
    }
}
