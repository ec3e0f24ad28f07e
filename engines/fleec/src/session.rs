//! A thread's access to the engine, and reading.

use crate::core::Core;
use crate::list::{Found, Spot, Target, Visit, find};
use crate::nodes::{CoreNodes, Hands, ReadNodes};
use crate::pending::FleecPending;
use crate::pin::FleecPin;
use crate::update::is_long;
use crate::walk::FleecWalk;
use guira_contract::{
    Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, Meta, MissKind, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::hooks::{self, Window};
use guira_items::{INLINE_MAX, Item, SessionCounters, counted_size};
use guira_memory::Offset;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;
use std::sync::Arc;

/// A session adds what it has stored and removed to the table's count when it comes to so many items.
const COUNTED_TOGETHER: i64 = 32;

/// A session of the engine.
#[derive(Debug)]
pub struct FleecSession {
    pub(crate) core: Arc<Core>,
    pub(crate) hazard: Hazard,
    pub(crate) counters: Arc<SessionCounters>,
    /// Free chunks of each class, handed out to this session.
    pub(crate) caches: Vec<Vec<Offset>>,
    /// Items taken off the list, whose chunks are not free yet.
    pub(crate) retired: Vec<Offset>,
    /// How many of them were announced when that was looked at last.
    pub(crate) kept: usize,
    /// Room for what is announced, when that is looked at.
    pub(crate) announced: Vec<u64>,
    /// How many items it has stored more than removed, and not told the table yet.
    uncounted: i64,
    /// The recalls that it has heeded.
    pub(crate) recalls_seen: u64,
    /// Times it has turned the hand.
    pub(crate) sweeps: u32,
    /// Rounds of upkeep done.
    pub(crate) rounds: u32,
}

/// What has been learnt of a key ahead of reading it: the item that was asked for last.
#[derive(Clone, Copy, Debug)]
pub struct Guess(Offset);

/// No item.
const NOWHERE: Offset = Offset::from_bytes(0);

impl Default for Guess {
    fn default() -> Self {
        Guess(NOWHERE)
    }
}

/// What a reader took from an item.
enum Taken {
    /// The sink has a copy. `noted`: the header says already that it was read a moment ago.
    Copied { noted: bool },
    /// It is there no more.
    Dead(MissKind),
    /// It is too long to be copied.
    Long,
}

impl FleecSession {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let hazard = core.hazards.claim();
        let counters = core.shell.registry().register();
        let caches = core.memory.classes().ids().map(|_| Vec::new()).collect();
        FleecSession {
            core,
            hazard,
            counters,
            caches,
            retired: Vec::new(),
            kept: 0,
            announced: Vec::new(),
            uncounted: 0,
            recalls_seen: 0,
            sweeps: 0,
            rounds: 0,
        }
    }

    /// So many items more are stored.
    #[inline]
    pub(crate) fn count_items(&mut self, more: i64) {
        self.uncounted += more;
        if self.uncounted.abs() >= COUNTED_TOGETHER {
            self.core.table.count(std::mem::take(&mut self.uncounted));
        }
    }

    /// What it changes the list with, and its free chunks.
    pub(crate) fn hands(&mut self) -> (Hands<'_>, &mut Vec<Vec<Offset>>) {
        let FleecSession { core, hazard, retired, counters, caches, .. } = self;
        (Hands { core, hazard, retired, counters }, caches)
    }

    /// Finds the place of `target` as somebody who may change the list, and shows it to `act`. What is found stays as it is until
    /// `act` is over.
    pub(crate) fn at_spot<R>(
        &mut self,
        bucket: u64,
        target: Target,
        matches: impl Fn(Offset) -> bool,
        act: impl for<'n> FnOnce(&mut CoreNodes<'n, '_>, &Spot<'n>) -> R,
    ) -> R {
        self.hands().0.at_spot(bucket, target, matches, act)
    }

    /// Notes in an item that it was read. Once in a while for each item: see [`Item::note_read`].
    #[cold]
    #[inline(never)]
    fn note_read(&mut self, key: Key<'_>, now: Seconds) {
        let core = self.core.clone();
        let bucket = core.table.bucket_of(key.hash.0);
        let matches = |at| core.item(at, now).is_some_and(|item| item.key_is(key.bytes));
        self.at_spot(bucket, Target::Item(key.hash.0), matches, |_, spot| {
            if let Some(item) = spot.node.and_then(|node| core.item(node.at, now)) {
                item.note_read(now);
            }
        });
    }

    /// Reads a long value: pins it. `None` if there is none under the key any more, or not a long one.
    #[cold]
    #[inline(never)]
    fn read_long<S: Sink<Pin = FleecPin>>(&mut self, key: Key<'_>, now: Seconds, sink: &mut S) -> Option<()> {
        let core = self.core.clone();
        let bucket = core.table.bucket_of(key.hash.0);
        loop {
            let matches = |at| core.item(at, now).is_some_and(|item| item.key_is(key.bytes));
            let pinned = self.at_spot(bucket, Target::Item(key.hash.0), matches, |_, spot| {
                let node = spot.node?;
                let item = core.item(node.at, now).filter(is_long)?;
                if core.dead(&item, now).is_some() {
                    return None;
                }
                let meta = item.of_class(core.class_number(node.at)).meta();
                let pin = FleecPin::of(&core, &item);
                // It was there when the pin was announced: so it stays until the pin is dropped.
                Some(node.stands().then_some((meta, pin)))
            })?;
            if let Some((meta, pin)) = pinned {
                sink.pinned(&meta, pin);
                if sink.recency() == Recency::Bump {
                    core.table.touch(bucket);
                    // The sink may have dropped the pin already: the item has to be looked up again.
                    self.note_read(key, now);
                }
                return Some(());
            }
        }
    }
}

