//! Slots of a bucket and of the spare buckets that a store's bucket goes on in (MICA, sections 4.3.2 and 4.3.3).

use crate::bucket::{Bucket, SLOTS, Tag};
use crate::space::Space;
use crate::update::{Found, Writer};
use guira_contract::StoreError;
use guira_items::Removal;

/// A bucket goes on in so many others at most. Keys whose hashes a client makes up (MICA's datagrams carry them) could take all spare buckets otherwise,
/// and have every lookup go through all of them; with honest hashes no chain comes near.
const CHAIN_MAX: usize = 16;

/// So many items of a full bucket are looked at, from the oldest on, for one that was not used.
const CANDIDATES: usize = 4;

/// Where an item goes that comes to a bucket.
pub(crate) enum Slot<'w> {
    /// Into this slot, which is empty.
    Empty(Bucket<'w>, usize),
    /// Into the slot of this item, which is evicted.
    Displaced(Found<'w>),
    /// Into the spare bucket that this link leads to, in which the bucket goes on from now on.
    Spare(u32),
}

impl<'s, S: Space> Writer<'s, S> {
    /// The bucket that one goes on in.
    #[inline(always)]
    pub(crate) fn next_of(&self, bucket: Bucket<'s>) -> Option<Bucket<'s>> {
        if S::IS_LOSSY { None } else { self.part.index.linked(bucket.link()) }
    }

    /// The slots in use of the bucket with this number, and of those that it goes on in.
    pub(crate) fn slots_of(&self, number: u32) -> impl Iterator<Item = (Bucket<'s>, usize)> + use<'_, 's, S> {
        let first = self.part.index.bucket(number);
        let buckets = std::iter::successors(Some(first), |bucket| self.next_of(*bucket));
        buckets.flat_map(|bucket| bucket.used().map(move |slot| (bucket, slot)))
    }

    /// Empties the bucket with this number.
    pub(crate) fn clear_bucket(&self, number: u32) {
        let bucket = self.part.index.bucket(number);
        bucket.change(|| self.empty(bucket));
    }

    /// Empties a bucket that is open, and gives those back that it goes on in.
    pub(crate) fn empty(&self, bucket: Bucket<'s>) {
        bucket.used().for_each(|slot| bucket.clear(slot));
        let mut link = if S::IS_LOSSY { 0 } else { bucket.link() };
        if link != 0 {
            bucket.set_link(0);
        }
        while let Some(spare) = self.part.index.linked(link) {
            let next = spare.link();
            self.part.index.give_spare(link);
            link = next;
        }
    }

    /// Gives back the buckets that an open one goes on in, as far as they are empty.
    pub(crate) fn tighten(&self, main: Bucket<'_>) {
        let mut before = main;
        while !S::IS_LOSSY
            && let Some(bucket) = self.part.index.linked(before.link())
        {
            if bucket.used().next().is_some() {
                before = bucket;
                continue;
            }
            let link = before.link();
            before.set_link(bucket.link());
            self.part.index.give_spare(link);
        }
    }

    /// Whether an item that comes to the bucket finds a slot.
    pub(crate) fn has_slot(&self, main: Bucket<'s>) -> bool {
        let index = &self.part.index;
        S::IS_LOSSY
            || main.empty().next().is_some()
            || self.slot_behind(main).is_some()
            || self.may_go_on(main) && index.has_spare()
    }

    /// Whether the chain of a bucket may become longer.
    fn may_go_on(&self, main: Bucket<'s>) -> bool {
        let behind = std::iter::successors(self.next_of(main), |bucket| self.next_of(*bucket));
        behind.take(CHAIN_MAX).count() < CHAIN_MAX
    }

    /// A slot of the bucket, or of one that it goes on in, that is empty, or whose item may go: of all items that of the one furthest behind the tail (MICA,
    /// section 4.3.2). Where none may go the bucket goes on in another (section 4.3.3).
    pub(crate) fn slot_in(&self, main: Bucket<'s>) -> Result<Slot<'_>, StoreError> {
        if let Some(slot) = main.empty().next() {
            return Ok(Slot::Empty(main, slot));
        }
        if S::IS_LOSSY {
            return Ok(self.slot_of_oldest(main));
        }
        match self.slot_behind(main) {
            Some((bucket, slot)) => Ok(Slot::Empty(bucket, slot)),
            None if !self.may_go_on(main) => Err(StoreError::NoMemory),
            None => self.part.index.take_spare().map(Slot::Spare).ok_or(StoreError::NoMemory),
        }
    }

    /// An empty slot in the buckets that one goes on in.
    fn slot_behind(&self, main: Bucket<'s>) -> Option<(Bucket<'s>, usize)> {
        let mut bucket = self.next_of(main)?;
        loop {
            if let Some(slot) = bucket.empty().next() {
                return Some((bucket, slot));
            }
            bucket = self.next_of(bucket)?;
        }
    }

    /// The slot of the oldest item, unless that was used: then of the next.
    #[inline(never)]
    fn slot_of_oldest(&self, bucket: Bucket<'s>) -> Slot<'_> {
        let space = &self.part.space;
        let mut slots: [usize; SLOTS] = std::array::from_fn(|slot| slot);
        slots.sort_unstable_by_key(|slot| std::cmp::Reverse(space.age(bucket.offset(*slot))));
        let mut oldest = None;
        for slot in slots.into_iter().take(CANDIDATES) {
            match self.found_in(bucket, (bucket, slot)) {
                None => return Slot::Empty(bucket, slot),
                Some(found) if !found.entry.is_used() => return Slot::Displaced(found),
                Some(found) => _ = oldest.get_or_insert(found),
            }
        }
        oldest.map_or(Slot::Empty(bucket, slots[0]), Slot::Displaced)
    }

    /// Fills a slot of a bucket that is open.
    pub(crate) fn fill(&self, main: Bucket<'_>, slot: &Slot<'_>, tag: Tag, offset: u64) {
        match slot {
            Slot::Empty(bucket, slot) => bucket.set(*slot, tag, offset),
            Slot::Displaced(found) => found.bucket.set(found.slot, tag, offset),
            Slot::Spare(link) => {
                if let Some(spare) = self.part.index.linked(*link) {
                    spare.set_link(main.link());
                    spare.set(0, tag, offset);
                    main.set_link(*link);
                }
            }
        }
    }

    /// Takes an item in that comes from another bucket. Both are open. Where nothing may go and there is no room, it goes itself; a store sees to it
    /// beforehand that there is.
    pub(crate) fn take_in(&self, main: Bucket<'s>, tag: Tag, offset: u64) {
        let any_spare = |_| self.part.index.take_any_spare().map(Slot::Spare).ok_or(StoreError::NoMemory);
        match self.slot_in(main).or_else(any_spare) {
            Ok(slot) => {
                if let Slot::Displaced(displaced) = &slot {
                    self.bury(displaced, Removal::Displaced);
                }
                self.fill(main, &slot, tag, offset);
            }
            Err(_) => {
                if let Some(entry) = self.entry_at(offset) {
                    self.bury(&Found { main, bucket: main, slot: 0, offset, entry }, Removal::Displaced);
                }
            }
        }
    }
}
