//! A thread's access to a slab engine, and reading.

use crate::core::Core;
use crate::index::Scheme;
use crate::index::{Guess, Visitor};
use crate::pending::SlabPending;
use crate::pin::SlabPin;
use crate::queue::{Event, note_read};
use crate::walk::SlabWalk;
use guira_contract::{
    Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, Meta, MissKind, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::hooks::{self, Window};
use guira_items::{INLINE_MAX, Item, SessionCounters, counted_size};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Participant;
use std::sync::Arc;

/// A session of a slab engine.
#[derive(Debug)]
pub struct SlabSession<X: Scheme> {
    pub(crate) core: Arc<Core<X>>,
    pub(crate) participant: Participant,
    pub(crate) counters: Arc<SessionCounters>,
    /// What the orders of classes have still to be told.
    pub(crate) queue: Vec<Event>,
    /// Free chunks of each class, handed out to this session.
    pub(crate) caches: Vec<Vec<Offset>>,
    /// How many drains had begun when the caches were last cleared of chunks of draining pages.
    pub(crate) drains_seen: u64,
    /// Rounds of upkeep done.
    pub(crate) busy_rounds: u32,
    /// The time at the last of them.
    pub(crate) seen: Seconds,
    /// The growth of the table for whose end it will not wait again.
    pub(crate) given_up: Option<u64>,
}

impl<X: Scheme> SlabSession<X> {
    pub(crate) fn new(core: Arc<Core<X>>) -> Self {
        let participant = core.quiescence.register();
        let counters = core.shell.registry().register();
        let caches = core.memory.classes().ids().map(|_| Vec::new()).collect();
        SlabSession {
            core,
            participant,
            counters,
            queue: Vec::new(),
            caches,
            drains_seen: 0,
            busy_rounds: 0,
            seen: Seconds(0),
            given_up: None,
        }
    }
}

/// What a reader took from an item.
enum Taken<'a> {
    /// The sink has a copy.
    Copied(Item<'a>),
    /// It is pinned.
    Pinned(Item<'a>, Box<Meta>),
    /// It is there no more.
    Dead(MissKind),
}

struct Reader<'a, 'k, 's, S, X: Scheme> {
    core: &'a Arc<Core<X>>,
    counters: &'a SessionCounters,
    key: Key<'k>,
    now: Seconds,
    sink: &'s mut S,
}

impl<'a, X: Scheme, S: Sink<Pin = SlabPin<X>>> Visitor for Reader<'a, '_, '_, S, X> {
    type Result = Taken<'a>;

    fn visit(&mut self, at: Offset) -> Option<Taken<'a>> {
        let core: &'a Core<X> = self.core;
        hooks::pause(Window::Visiting);
        let item = core.item(at, self.now)?;
        if !item.key_is(self.key.bytes) {
            return None;
        }
        hooks::pause(Window::Reading);
        if let Some(kind) = core.dead(&item, self.now) {
            return Some(Taken::Dead(kind));
        }
        match self.sink.wants() {
            Want::Value if item.value_len() > INLINE_MAX => return Some(pinned(core, item)),
            Want::Value => self.sink.found(&item),
            Want::Meta => self.sink.found(&item.of_class(core.class_number(at))),
        }
        Some(Taken::Copied(item))
    }

    fn undo(&mut self, result: Taken<'a>) {
        match result {
            Taken::Dead(_) => {}
            Taken::Copied(_) => self.sink.undo(),
            Taken::Pinned(item, _) => self.core.unpin(item.at),
        }
    }

    fn repeats(&mut self) {
        self.counters.add(Counter::ReadRetries, 1);
    }
}

