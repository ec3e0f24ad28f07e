//! A thread's access to the engine, and reading.

use crate::bucket::{Tag, Version};
use crate::cache::Keeps;
use crate::core::Core;
use crate::entry::{ENTRY_MAX, Entry};
use crate::hold::Holdings;
use crate::log::Log;
use crate::partition::{Home, Partition, partition_of};
use crate::pending::MicaPending;
use crate::pin::MicaPin;
use crate::scratch::ScratchBuffer;
use crate::space::Space;
use crate::update::Writer;
use crate::walk::MicaWalk;
use guira_contract::{
    Access, Counter, Decision, ItemSpec, ItemView, Key, KeyHash, Lossiness, MissKind, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Walked, WalkedItem, Want,
};
use guira_items::hooks::{self, Window};
use guira_items::{INLINE_MAX, SessionCounters, counted_size};
use guira_sync::atomic::Backoff;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// A session of the engine.
#[derive(Debug)]
pub struct MicaSession<S: Space = Log> {
    pub(crate) core: Arc<Core<S>>,
    pub(crate) holdings: Holdings,
    pub(crate) counters: Arc<SessionCounters>,
    /// Room for a value that is put together.
    pub(crate) scratch: ScratchBuffer,
    /// The partition that upkeep comes to next.
    pub(crate) upkeep_next: usize,
}

/// What has been learnt of a key ahead of working on it: an entry that has its tag, and the version of the bucket in which that was found.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    pub(crate) offset: u64,
    pub(crate) bucket: u32,
    pub(crate) version: Version,
}

/// No offset.
const NOWHERE: u64 = u64::MAX;

impl Guess {
    /// Whether nothing was learnt.
    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.offset == NOWHERE
    }
}

impl Default for Guess {
    fn default() -> Self {
        Guess { offset: NOWHERE, bucket: 0, version: Version::default() }
    }
}

/// Buckets in a row that are looked through by whoever does not hold the partition: what leads from one to the next may be torn, and lead in a circle.
const CHAIN_MAX: usize = 64;

/// What a look at an entry came to.
enum Seen {
    /// The sink has a copy. `noted`: the header says already that it was read a moment ago. `used`: the anchor, that it is to be kept.
    Copied { noted: bool, used: bool },
    /// It has expired.
    Expired,
    /// It is too long to be copied.
    Long,
    /// It is another key's.
    Other,
}

/// What a look for a key came to.
enum Look {
    Found(Seen, u64),
    Absent,
    /// There are more buckets to look through than a reader who may be led in a circle should.
    Deep,
    /// Something changed meanwhile. If `copied`, the sink has to take back what it was given.
    Torn {
        copied: bool,
    },
}

/// One reading.
struct Reader<'r, S, K> {
    part: &'r Partition<S>,
    core: &'r Core<S>,
    key: Key<'r>,
    now: Seconds,
    sink: &'r mut K,
}

impl<S: Space, K: Sink<Pin = MicaPin<S>>> Reader<'_, S, K> {
    #[inline(always)]
    fn see(&mut self, offset: u64) -> Seen {
        let Some(entry) = Entry::at(self.core.shell.region(), self.part.space.at(offset), self.now) else {
            return Seen::Other;
        };
        if !entry.key_is(self.key.bytes) {
            return Seen::Other;
        }
        if entry.expiry().passed(self.now) {
            return Seen::Expired;
        }
        hooks::pause(Window::Reading);
        if entry.value_len() > INLINE_MAX && self.sink.wants() == Want::Value {
            return Seen::Long;
        }
        self.sink.found(&entry);
        Seen::Copied { noted: entry.header().is_noted(self.now), used: entry.is_used() }
    }

    /// Looks through the key's bucket.
    fn search(&mut self, place: u32) -> Look {
        let (index, space) = (&self.part.index, &self.part.space);
        let extent = index.extent();
        let main = index.bucket(index.bucket_of(place, extent));
        let version = main.begin();
        let Some(version) = version.filter(|_| index.extent() == extent) else {
            return Look::Torn { copied: false };
        };
        let mut bucket = main;
        for _ in 0..CHAIN_MAX {
            for slot in bucket.tagged(Tag::of(self.key.hash.0)) {
                let offset = bucket.offset(slot);
                if !space.is_live(offset) {
                    continue;
                }
                let seen = self.see(offset);
                if matches!(seen, Seen::Other) {
                    continue;
                }
                if main.is_still(version) && space.is_still_live(offset) {
                    return Look::Found(seen, offset);
                }
                return Look::Torn { copied: matches!(seen, Seen::Copied { .. }) };
            }
            let next = if S::IS_LOSSY { None } else { index.linked(bucket.link()) };
            match next {
                Some(next) => bucket = next,
                None if main.is_still(version) => return Look::Absent,
                None => break,
            }
        }
        if main.is_still(version) { Look::Deep } else { Look::Torn { copied: false } }
    }
}