/// Shows the item under `key` to a sink.
struct Reader<'r, S> {
    core: &'r Core,
    key: Key<'r>,
    now: Seconds,
    sink: &'r mut S,
}

impl<S: Sink> Visit for Reader<'_, S> {
    type Taken = Taken;

    #[inline(always)]
    fn visit(&mut self, at: Offset) -> Option<Taken> {
        hooks::pause(Window::Visiting);
        let item = self.core.item(at, self.now)?;
        if !item.key_is(self.key.bytes) {
            return None;
        }
        hooks::pause(Window::Reading);
        if let Some(kind) = self.core.dead(&item, self.now) {
            return Some(Taken::Dead(kind));
        }
        match self.sink.wants() {
            Want::Value if item.value_len() > INLINE_MAX => return Some(Taken::Long),
            Want::Value => self.sink.found(&item),
            Want::Meta => self.sink.found(&item.of_class(self.core.class_number(at))),
        }
        Some(Taken::Copied { noted: item.is_noted(self.now) })
    }
}

impl Session for FleecSession {
    type Pin = FleecPin;
    type Pending = FleecPending;
    type Guess = Guess;
    type Walk = FleecWalk;

    fn lossiness(&self) -> Lossiness {
        self.core.options.engine.eviction.lossiness()
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.core.shell.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        self.core.table.prefetch(self.core.table.bucket_of(hash.0));
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let core = &*self.core;
        let first = core.table.first_of(core.table.bucket_of(hash.0));
        if let Some(at) = first {
            core.prefetch_item(at);
        }
        Guess(first.unwrap_or(NOWHERE))
    }

    const PREFETCH_STEPS: usize = 2;

    #[inline(always)]
    fn prefetch_next(&self, guess: Guess) -> Guess {
        if guess.0 == NOWHERE {
            return guess;
        }
        let next = self.core.after_item(guess.0);
        self.core.prefetch_item(next);
        Guess(next)
    }

    #[inline(always)]
    fn read<S>(&mut self, key: Key<'_>, _guess: Guess, now: Seconds, sink: &mut S) -> Read
    where
        S: Sink<Pin = FleecPin>,
    {
        self.core.settle_flush(now);
        loop {
            let core = &*self.core;
            let buckets = core.table.buckets();
            let bucket = crate::order::bucket_of(key.hash.0, buckets);
            let nodes = ReadNodes(core);
            let pass = core.gate.enter(bucket);
            let mut reader = Reader { core, key, now, sink: &mut *sink };
            let found = find(&nodes, core.table.head(bucket), buckets, &mut reader);
            drop(pass);
            match found {
                Found::Absent => return Read::Miss(MissKind::Absent),
                Found::There(Taken::Copied { noted }, sight) => {
                    if sink.recency() == Recency::Bump {
                        core.table.touch(bucket);
                        if !noted {
                            let held = sight.hold(&self.hazard);
                            if let Some(item) = core.item(sight.at, now).filter(|_| held) {
                                item.note_read(now);
                            }
                            self.hazard.clear();
                            if !held {
                                self.note_read(key, now);
                            }
                        }
                    }
                    return Read::Hit;
                }
                Found::There(Taken::Dead(kind), _) => {
                    self.remove_dead(key, now);
                    return Read::Miss(kind);
                }
                Found::There(Taken::Long, _) => {
                    if self.read_long(key, now, sink).is_some() {
                        return Read::Hit;
                    }
                }
                Found::Torn(taken) => {
                    if let Some(Taken::Copied { .. }) = taken {
                        sink.undo();
                    }
                    self.counters.add(Counter::ReadRetries, 1);
                }
            }
        }
    }

    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        _guess: Guess,
        now: Seconds,
        provision: Provision<FleecPending>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        self.read_modify_write(key, now, provision, decide)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<FleecPending, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        self.new_pending(key.len(), &spec).ok_or(StoreError::NoMemory)
    }

    fn extend(&mut self, pending: &mut FleecPending, bytes: &[u8]) -> Result<(), StoreError> {
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

    /// Nobody waits for quiescent points here; but somebody may have found no memory.
    #[inline]
    fn quiesce(&mut self) {
        if self.recalls_seen != self.core.recalls.load(Ordering::Relaxed) {
            self.heed_recall();
        }
    }

    fn offline(&mut self) {
        self.quiesce();
    }

    fn release_caches(&mut self) {
        self.give_all_back();
        self.core.table.count(std::mem::take(&mut self.uncounted));
        // What somebody has announced still is for whoever comes by when he has not any more: we may sleep for long.
        if !self.retired.is_empty() {
            self.core.orphan(&mut self.retired);
            self.kept = 0;
        }
    }

    fn online(&mut self) {}

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.do_maintain(now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<FleecWalk> {
        FleecWalk::begin(&self.core)
    }

    fn walk(&mut self, walk: &mut FleecWalk, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        self.step(walk, now, see)
    }
}

impl Drop for FleecSession {
    fn drop(&mut self) {
        self.release_caches();
        self.core.shell.registry().retire(&self.counters);
    }
}

/// An item as a decision sees it, with its class.
pub(crate) fn meta_of(core: &Core, item: &Item<'_>) -> Meta {
    item.of_class(core.class_number(item.at)).meta()
}
