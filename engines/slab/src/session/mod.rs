//! A thread's access to a slab engine.

pub(crate) mod crawl;
pub(crate) mod drain;
pub(crate) mod evict;
mod growth;
mod maintain;
mod no_evict;
pub(crate) mod pending;
mod put;
mod read;
mod refill;
mod removal;
pub(crate) mod shrink;
mod slot;
pub(crate) mod state;
mod update;
pub(crate) mod walk;

use crate::core::Core;
use crate::flush;
use crate::index::{Guess, Scheme};
use crate::pins::pin::SlabPin;
use guira_contract::{
    Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, MissKind, NewItem, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::INLINE_MAX;
use guira_items::hooks::{self, Window};
use guira_sync::clock::Seconds;
use pending::SlabPending;
use state::{Local, SessionState};
use std::sync::Arc;
use walk::SlabWalk;

/// A session of a slab engine.
#[derive(Debug)]
pub struct SlabSession<X: Scheme> {
    core: Arc<Core<X>>,
    local: Local,
}

impl<X: Scheme> SlabSession<X> {
    pub(crate) fn new(core: Arc<Core<X>>) -> Self {
        let local = Local::new(&core);
        SlabSession { core, local }
    }

    #[inline(always)]
    pub(crate) fn state(&mut self) -> SessionState<'_, X> {
        SessionState { core: &self.core, local: &mut self.local }
    }
}

impl<X: Scheme> Drop for SlabSession<X> {
    fn drop(&mut self) {
        self.state().release_caches();
        self.core.items.shell().registry().retire(&self.local.counters);
    }
}

impl<X: Scheme> Session for SlabSession<X> {
    type Pin = SlabPin<X>;
    type Pending = SlabPending<X>;
    type Guess = Guess;
    type Walk = SlabWalk<X>;

    fn lossiness(&self) -> Lossiness {
        self.core.options.engine.eviction.lossiness()
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.core.items.shell().hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        self.core.index.prefetch_buckets(hash);
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let guess = self.core.index.guess(hash);
        if let Some(at) = guess.item() {
            let core = &*self.core;
            core.items.region().prefetch(at.bytes());
            core.items.region().prefetch(at.bytes() + 56);
            core.pool.memory().prefetch_recency(at);
            if core.evictor.wants_reads() {
                core.evictor().prefetch_metadata(at);
            }
        }
        guess
    }

    /// The usual case and nothing else: the guess is right, the value is short, and nothing interferes.
    #[inline(always)]
    fn read<S>(&mut self, key: Key<'_>, guess: Guess, now: Seconds, sink: &mut S) -> Read
    where
        S: Sink<Pin = SlabPin<X>>,
    {
        let core = &*self.core;
        flush::settle(core, now);
        let Some(at) = guess.item() else {
            if core.index.confirms(&guess) {
                return Read::Miss(MissKind::Absent);
            }
            return read::search(&mut self.state(), key, now, sink);
        };
        hooks::pause(Window::Visiting);
        let wants = sink.wants();
        if let Some(item) = core.items.at(at, now)
            && item.key_is(key.bytes)
            && core.items.dead(&item, now).is_none()
            && (wants == Want::Meta || item.value_len() <= INLINE_MAX)
        {
            // The item may be unlinked and its chunk refilled during the copy (hazard 2).
            hooks::pause(Window::Reading);
            match wants {
                Want::Value => sink.found(&item),
                Want::Meta => sink.found(&item.of_class(core.pool.class_number(at))),
            }
            if core.index.confirms(&guess) {
                if sink.recency() == Recency::Bump {
                    item.note_read(now);
                    core.pool.memory().touch(at, item.shape().size());
                    if core.evictor.wants_reads() {
                        core.evictor().note_read(&mut self.local.events, at);
                    }
                }
                return Read::Hit;
            }
            sink.undo();
            self.local.counters.add(Counter::ReadRetries, guess.retries());
        }
        read::search(&mut self.state(), key, now, sink)
    }

    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        guess: Guess,
        now: Seconds,
        provision: Provision<SlabPending<X>>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        update::update(&mut self.state(), (key, &guess), now, provision, decide)
    }

    #[inline]
    fn put(&mut self, key: Key<'_>, guess: Guess, now: Seconds, new: &NewItem<'_>) -> Result<(), StoreError> {
        put::put(&mut self.state(), (key, &guess), now, new)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<SlabPending<X>, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        SlabPending::arriving(&mut self.state(), key, &spec).ok_or(StoreError::NoMemory)
    }

    fn extend(&mut self, pending: &mut SlabPending<X>, bytes: &[u8]) -> Result<(), StoreError> {
        if pending.extend(&mut self.state(), bytes) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        update::fits(&self.core, key_len, spec)
    }

    fn next_cas(&mut self) -> u64 {
        self.core.items.shell().next_cas()
    }

    #[inline]
    fn quiesce(&mut self) {
        self.state().quiesce();
    }

    fn offline(&mut self) {
        self.state().offline();
    }

    fn release_caches(&mut self) {
        self.state().release_caches();
    }

    fn online(&mut self) {
        self.local.online();
    }

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        maintain::maintain(&mut self.state(), now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<SlabWalk<X>> {
        SlabWalk::<X>::begin(&self.core)
    }

    fn walk(&mut self, walk: &mut SlabWalk<X>, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        walk.step(now, see)
    }
}
