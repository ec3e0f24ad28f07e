//! Where a worker's commands are listened to.

use super::{Hub, LogKinds, Prefixes};
use crate::shared::Shared;
use guira_commands::observe::{Event, Kinds, Observer};
use guira_contract::{EvictionWatcher, Meta};
use guira_sync::atomic::{AtomicU32, Ordering};
use guira_sync::clock::{CoarseClock, Seconds};
use std::sync::Arc;

/// Listens to one worker's commands, for watchers and for `stats detail`.
#[derive(Debug)]
pub(crate) struct Tap {
    hub: Arc<Hub>,
    prefixes: Arc<Prefixes>,
    worker: usize,
    /// The connection that is being served. Relaxed: written and read by the worker alone.
    cfd: AtomicU32,
}

impl Tap {
    pub(crate) fn new(shared: &Shared, worker: usize) -> Self {
        Tap { hub: shared.hub.clone(), prefixes: shared.prefixes.clone(), worker, cfd: AtomicU32::new(0) }
    }

    /// What is to be told of at the moment.
    pub(crate) fn kinds(&self) -> Kinds {
        if self.prefixes.is_on() {
            return Kinds::GETS.with(Kinds::STORES).with(Kinds::DELETES);
        }
        let watched = self.hub.kinds();
        let mut kinds = Kinds::NONE;
        for (log, told) in [
            (LogKinds::FETCHERS, Kinds::GETS),
            (LogKinds::MUTATIONS, Kinds::STORES),
            (LogKinds::DELETIONS, Kinds::DELETES),
        ] {
            if watched.any(log) {
                kinds = kinds.with(told);
            }
        }
        kinds
    }

    /// Commands come from this connection from now on.
    pub(crate) fn serve(&self, cfd: i32) {
        self.cfd.store(cfd as u32, Ordering::Relaxed);
    }
}

/// A tap's end in the executor.
#[derive(Debug)]
pub(crate) struct TapEnd(pub(crate) Arc<Tap>);

impl Observer for TapEnd {
    fn see(&self, event: Event<'_>) {
        if self.0.prefixes.is_on() {
            self.0.prefixes.count(&event);
        }
        self.0.hub.command(self.0.worker, self.0.cfd.load(Ordering::Relaxed) as i32, &event);
    }
}

/// Listens to an engine's evictions.
#[derive(Debug)]
pub(crate) struct EvictionTap {
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: CoarseClock,
}

impl EvictionWatcher for EvictionTap {
    fn watches(&self) -> Option<Seconds> {
        self.hub.kinds().any(LogKinds::EVICTIONS).then(|| self.clock.now())
    }

    fn evicted(&self, key: &[u8], meta: &Meta, now: Seconds) {
        self.hub.eviction(key, meta, now);
    }
}
