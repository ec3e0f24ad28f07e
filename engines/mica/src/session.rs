//! A thread's access to the engine, and reading.

use crate::core::Core;
use crate::entry::Entry;
use crate::guess::Guess;
use crate::index::Tag;
use crate::local::Local;
use crate::maintain::{self, NextPartitions};
use crate::partition::{Home, partition_of};
use crate::pending::MicaPending;
use crate::pin::MicaPin;
use crate::reader::{CHAIN_MAX, Look, Reader, Seen};
use crate::refill::refill;
use crate::store::{ItemStore, Log};
use crate::update;
use crate::walk::MicaWalk;
use crate::writer::Writer;
use guira_contract::{
    Access, Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, MissKind, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::INLINE_MAX;
use guira_items::hooks::{self, Window};
use guira_sync::atomic::Backoff;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Debug)]
pub struct MicaSession<S: ItemStore = Log> {
    local: Local<S>,
    next: NextPartitions,
}

impl<S: ItemStore> MicaSession<S> {
    pub(crate) fn new(core: Arc<Core<S>>) -> Self {
        MicaSession { local: Local::new(core), next: NextPartitions::default() }
    }

    #[cfg(all(test, not(guira_loom)))]
    pub(crate) fn holds(&self, partition: usize) -> bool {
        self.local.holdings().has(partition)
    }

