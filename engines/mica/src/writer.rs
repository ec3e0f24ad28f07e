//! A session at work on a partition that it holds: finding and removing items.

use crate::core::Core;
use crate::entry::Entry;
use crate::flush::generation_after;
use crate::index::{Bucket, Index, Tag};
use crate::partition::{Home, Partition};
use crate::scratch::ScratchBuffer;
use crate::store::{Holder, ItemStore};
use guira_contract::{Counter, Expiry, ItemState, Key};
use guira_items::{ClassUsage, Removal, Removed, SessionCounters};
use guira_memory::slab::ClassId;
use guira_sync::clock::Seconds;

/// There are no classes: all items count as of one.
pub(crate) const ALL: Option<ClassId> = Some(ClassId(0));

/// A session at work on a partition that it holds.
///
/// Operations that may remove or move other items than the one they are given, a search for room above all, take the writer by `&mut`; everything that was
/// found borrows it. So nothing that was found before a search for room can be used after it, and the key is looked up again.
pub(crate) struct Writer<'s, S> {
    core: &'s Core<S>,
    part: &'s Partition<S>,
    partition: usize,
    counters: &'s SessionCounters,
    scratch: &'s ScratchBuffer,
    now: Seconds,
    /// How many flushes of prefixes there were. Loaded once, while the partition is held: what is judged alive is stamped as of then.
    flushes: u64,
}

/// An item that the index leads to, dead or alive.
pub(crate) struct Found<'w> {
    /// The key's bucket, whose version tells of changes.
    pub(crate) main: Bucket<'w>,
    /// The bucket of the slot: the same, or one of its chain.
    pub(crate) bucket: Bucket<'w>,
    pub(crate) slot: usize,
    pub(crate) offset: u64,
    pub(crate) entry: Entry<'w>,
}

impl<'s, S: ItemStore> Writer<'s, S> {
    /// A writer for the partition with this number, which the session holds.
    #[inline(always)]
    pub(crate) fn new(
        core: &'s Core<S>,
        partition: usize,
        counters: &'s SessionCounters,
        scratch: &'s ScratchBuffer,
        now: Seconds,
    ) -> Self {
        let flushes = core.flushes.of_prefixes();
        Writer { core, part: &core.partitions[partition], partition, counters, scratch, now, flushes }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &'s Core<S> {
        self.core
    }

