//! What a session has of its own.

use crate::core::Core;
use crate::evictor::EventQueue;
use crate::index::Scheme;
use crate::pool::cache::ChunkCache;
use guira_items::SessionCounters;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Participant;
use std::sync::Arc;

/// What an operation that frees or finds memory works on.
#[derive(Debug)]
pub(crate) struct SessionState<'s, X: Scheme> {
    pub(crate) core: &'s Arc<Core<X>>,
    pub(crate) local: &'s mut Local,
}

/// What a session has of its own.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) counters: Arc<SessionCounters>,
    /// What the orders of classes have still to be notified of.
    pub(crate) events: EventQueue,
    pub(crate) cache: ChunkCache,
    /// The session's lane for notes of short-lived items.
    pub(crate) lane: usize,
    /// The time at the last maintenance.
    pub(crate) seen: Seconds,
    pub(crate) rounds: u32,
    /// The growth of the table for whose end the session does not wait again.
    pub(crate) given_up: Option<u64>,
    participant: Participant,
}

impl Local {
    pub(crate) fn new<X: Scheme>(core: &Core<X>) -> Self {
        Local {
            counters: core.items.shell().registry().register(),
            events: EventQueue::default(),
            cache: ChunkCache::new(&core.pool),
            lane: core.short_lived.lane(),
            seen: Seconds(0),
            rounds: 0,
            given_up: None,
            participant: core.pool.quiescence().register(),
        }
    }

    pub(crate) fn online(&mut self) {
        self.participant.online();
    }
}

impl<X: Scheme> SessionState<'_, X> {
    /// Notifies the orders of what was stored and read.
    #[inline]
    pub(crate) fn flush_events(&mut self) {
        if !self.local.events.is_empty() {
            self.core.evictor().flush(&mut self.local.events);
        }
    }

    /// The same if it is much.
    #[inline]
    pub(crate) fn flush_many_events(&mut self) {
        if self.local.events.is_full() {
            self.core.evictor().flush(&mut self.local.events);
        }
    }

    /// The session holds nothing that it found without a lock.
    #[inline]
    pub(crate) fn quiesce(&mut self) {
        self.end_batch();
        self.local.participant.quiesce();
    }

    /// The same, and others need not wait for the session until it is online again.
    pub(crate) fn offline(&mut self) {
        self.end_batch();
        self.local.participant.offline();
    }

    #[inline]
    fn end_batch(&mut self) {
        self.flush_events();
        self.local.cache.return_draining(&self.core.pool);
    }

    pub(crate) fn release_caches(&mut self) {
        // The orders evict only what they were notified of.
        self.flush_events();
        self.local.cache.release(&self.core.pool);
    }
}