    /// Lets flushes take effect in a partition that is about to be read. False if another session works on it, which will do that: then there is nothing to
    /// read.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, partition: usize, now: Seconds) -> bool {
        let core = self.local.core();
        let count = core.flushes.settle(now);
        core.partitions[partition].flushes() == count
            || self.local.try_holding(partition, now, |_| ()).is_some()
    }

    /// Notes the read of an item. Under CREW only the holder's reads count (MICA, section 4.1).
    #[cold]
    #[inline(never)]
    fn after_read(&mut self, key: Key<'_>, now: Seconds) {
        let core = self.local.core();
        let (home, access) = (Home::of(key.hash, core.bits), core.locks.access());
        let act = |writer: &mut Writer<'_, S>| update::touch(writer, key, home);
        match access {
            Access::Crew => _ = self.local.try_holding(home.partition, now, act),
            Access::Erew | Access::Crcw => self.local.holding(home.partition, now, act),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slowly<K>(&mut self, key: Key<'_>, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = self.local.core();
        let home = Home::of(key.hash, core.bits);
        if core.locks.access() == Access::Erew {
            self.local.take(home.partition);
        }
        let mut backoff = Backoff::default();
        loop {
            let core = &**self.local.core();
            let part = &core.partitions[home.partition];
            if core.flushes.count_at(now) != Some(part.flushes()) {
                if !self.settle(home.partition, now) {
                    return Read::Miss(MissKind::Absent);
                }
                continue;
            }
            let (region, flushes) = (core.shell.region(), &core.flushes);
            let mut reader = Reader { part, region, flushes, key, now, sink: &mut *sink };
            match reader.search(home.place) {
                Look::Found(Seen::Copied { noted, used }, offset) => {
                    if sink.recency() == Recency::Bump
                        && (!noted || part.is_use_news(|| core.policy.get(), offset, used))
                    {
                        self.after_read(key, now);
                    }
                    return Read::Hit;
                }
                Look::Found(Seen::Dead(kind), _) => {
                    self.local.try_holding(home.partition, now, |writer| writer.remove_dead(key, home));
                    return Read::Miss(kind);
                }
                Look::Found(Seen::Long, _) => {
                    if self.read_long(key, home, now, sink) {
                        if sink.recency() == Recency::Bump {
                            self.after_read(key, now);
                        }
                        return Read::Hit;
                    }
                }
                Look::Found(Seen::Other, _) | Look::Absent => return Read::Miss(self.miss(key, home, now)),
                Look::Deep => return self.read_deep(key, home, now, sink),
                Look::Torn { copied } => {
                    if copied {
                        sink.undo();
                    }
                    self.local.counters().add(Counter::ReadRetries, 1);
                    backoff.wait();
                }
            }
        }
    }

    /// Changes the item under `key`, in all cases but the usual one.
    #[inline(never)]
    fn update_slowly<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        provision: Provision<MicaPending<S>>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let home = Home::of(key.hash, self.local.core().bits);
        if let Provision::Item(spec) = &provision
            && !self.fits(key.bytes.len(), spec)
        {
            // The fast path may have taken the partition.
            self.local.release(home.partition);
            return Err(StoreError::TooLarge);
        }
        self.local.take(home.partition);
        let mut writer = self.local.writer(home.partition, now);
        writer.settle();
        let pending = match &provision {
            Provision::Pending(pending) => Some(pending),
            Provision::None | Provision::Item(_) => None,
        };
        let result = update::update(&mut writer, key, home, pending, decide);
        self.local.release(home.partition);
        // Most updates have no pending value: this check costs less than a call that finds nothing to drop.
        match provision {
            Provision::Pending(pending) => drop(pending),
            other => std::mem::forget(other),
        }
        result
    }

    /// Reads while holding the partition: nothing changes meanwhile.
    fn read_deep<K>(&mut self, key: Key<'_>, home: Home, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = self.local.core().clone();
        let wants = sink.wants();
        let long = self.local.holding(home.partition, now, |writer| {
            let found = writer.find(key, home).filter(|found| !writer.is_dead(found))?;
            if found.entry.value_len() > INLINE_MAX && wants == Want::Value {
                let value_at = found.entry.value_at();
                let meta = found.entry.meta();
                let pin = MicaPin::new(&core, home.partition, found.offset, value_at, meta.value_len);
                return Some(Some((meta, pin)));
            }
            sink.found(&found.entry);
            if sink.recency() == Recency::Bump {
                update::touch(writer, key, home);
            }
            Some(None)
        });
        match long {
            None => return Read::Miss(MissKind::Absent),
            Some(None) => {}
            Some(Some((meta, pin))) => sink.pinned(&meta, pin),
        }
        Read::Hit
    }

    /// Pins a long value and passes it to the sink. False if it is not there any more.
    #[cold]
    #[inline(never)]
    fn read_long<K>(&mut self, key: Key<'_>, home: Home, now: Seconds, sink: &mut K) -> bool
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = self.local.core().clone();
        let found = self.local.holding(home.partition, now, |writer| {
            let found = writer.find(key, home)?;
            let meta = found.entry.meta();
            if meta.value_len <= INLINE_MAX || writer.is_dead(&found) {
                return None;
            }
            let value_at = found.entry.value_at();
            Some((meta, MicaPin::new(&core, home.partition, found.offset, value_at, meta.value_len)))
        });
        found.is_some_and(|(meta, pin)| {
            sink.pinned(&meta, pin);
            true
        })
    }

    #[cold]
    #[inline(never)]
    fn miss(&self, key: Key<'_>, home: Home, now: Seconds) -> MissKind {
        let core = self.local.core();
        let part = &core.partitions[home.partition];
        let (index, store) = (part.index(), part.store());
        let main = index.bucket(index.bucket_of(home.place, index.extent()));
        let is_flushed = |offset| {
            store.is_flushed(offset)
                && Entry::at(core.shell.region(), store.at(offset), now)
                    .is_some_and(|entry| entry.key_is(key.bytes))
        };
        // It may change meanwhile: this is for statistics only.
        let tag = Tag::of(key.hash.0);
        let mut buckets = std::iter::once(main).chain(index.chain_of(main)).take(CHAIN_MAX);
        let was_flushed =
            buckets.any(|bucket| bucket.tagged(tag).any(|slot| is_flushed(bucket.offset(slot))));
        if was_flushed { MissKind::Flushed } else { MissKind::Absent }
    }
}

impl<S: ItemStore> Session for MicaSession<S> {
    type Pin = MicaPin<S>;
    type Pending = MicaPending<S>;
    type Guess = Guess;
    type Walk = MicaWalk<S>;

    const CLIENT_HASHES: bool = true;

