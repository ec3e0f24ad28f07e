//! A thread's access to the engine, and reading.

use crate::allocator::Allocator;
use crate::core::Core;
use crate::flush;
use crate::index::{Found, Visit, bucket_of};
use crate::local::Local;
use crate::maintain;
use crate::pending::FleecPending;
use crate::pin::FleecPin;
use crate::retired::is_long;
use crate::update;
use crate::walk::FleecWalk;
use guira_contract::{
    Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, MissKind, Pace, Provision, Read, Recency,
    Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::INLINE_MAX;
use guira_items::hooks::{self, Window};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Debug)]
pub struct FleecSession {
    allocator: Allocator,
}

/// What was learnt of a key ahead of the read: the item that was prefetched last.
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
    /// The sink has a copy. `noted`: a recent read is noted in the header already.
    Copied {
        noted: bool,
    },
    Dead(MissKind),
    /// The value is too long to be copied.
    Long,
}

impl FleecSession {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        FleecSession { allocator: Allocator::new(Local::new(core)) }
    }

    #[inline(always)]
    fn core(&self) -> &Arc<Core> {
        self.allocator.local().core()
    }

    #[cfg(all(test, not(guira_loom)))]
    pub(crate) fn retired(&self) -> usize {
        self.allocator.local().retired().len()
    }

    /// Notes a read in the header of an item. Done now and then for each item: see [`guira_items::Item::note_read`].
    #[cold]
    #[inline(never)]
    fn note_read(&mut self, key: Key<'_>, now: Seconds) {
        let mut editor = self.allocator.local_mut().editor();
        let core = editor.core();
        editor.at_key(core.table.bucket_of(key.hash.0), key, now, |_, spot| {
            if let Some(item) = spot.node.and_then(|node| core.item(node.at, now)) {
                item.note_read(now);
            }
        });
    }

    /// Pins a long value and passes it to the sink. `None` if there is no item under the key any more, or not a long one.
    #[cold]
    #[inline(never)]
    fn read_long<S: Sink<Pin = FleecPin>>(&mut self, key: Key<'_>, now: Seconds, sink: &mut S) -> Option<()> {
        let core = self.core().clone();
        let bucket = core.table.bucket_of(key.hash.0);
        loop {
            let mut editor = self.allocator.local_mut().editor();
            let pinned = editor.at_key(bucket, key, now, |_, spot| {
                let node = spot.node?;
                let item = core.item(node.at, now).filter(is_long)?;
                if core.dead(&item, now).is_some() {
                    return None;
                }
                let meta = core.meta_of(&item);
                let pin = FleecPin::of(&core, &item);
                // The item was there after the pin was announced: so it stays until the pin is dropped.
                Some(node.stands().then_some((meta, pin)))
            })?;
            if let Some((meta, pin)) = pinned {
                sink.pinned(&meta, pin);
                if sink.recency() == Recency::Bump {
                    core.table.touch(bucket);
                    // The sink may have dropped the pin already, so the item is looked up again.
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
            Want::Meta => self.sink.found(&item.of_class(self.core.memory.class_number(at))),
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
        self.core().options.engine.eviction.lossiness()
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.core().shell.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        let table = &self.core().table;
        table.prefetch(table.bucket_of(hash.0));
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let table = &self.core().table;
        let first = table.first_of(table.bucket_of(hash.0));
        if let Some(at) = first {
            table.prefetch_item(at);
        }
        Guess(first.unwrap_or(NOWHERE))
    }

    const PREFETCH_STEPS: usize = 2;

    #[inline(always)]
    fn prefetch_next(&self, guess: Guess) -> Guess {
        if guess.0 == NOWHERE {
            return guess;
        }
        let table = &self.core().table;
        let next = table.after_item(guess.0);
        table.prefetch_item(next);
        Guess(next)
    }

    #[inline(always)]
    fn read<S>(&mut self, key: Key<'_>, _guess: Guess, now: Seconds, sink: &mut S) -> Read
    where
        S: Sink<Pin = FleecPin>,
    {
        flush::settle(self.core(), now);
        loop {
            let local = self.allocator.local();
            let core = &**local.core();
            let buckets = core.table.buckets();
            let bucket = bucket_of(key.hash.0, buckets);
            let mut reader = Reader { core, key, now, sink: &mut *sink };
            match core.table.find(bucket, buckets, &mut reader) {
                Found::Absent => return Read::Miss(MissKind::Absent),
                Found::There(Taken::Copied { noted }, sight) => {
                    if sink.recency() == Recency::Bump {
                        core.table.touch(bucket);
                        if !noted {
                            let held = sight.hold(local.hazard());
                            if let Some(item) = core.item(sight.at, now).filter(|_| held) {
                                item.note_read(now);
                            }
                            local.hazard().clear();
                            if !held {
                                self.note_read(key, now);
                            }
                        }
                    }
                    return Read::Hit;
                }
                Found::There(Taken::Dead(kind), _) => {
                    update::remove_dead(&mut self.allocator, key, now);
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
                    local.counters().add(Counter::ReadRetries, 1);
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
        update::update(&mut self.allocator, key, now, provision, decide)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<FleecPending, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        FleecPending::arriving(&mut self.allocator, key, &spec).ok_or(StoreError::NoMemory)
    }

    fn extend(&mut self, pending: &mut FleecPending, bytes: &[u8]) -> Result<(), StoreError> {
        if pending.extend(&mut self.allocator, bytes) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        self.core().fits(key_len, spec)
    }

    fn next_cas(&mut self) -> u64 {
        self.core().shell.next_cas()
    }

    /// No session waits for quiescent points here, only the crawler; but another session may have found no memory.
    #[inline]
    fn quiesce(&mut self) {
        self.allocator.local_mut().heed_recalls();
        self.allocator.local().quiesce();
    }

    fn offline(&mut self) {
        self.quiesce();
        self.allocator.local().offline();
    }

    fn release_caches(&mut self) {
        self.allocator.local_mut().release();
    }

    fn online(&mut self) {
        self.allocator.local().online();
    }

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        maintain::maintain(self.allocator.local_mut(), now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<FleecWalk> {
        FleecWalk::begin(self.core())
    }

    fn walk(&mut self, walk: &mut FleecWalk, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        walk.step(now, see)
    }
}