fn pinned<'a, X: Scheme>(core: &'a Core<X>, item: Item<'a>) -> Taken<'a> {
    core.pins.pin(item.at);
    Taken::Pinned(item, Box::new(item.of_class(core.class_number(item.at)).meta()))
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
        self.core.shell.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        self.core.index.prefetch_buckets(hash);
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let guess = self.core.index.guess(hash);
        if let Some(at) = guess.item() {
            self.core.shell.region().prefetch(at.bytes());
            self.core.shell.region().prefetch(at.bytes() + 56);
            self.core.memory.prefetch_recency(at);
            if self.core.turn.wants().of_reads() {
                self.core.prefetch_notes(at);
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
        core.settle_flush(now);
        let Some(at) = guess.item() else {
            if core.index.confirms(&guess) {
                return Read::Miss(MissKind::Absent);
            }
            return self.search(key, now, sink);
        };
        hooks::pause(Window::Visiting);
        let wants = sink.wants();
        if let Some(item) = core.item(at, now)
            && item.key_is(key.bytes)
            && core.dead(&item, now).is_none()
            && (wants == Want::Meta || item.value_len() <= INLINE_MAX)
        {
            hooks::pause(Window::Reading);
            match wants {
                Want::Value => sink.found(&item),
                Want::Meta => sink.found(&item.of_class(core.class_number(at))),
            }
            if core.index.confirms(&guess) {
                if sink.recency() == Recency::Bump {
                    item.note_read(now);
                    core.memory.touch(at, item.shape().size());
                    if core.turn.wants().of_reads() {
                        note_read(core, &mut self.queue, at);
                    }
                }
                return Read::Hit;
            }
            sink.undo();
            self.counters.add(Counter::ReadRetries, guess.retries());
        }
        self.search(key, now, sink)
    }

    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        _guess: Guess,
        now: Seconds,
        provision: Provision<SlabPending<X>>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        self.read_modify_write(key, now, provision, decide)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<SlabPending<X>, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        self.new_pending(key.len(), &spec).ok_or(StoreError::NoMemory)
    }

    fn extend(&mut self, pending: &mut SlabPending<X>, bytes: &[u8]) -> Result<(), StoreError> {
        if self.extend_pending(pending, bytes) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        counted_size(key_len, spec.flags, spec.value_len) <= self.core.options.engine.max_item_size
    }

    fn next_cas(&mut self) -> u64 {
        self.core.shell.next_cas()
    }

    #[inline]
    fn quiesce(&mut self) {
        if !self.queue.is_empty() {
            self.tell();
        }
        self.return_draining_chunks();
        self.participant.quiesce();
    }

    fn offline(&mut self) {
        if !self.queue.is_empty() {
            self.tell();
        }
        self.return_draining_chunks();
        self.participant.offline();
    }

    fn release_caches(&mut self) {
        // What the orders are not told of is in none of them, and never evicted.
        if !self.queue.is_empty() {
            self.tell();
        }
        for class in 0..self.caches.len() {
            for at in std::mem::take(&mut self.caches[class]) {
                self.core.give_chunk(at);
            }
        }
    }

    fn online(&mut self) {
        self.participant.online();
    }

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.do_maintain(now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<SlabWalk<X>> {
        SlabWalk::<X>::begin(&self.core)
    }

    fn walk(&mut self, walk: &mut SlabWalk<X>, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        self.step(walk, now, see)
    }
}

impl<X: Scheme> SlabSession<X> {
    /// Reads a key, whatever is in the way.
    #[cold]
    #[inline(never)]
    fn search<S: Sink<Pin = SlabPin<X>>>(&mut self, key: Key<'_>, now: Seconds, sink: &mut S) -> Read {
        let core = &self.core;
        let mut reader = Reader { core, counters: &self.counters, key, now, sink };
        match core.index.search(key.hash, &mut reader) {
            None => Read::Miss(MissKind::Absent),
            Some(Taken::Copied(item)) => {
                if sink.recency() == Recency::Bump {
                    item.note_read(now);
                    core.memory.touch(item.at, item.shape().size());
                    note_read(core, &mut self.queue, item.at);
                }
                Read::Hit
            }
            Some(Taken::Pinned(item, meta)) => {
                if sink.recency() == Recency::Bump {
                    note_read(core, &mut self.queue, item.at);
                }
                hand_over(core, &item, &meta, now, sink);
                Read::Hit
            }
            Some(Taken::Dead(kind)) => {
                self.remove_dead(key, now);
                Read::Miss(kind)
            }
        }
    }
}

/// Gives the sink a value that is pinned.
fn hand_over<X: Scheme, S: Sink<Pin = SlabPin<X>>>(
    core: &Arc<Core<X>>,
    item: &Item<'_>,
    meta: &Meta,
    now: Seconds,
    sink: &mut S,
) {
    let pin = SlabPin::<X>::of(core, item);
    let chunks = pin.chunks();
    sink.pinned(meta, pin);
    if sink.recency() == Recency::Bump {
        item.note_read(now);
        chunks.into_iter().for_each(|chunk| core.memory.touch(chunk, core.chunk_bytes(chunk)));
    }
}

impl<X: Scheme> Drop for SlabSession<X> {
    fn drop(&mut self) {
        self.release_caches();
        self.core.shell.registry().retire(&self.counters);
    }
}