    fn lossiness(&self) -> Lossiness {
        if S::IS_LOSSY { Lossiness::Cache } else { Lossiness::Store }
    }

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.local.core().shell.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        let core = self.local.core();
        let home = Home::of(hash, core.bits);
        let index = core.partitions[home.partition].index();
        index.prefetch(index.bucket_of(home.place, index.extent()));
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let core = self.local.core();
        let home = Home::of(hash, core.bits);
        let part = &core.partitions[home.partition];
        let index = part.index();
        let number = index.bucket_of(home.place, index.extent());
        let bucket = index.bucket(number);
        let Some(version) = bucket.begin() else {
            return Guess::default();
        };
        let Some(slot) = bucket.tagged(Tag::of(hash.0)).next() else {
            return Guess::default();
        };
        let offset = bucket.offset(slot);
        let at = part.store().at(offset).bytes();
        core.shell.region().prefetch(at);
        core.shell.region().prefetch(at + 64);
        Guess { offset, bucket: number, version }
    }

    /// The fast path: the guess was right, and the item is short and its read is noted.
    #[inline(always)]
    fn read<K>(&mut self, key: Key<'_>, guess: Guess, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = &**self.local.core();
        let number = partition_of(key.hash, core.bits);
        let part = &core.partitions[number];
        let is_ready =
            self.local.holdings().may_read(number) && core.flushes.count_at(now) == Some(part.flushes());
        if !is_ready || guess.is_none() {
            return self.read_slowly(key, now, sink);
        }
        let bucket = part.index().bucket(guess.bucket);
        if !bucket.begins_as(guess.version) || !part.store().is_live(guess.offset) {
            return self.read_slowly(key, now, sink);
        }
        let entry = Entry::at(core.shell.region(), part.store().at(guess.offset), now);
        let Some(entry) = entry.filter(|entry| entry.key_is(key.bytes)) else {
            return self.read_slowly(key, now, sink);
        };
        let is_long = entry.value_len() > INLINE_MAX && sink.wants() == Want::Value;
        let is_clean = core.flushes.of_prefixes() == part.clean_since();
        if is_long || entry.expiry().passed(now) || (!is_clean && core.flushes.kills(entry.stamped())) {
            return self.read_slowly(key, now, sink);
        }
        hooks::pause(Window::Reading);
        sink.found(&entry);
        if !bucket.is_still(guess.version) || !part.store().is_still_live(guess.offset) {
            sink.undo();
            self.local.counters().add(Counter::ReadRetries, 1);
            return self.read_slowly(key, now, sink);
        }
        let is_done = entry.header().is_noted(now)
            && !part.is_use_news(|| core.policy.get(), guess.offset, entry.is_used());
        if !is_done && sink.recency() == Recency::Bump {
            self.after_read(key, now);
        }
        Read::Hit
    }

    /// The fast path: an item takes the place of the guessed one.
    #[inline(always)]
    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        guess: Guess,
        now: Seconds,
        provision: Provision<MicaPending<S>>,
        mut decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let is_whole = !matches!(provision, Provision::Pending(_));
        if is_whole && !guess.is_none() && refill(&mut self.local, key, guess, now, &mut decide) {
            return Ok(());
        }
        self.update_slowly(key, now, provision, decide)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<MicaPending<S>, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        Ok(MicaPending::new(self.local.core().clone(), spec.value_len))
    }

    fn extend(&mut self, pending: &mut MicaPending<S>, bytes: &[u8]) -> Result<(), StoreError> {
        if pending.append(bytes) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        self.local.core().fits(key_len, spec)
    }

    fn next_cas(&mut self) -> u64 {
        self.local.core().shell.next_cas()
    }

    /// Gives back the partitions that others wait for.
    #[inline]
    fn quiesce(&mut self) {
        self.local.heed_recalls();
    }

    fn offline(&mut self) {
        self.local.give_all();
    }

    fn release_caches(&mut self) {
        self.local.release_all();
    }

    fn online(&mut self) {}

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        maintain::maintain(&mut self.local, &mut self.next, now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<MicaWalk<S>> {
        MicaWalk::begin(self.local.core())
    }

    fn walk(&mut self, walk: &mut MicaWalk<S>, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        walk.step(&mut self.local, now, see)
    }
}