impl<S: Space> MicaSession<S> {
    pub(crate) fn new(core: Arc<Core<S>>) -> Self {
        let counters = core.shell.registry().register();
        let holdings = Holdings::new(&core);
        MicaSession { core, holdings, counters, scratch: ScratchBuffer::default(), upkeep_next: 0 }
    }

    /// Works on a partition that is held meanwhile.
    pub(crate) fn writer<'s>(&'s mut self, partition: usize, now: Seconds) -> Writer<'s, S> {
        let MicaSession { core, counters, scratch, .. } = self;
        let part = &core.partitions[partition];
        Writer { core, part, partition, counters, scratch, now, replaced: None, keeps_left: Keeps::NONE }
    }

    /// Does something with a partition as the one who holds it, and gives it back unless it was held before.
    pub(crate) fn holding<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> R {
        let before = self.holdings.has(partition);
        self.holdings.take(&self.core.clone(), partition);
        self.act(partition, now, before, act)
    }

    /// The same, if nobody else holds it.
    pub(crate) fn try_holding<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> Option<R> {
        let before = self.holdings.has(partition);
        let core = self.core.clone();
        self.holdings.try_take(&core, partition).then(|| self.act(partition, now, before, act))
    }

    fn act<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        held_before: bool,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> R {
        let mut writer = self.writer(partition, now);
        writer.settle();
        let result = act(&mut writer);
        if !held_before {
            let core = self.core.clone();
            self.holdings.give(&core, partition);
        }
        result
    }

    /// Lets flushes take effect in a partition that is about to be read. If somebody else works on it, he will: then there is nothing to be read.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, partition: usize, now: Seconds) -> bool {
        let count = self.core.flushes.settle(now);
        self.core.partitions[partition].flushes() == count
            || self.try_holding(partition, now, |_| ()).is_some()
    }

    /// What is left to do after an item was read: to note it. Under CREW only the holder's reads count (MICA, section
    /// 4.1).
    #[cold]
    #[inline(never)]
    fn after_read(&mut self, key: Key<'_>, now: Seconds) {
        let home = Home::of(key.hash, self.core.bits);
        let act = |writer: &mut Writer<'_, S>| writer.touch(key, home);
        match self.core.access {
            Access::Crew => _ = self.try_holding(home.partition, now, act),
            Access::Erew | Access::Crcw => self.holding(home.partition, now, act),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slowly<K>(&mut self, key: Key<'_>, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let home = Home::of(key.hash, self.core.bits);
        if self.core.access == Access::Erew {
            self.holdings.take(&self.core, home.partition);
        }
        let mut backoff = Backoff::default();
        loop {
            let core = &*self.core;
            let part = &core.partitions[home.partition];
            if core.flushes.count_at(now) != Some(part.flushes()) {
                if !self.settle(home.partition, now) {
                    return Read::Miss(MissKind::Absent);
                }
                continue;
            }
            let mut reader = Reader { part, core, key, now, sink: &mut *sink };
            match reader.search(home.place) {
                Look::Found(Seen::Copied { noted, used }, offset) => {
                    if sink.recency() == Recency::Bump
                        && (!noted || part.is_use_news(|| core.policy(), offset, used))
                    {
                        self.after_read(key, now);
                    }
                    return Read::Hit;
                }
                Look::Found(Seen::Expired, _) => {
                    self.try_holding(home.partition, now, |writer| writer.remove_dead(key, home));
                    return Read::Miss(MissKind::Expired);
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
                    self.counters.add(Counter::ReadRetries, 1);
                    backoff.wait();
                }
            }
        }
    }

    /// Works on a key with the partition in hand, whatever it comes to.
    #[inline(never)]
    pub(crate) fn change<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        provision: Provision<MicaPending<S>>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let home = Home::of(key.hash, self.core.bits);
        if let Provision::Item(spec) = &provision
            && !self.fits(key.bytes.len(), spec)
        {
            // It may have been taken for what has turned out to be too large.
            self.holdings.release(&self.core, home.partition);
            return Err(StoreError::TooLarge);
        }
        self.holdings.take(&self.core, home.partition);
        let mut writer = self.writer(home.partition, now);
        writer.settle();
        let pending = match &provision {
            Provision::Pending(pending) => Some(pending),
            Provision::None | Provision::Item(_) => None,
        };
        let result = writer.change(key, home, pending, decide);
        self.holdings.release(&self.core, home.partition);
        // Most updates have no pending value: this look costs less than a call that finds nothing to drop.
        match provision {
            Provision::Pending(pending) => drop(pending),
            other => std::mem::forget(other),
        }
        result
    }

    /// Reads as the one who holds the partition: nothing changes meanwhile.
    fn read_deep<K>(&mut self, key: Key<'_>, home: Home, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = self.core.clone();
        let wants = sink.wants();
        let long = self.holding(home.partition, now, |writer| {
            let found = writer.find(key, home).filter(|found| !found.entry.expiry().passed(now))?;
            if found.entry.value_len() > INLINE_MAX && wants == Want::Value {
                let value_at = found.entry.value_at();
                let meta = found.entry.meta();
                let pin = MicaPin::new(&core, home.partition, found.offset, value_at, meta.value_len);
                return Some(Some((meta, pin)));
            }
            sink.found(&found.entry);
            if sink.recency() == Recency::Bump {
                writer.touch(key, home);
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

    /// Pins a long value, and gives it to the sink. False if it is not there any more.
    #[cold]
    #[inline(never)]
    fn read_long<K>(&mut self, key: Key<'_>, home: Home, now: Seconds, sink: &mut K) -> bool
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = self.core.clone();
        let found = self.holding(home.partition, now, |writer| {
            let found = writer.find(key, home)?;
            let meta = found.entry.meta();
            if meta.value_len <= INLINE_MAX || meta.expiry.passed(now) {
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

    /// What kind of a miss it is.
    #[cold]
    #[inline(never)]
    fn miss(&self, key: Key<'_>, home: Home, now: Seconds) -> MissKind {
        let part = &self.core.partitions[home.partition];
        let bucket = part.index.bucket(part.index.bucket_of(home.place, part.index.extent()));
        let is_flushed = |slot| {
            let offset = bucket.offset(slot);
            part.space.is_flushed(offset)
                && Entry::at(self.core.shell.region(), part.space.at(offset), now)
                    .is_some_and(|entry| entry.key_is(key.bytes))
        };
        // It may change meanwhile: this is for statistics.
        if bucket.tagged(Tag::of(key.hash.0)).any(is_flushed) { MissKind::Flushed } else { MissKind::Absent }
    }
}

impl<S: Space> Session for MicaSession<S> {
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
        self.core.shell.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        let home = Home::of(hash, self.core.bits);
        let index = &self.core.partitions[home.partition].index;
        index.prefetch(index.bucket_of(home.place, index.extent()));
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) -> Guess {
        let home = Home::of(hash, self.core.bits);
        let part = &self.core.partitions[home.partition];
        let number = part.index.bucket_of(home.place, part.index.extent());
        let bucket = part.index.bucket(number);
        let Some(version) = bucket.begin() else {
            return Guess::default();
        };
        let Some(slot) = bucket.tagged(Tag::of(hash.0)).next() else {
            return Guess::default();
        };
        let offset = bucket.offset(slot);
        let at = part.space.at(offset).bytes();
        self.core.shell.region().prefetch(at);
        self.core.shell.region().prefetch(at + 64);
        Guess { offset, bucket: number, version }
    }

    /// The usual case, here: what was guessed is the item, and it is short and was noted. All others are dealt with elsewhere.
    #[inline(always)]
    fn read<K>(&mut self, key: Key<'_>, guess: Guess, now: Seconds, sink: &mut K) -> Read
    where
        K: Sink<Pin = MicaPin<S>>,
    {
        let core = &*self.core;
        let number = partition_of(key.hash, core.bits);
        let part = &core.partitions[number];
        let is_ready = self.holdings.may_read(number) && core.flushes.count_at(now) == Some(part.flushes());
        if !is_ready || guess.is_none() {
            return self.read_slowly(key, now, sink);
        }
        let bucket = part.index.bucket(guess.bucket);
        if !bucket.begins_as(guess.version) || !part.space.is_live(guess.offset) {
            return self.read_slowly(key, now, sink);
        }
        let entry = Entry::at(core.shell.region(), part.space.at(guess.offset), now);
        let Some(entry) = entry.filter(|entry| entry.key_is(key.bytes)) else {
            return self.read_slowly(key, now, sink);
        };
        let is_long = entry.value_len() > INLINE_MAX && sink.wants() == Want::Value;
        if is_long || entry.expiry().passed(now) {
            return self.read_slowly(key, now, sink);
        }
        hooks::pause(Window::Reading);
        sink.found(&entry);
        if !bucket.is_still(guess.version) || !part.space.is_still_live(guess.offset) {
            sink.undo();
            self.counters.add(Counter::ReadRetries, 1);
            return self.read_slowly(key, now, sink);
        }
        let is_done = entry.header().is_noted(now)
            && !part.is_use_news(|| core.policy(), guess.offset, entry.is_used());
        if !is_done && sink.recency() == Recency::Bump {
            self.after_read(key, now);
        }
        Read::Hit
    }

    /// The usual case, here: an item takes the place of the one that was guessed. All others are dealt with elsewhere.
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
        if is_whole && !guess.is_none() && self.refill(key, guess, now, &mut decide) {
            return Ok(());
        }
        self.change(key, now, provision, decide)
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<MicaPending<S>, StoreError> {
        if !self.fits(key.len(), &spec) {
            return Err(StoreError::TooLarge);
        }
        Ok(MicaPending::new(self.core.clone(), spec.value_len))
    }

    fn extend(&mut self, pending: &mut MicaPending<S>, bytes: &[u8]) -> Result<(), StoreError> {
        if pending.append(bytes) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        counted_size(key_len, spec.flags, spec.value_len) <= self.core.options.engine.max_item_size
            && key_len + spec.value_len + ENTRY_MAX <= self.core.largest_item()
    }

    fn next_cas(&mut self) -> u64 {
        self.core.shell.next_cas()
    }

    /// Partitions that others wait for are given back.
    #[inline]
    fn quiesce(&mut self) {
        self.holdings.heed_recalls(&self.core);
    }

    fn offline(&mut self) {
        self.holdings.give_all(&self.core);
    }

    fn release_caches(&mut self) {
        self.holdings.give_all(&self.core);
        self.scratch.release();
    }

    fn online(&mut self) {}

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.do_maintain(now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<MicaWalk<S>> {
        MicaWalk::begin(&self.core)
    }

    fn walk(&mut self, walk: &mut MicaWalk<S>, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        self.step(walk, now, see)
    }
}

impl<S: Space> Drop for MicaSession<S> {
    fn drop(&mut self) {
        self.release_caches();
        self.core.shell.registry().retire(&self.counters);
    }
}