    #[inline(always)]
    pub(crate) fn part(&self) -> &'s Partition<S> {
        self.part
    }

    pub(crate) fn partition(&self) -> usize {
        self.partition
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &'s SessionCounters {
        self.counters
    }

    #[inline(always)]
    pub(crate) fn scratch(&self) -> &'s ScratchBuffer {
        self.scratch
    }

    #[inline(always)]
    pub(crate) fn time(&self) -> Seconds {
        self.now
    }

    /// The flush generation of what it stores.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        generation_after(self.flushes)
    }

    /// How many flushes of prefixes there were when it began.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Whether no flush of prefixes has to be thought of.
    #[inline(always)]
    pub(crate) fn is_clean(&self) -> bool {
        self.part.clean_since() == self.flushes
    }

    /// Lets flushes of everything take effect that have not yet.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.core.flushes.count_at(self.now) != Some(self.part.flushes()) {
            self.take_effect();
        }
    }

    #[cold]
    fn take_effect(&mut self) {
        let count = self.core.flushes.settle(self.now);
        if count == self.part.flushes() {
            return;
        }
        let ClassUsage { items, bytes } = self.part.usage();
        self.part.store().flush(self);
        self.counters.items_added(ALL, items.wrapping_neg(), bytes.wrapping_neg());
        self.counters.add(Counter::Reclaimed, items);
        self.part.set_usage(ClassUsage::default());
        self.part.cleaned(self.flushes);
        self.part.flushed(count);
    }

    /// The item at `offset`, if there is one.
    #[inline(always)]
    pub(crate) fn entry_at(&self, offset: u64) -> Option<Entry<'s>> {
        if !self.part.store().is_live(offset) {
            return None;
        }
        Entry::at(self.core.shell.region(), self.part.store().at(offset), self.now)
    }

    #[inline(always)]
    pub(crate) fn bucket_of(&self, place: u32) -> Bucket<'s> {
        let index = self.part.index();
        index.bucket(index.bucket_of(place, index.extent()))
    }

    /// The item that the index has under the key.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key<'_>, home: Home) -> Option<Found<'_>> {
        self.find_tagged(key.bytes, home.place, Tag::of(key.hash.0))
    }

    /// The same, for a key with this place and tag.
    #[inline(always)]
    pub(crate) fn find_tagged(&self, key: &[u8], place: u32, tag: Tag) -> Option<Found<'_>> {
        let main = self.bucket_of(place);
        let mut bucket = main;
        loop {
            for slot in bucket.tagged(tag) {
                let offset = bucket.offset(slot);
                if let Some(entry) = self.entry_at(offset)
                    && entry.key_is(key)
                {
                    return Some(Found { main, bucket, slot, offset, entry });
                }
            }
            bucket = self.part.index().behind(bucket)?;
        }
    }

    /// The item in a slot, if it is still there.
    pub(crate) fn found_in(
        &self,
        main: Bucket<'s>,
        (bucket, slot): (Bucket<'s>, usize),
    ) -> Option<Found<'_>> {
        let offset = bucket.offset(slot);
        Some(Found { main, bucket, slot, offset, entry: self.entry_at(offset)? })
    }

    /// Whether an item has expired or was flushed.
    #[inline(always)]
    pub(crate) fn is_dead(&self, found: &Found<'_>) -> bool {
        self.is_dead_entry(&found.entry)
    }

    #[inline(always)]
    pub(crate) fn is_dead_entry(&self, entry: &Entry<'_>) -> bool {
        entry.expiry().passed(self.now)
            || (!self.is_clean() && self.core.flushes.has_killed(self.flushes, entry.stamped()))
    }

    /// Removes the item under the key if it is dead.
    pub(crate) fn remove_dead(&self, key: Key<'_>, home: Home) {
        if let Some(found) = self.find(key, home).filter(|found| self.is_dead(found)) {
            self.remove(found, Removal::Dead);
        }
    }

    /// Removes dead items from a bucket, and stamps the others with the generation of new ones. Returns how many items there were, and how many were removed.
    pub(crate) fn remove_dead_of(&mut self, number: u32) -> (u64, u64) {
        let main = self.part.index().bucket(number);
        let (mut seen, mut removed) = (0, 0);
        // From the last: a bucket that becomes empty is freed, and its slots are not looked at again.
        let slots: Vec<_> = self.part.index().slots_of(number).collect();
        for slot in slots.into_iter().rev() {
            seen += 1;
            removed += u64::from(self.remove_if_dead(main, slot));
        }
        (seen, removed)
    }

    /// Removes the item in a slot if it is dead, or stamps it; empties the slot if there is no item. True if an item was removed.
    fn remove_if_dead(&mut self, main: Bucket<'_>, (bucket, slot): (Bucket<'_>, usize)) -> bool {
        let Some(found) = self.found_in(main, (bucket, slot)) else {
            main.change(|| {
                bucket.clear(slot);
                self.part.index().tighten(main);
            });
            return false;
        };
        let is_dead = self.is_dead(&found);
        if is_dead {
            self.remove(found, Removal::Dead);
        } else if found.entry.generation() != self.generation() {
            found.entry.stamp(self.generation());
        }
        is_dead
    }

    #[inline(never)]
    pub(crate) fn remove(&self, found: Found<'_>, why: Removal) {
        found.main.change(|| {
            found.bucket.clear(found.slot);
            self.part.index().tighten(found.main);
        });
        self.bury(&found, why);
    }

    /// Counts and frees an item that the index does not lead to any more.
    pub(crate) fn bury(&self, found: &Found<'_>, why: Removal) {
        self.account_removed(&found.entry, why);
        self.leave(found.offset);
    }

    /// Frees the room of an item that the index does not lead to any more.
    pub(crate) fn leave(&self, offset: u64) {
        self.part.store().leave(offset, |offset| self.part.is_pinned(offset));
    }
}

impl<S: ItemStore> Holder for Writer<'_, S> {
    fn now(&self) -> Seconds {
        self.now
    }

    fn index(&self) -> &Index {
        self.part.index()
    }

    #[inline(always)]
    fn is_pinned(&self, offset: u64) -> bool {
        self.part.is_pinned(offset)
    }

    #[inline(always)]
    fn is_dead(&self, entry: &Entry<'_>) -> bool {
        self.is_dead_entry(entry)
    }

    fn has_pins(&self) -> bool {
        !self.part.pins().is_empty()
    }

    fn back(&mut self, words: u64) -> bool {
        self.part.back_store(self.core.shell.region(), self.core.sizing.share(), words)
    }

    /// Counts an item that the index does not lead to any more, and reports an eviction.
    fn account_removed(&self, entry: &Entry<'_>, why: Removal) {
        let size = entry.size() as u64;
        self.part.add_usage(ClassUsage { items: 1u64.wrapping_neg(), bytes: size.wrapping_neg() });
        let header = entry.header();
        let removed = Removed {
            class: ALL,
            bytes: size,
            is_fetched: header.state().has(ItemState::FETCHED),
            expires: entry.expiry() != Expiry::Never,
            idle: Seconds(self.now.0.saturating_sub(header.last_access(self.now).0)),
        };
        self.counters.item_removed(why, &removed);
        if why.is_eviction()
            && let Some((watcher, now)) = self.core.shell.watcher()
        {
            use guira_contract::ItemView as _;
            watcher.evicted(entry.key(&mut [0; 256]), &entry.meta(), now);
        }
    }

    fn count_passed(&self) {
        self.counters.add(Counter::HandSteps, 1);
    }

    fn remove_some_dead(&mut self, count: u64) -> bool {
        let buckets = self.core.crawler.search(self.partition, self.part.index().buckets(), count);
        buckets.map(|number| self.remove_dead_of(number as u32).1).sum::<u64>() > 0
    }
}
