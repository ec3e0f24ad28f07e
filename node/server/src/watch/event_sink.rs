//! Where a worker's commands are listened to.

use super::{Hub, LogKinds, Observers, Prefixes};
use crate::top_keys::TopKeys;
use guira_advice::{Advisor, Observed, What};
use guira_commands::observe::{Event, Got, Kinds, Observer, StoreEnd, StoredBy};
use guira_contract::{EvictionWatcher, Expiry, KeyHash, Meta};
use guira_protocol::Verb;
use guira_sync::atomic::{AtomicU32, Ordering};
use guira_sync::clock::{CoarseClock, Seconds};
use std::sync::Arc;

/// Listens to one worker's commands, for watchers, for `stats detail`, `stats mrc` and `stats topkeys`.
#[derive(Debug)]
pub(crate) struct EventSink {
    hub: Arc<Hub>,
    prefixes: Arc<Prefixes>,
    advisor: Option<Arc<Advisor>>,
    top_keys: Option<Arc<TopKeys>>,
    clock: CoarseClock,
    worker: usize,
    /// The connection that is being served. Relaxed: written and read by the worker alone.
    cfd: AtomicU32,
}

impl EventSink {
    pub(crate) fn new(observers: &Observers, clock: CoarseClock, worker: usize) -> Self {
        let Observers { hub, prefixes, advisor, top_keys } = observers.clone();
        EventSink { hub, prefixes, advisor, top_keys, clock, worker, cfd: AtomicU32::new(0) }
    }

    /// The kinds that are reported at the moment.
    pub(crate) fn kinds(&self) -> Kinds {
        if self.prefixes.is_on() {
            return Kinds::GETS.with(Kinds::STORES).with(Kinds::DELETES);
        }
        let watched = self.hub.kinds();
        let mut kinds = Kinds::NONE;
        for (log, reported) in [
            (LogKinds::FETCHERS, Kinds::GETS),
            (LogKinds::MUTATIONS, Kinds::STORES),
            (LogKinds::DELETIONS, Kinds::DELETES),
        ] {
            if watched.any(log) {
                kinds = kinds.with(reported);
            }
        }
        kinds
    }

    /// Events of keys whose hash is below are reported.
    pub(crate) fn threshold(&self) -> u64 {
        self.advisor.as_ref().map_or(0, |advisor| advisor.threshold())
    }

    /// Commands come from this connection from now on.
    pub(crate) fn serve(&self, cfd: i32) {
        self.cfd.store(cfd as u32, Ordering::Relaxed);
    }
}

/// A tap's end in the executor.
#[derive(Debug)]
pub(crate) struct EventObserver(pub(crate) Arc<EventSink>);

impl Observer for EventObserver {
    fn see(&self, event: Event<'_>, hash: KeyHash) {
        if let Event::Use { key, used } = event {
            if let Some(top_keys) = &self.0.top_keys {
                top_keys.see(self.0.worker, key, hash, used);
            }
            return;
        }
        if let Some(advisor) = &self.0.advisor
            && hash.0 < advisor.threshold()
            && let Some((key, what)) = advised(&event, self.0.clock.now())
        {
            advisor.see(Observed { key, hash: hash.0, what }, self.0.clock.now());
        }
        if self.0.prefixes.is_on() {
            self.0.prefixes.count(&event);
        }
        self.0.hub.command(self.0.worker, self.0.cfd.load(Ordering::Relaxed) as i32, &event);
    }
}

/// What an event means for advice: nothing, if it is neither about reading nor about storing.
fn advised<'e>(event: &Event<'e>, now: Seconds) -> Option<(&'e [u8], What)> {
    let weight = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    Some(match *event {
        Event::Get { key, item: Some(meta), got: Got::Found } => {
            let expires = match meta.expiry {
                Expiry::Never => u32::MAX,
                Expiry::At(at) => at.0,
            };
            (key, What::Hit { weight: weight(meta.size), expires })
        }
        Event::Get { key, .. } => (key, What::Miss),
        Event::Store { key, by, verb, end: StoreEnd::Stored, ttl, size, .. } if size > 0 => {
            let (weight, expires) =
                (weight(size), if ttl == 0 { u32::MAX } else { now.0.saturating_add(ttl) });
            let is_plain = by == StoredBy::Store && matches!(verb, Verb::Set | Verb::Add | Verb::Lease(_));
            (key, if is_plain { What::Stored { weight, expires } } else { What::Updated { weight, expires } })
        }
        Event::Delete { key, item: Some(_), .. } => (key, What::Deleted),
        Event::Store { .. } | Event::Delete { .. } | Event::Lookup { .. } | Event::Use { .. } => return None,
    })
}

#[derive(Debug)]
pub(crate) struct EvictionSink {
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: CoarseClock,
}

impl EvictionWatcher for EvictionSink {
    fn watches(&self) -> Option<Seconds> {
        self.hub.kinds().any(LogKinds::EVICTIONS).then(|| self.clock.now())
    }

    fn evicted(&self, key: &[u8], meta: &Meta, now: Seconds) {
        self.hub.eviction(key, meta, now);
    }
}
