//! The read-modify-write of a key, by whoever holds its partition.
//!
//! An item is changed in place if what is to be stored fits into its room, and otherwise appended to the log; the room that it had is taken back when
//! the head comes by. Readers are kept from believing what they saw of a change by the version of its bucket.

use crate::bucket::{Bucket, SLOTS, Tag};
use crate::core::Core;
use crate::draft::MicaDraft;
use crate::entry::{Anchor, Blueprint, ENTRY_MAX, Entry, Shape};
use crate::partition::{Home, Partition};
use crate::space::Space;
use guira_contract::{
    Amendment, Decision, ItemState, ItemView, Key, Meta, NewItem, Recency, Refusal, Value, ValueDraft,
};
use guira_items::hooks::{self, Window};
use guira_items::{Count, Fields, SessionCounters, counted_size};
use guira_memory::slab::ClassId;
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::Seconds;
use guira_sync::words;

/// There are no classes: all items are counted as one's.
const ALL: Option<ClassId> = Some(ClassId(0));

/// A session at work on a partition that it holds.
pub(crate) struct Writer<'s, S> {
    pub(crate) core: &'s Core<S>,
    pub(crate) part: &'s Partition<S>,
    /// Its number.
    pub(crate) partition: usize,
    pub(crate) counters: &'s SessionCounters,
    pub(crate) scratch: &'s mut Vec<u8>,
    pub(crate) now: Seconds,
}

/// An item that is in the index under the key, dead or alive.
#[derive(Clone, Copy)]
pub(crate) struct Found<'s> {
    /// Its bucket, whose version tells of changes.
    main: Bucket<'s>,
    /// The bucket that its slot is in: the same, or one that it goes on in.
    bucket: Bucket<'s>,
    slot: usize,
    pub(crate) offset: u64,
    pub(crate) entry: Entry<'s>,
}

impl Found<'_> {
    /// The same item, if its offset may be counted in another way now.
    fn again(&self) -> Self {
        Found { offset: self.bucket.offset(self.slot), ..*self }
    }
}

/// Why an item is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Another was put in its place, or it was deleted.
    Removed,
    /// It had expired.
    Dead,
    /// It was evicted from the log.
    Evicted,
    /// It was evicted from the index.
    Displaced,
}

/// A slot for an item: the bucket that it is in, its number, and the item that has to go for it.
type Slot<'s> = (Bucket<'s>, usize, Option<Found<'s>>);

/// An item whose room the log may have.
struct Aside {
    offset: u64,
    /// What it began with.
    anchor: Anchor,
}

/// The value of a new item.
enum Source<'v, S: Space> {
    Bytes(&'v [u8]),
    Draft(&'v MicaDraft<S>),
    /// What was put together in the session's scratch room.
    Scratch,
}

impl<S: Space> Clone for Source<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Space> Copy for Source<'_, S> {}

impl<'s, S: Space> Writer<'s, S> {
    /// The item at `offset`, if there is one.
    #[inline(always)]
    pub(crate) fn entry_at(&self, offset: u64) -> Option<Entry<'s>> {
        if !self.part.space.is_live(offset) {
            return None;
        }
        Entry::at(&self.core.region, self.part.space.at(offset), self.now)
    }

    /// The bucket of a place.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, place: u32) -> Bucket<'s> {
        let index = &self.part.index;
        index.bucket(index.bucket_of(place, index.extent()))
    }

    /// The item that is in the index under the key.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key<'_>, home: Home) -> Option<Found<'s>> {
        let main = self.bucket_of(home.place);
        let mut bucket = main;
        loop {
            for slot in bucket.tagged(Tag::of(key.hash.0)) {
                let offset = bucket.offset(slot);
                if let Some(entry) = self.entry_at(offset)
                    && entry.key_is(key.bytes)
                {
                    return Some(Found { main, bucket, slot, offset, entry });
                }
            }
            bucket = self.next_of(bucket)?;
        }
    }

    /// The bucket that one goes on in.
    #[inline(always)]
    fn next_of(&self, bucket: Bucket<'s>) -> Option<Bucket<'s>> {
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

    /// Lets flushes take effect that have not yet.
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
        let (items, bytes) = (self.part.items.get(), self.part.bytes.get());
        S::flush(self);
        self.counters.items_added(ALL, items.wrapping_neg(), bytes.wrapping_neg());
        self.counters.add(Count::Reclaimed, items);
        self.part.items.set(0);
        self.part.bytes.set(0);
        self.part.flushed(count);
    }

    #[inline(always)]
    pub(crate) fn change<'d, F>(
        &mut self,
        key: Key<'_>,
        home: Home,
        draft: Option<&MicaDraft<S>>,
        mut decide: F,
    ) -> Result<(), Refusal>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let present = self.find(key, home);
        let present = present.as_ref();
        let live = present.filter(|found| !found.entry.expiry().passed(self.now));
        let decision = decide(live.map(|live| &live.entry as &dyn ItemView));
        match (decision, present) {
            (Decision::Put(new), _) => self.put(key, home, present, live.is_some(), &new, draft),
            (Decision::Amend(change), Some(present)) if live.is_some() => {
                self.amend(key, home, present, &change)
            }
            (Decision::Remove, Some(present)) if live.is_some() => {
                self.remove(present, Gone::Removed);
                Ok(())
            }
            (_, Some(present)) if live.is_none() => {
                self.remove(present, Gone::Dead);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Removes the item under the key if it is dead.
    pub(crate) fn remove_dead(&mut self, key: Key<'_>, home: Home) {
        if let Some(found) = self.find(key, home).filter(|found| found.entry.expiry().passed(self.now)) {
            self.remove(&found, Gone::Dead);
        }
    }

    /// Removes the item in a slot, if it is dead. Empties the slot if there is nothing any more. True if an item was removed.
    pub(crate) fn remove_if_dead(&mut self, main: Bucket<'s>, bucket: Bucket<'s>, slot: usize) -> bool {
        let offset = bucket.offset(slot);
        match self.entry_at(offset) {
            None => {
                main.change(|| bucket.clear(slot));
                false
            }
            Some(entry) => {
                let is_dead = entry.expiry().passed(self.now);
                if is_dead {
                    self.remove(&Found { main, bucket, slot, offset, entry }, Gone::Dead);
                }
                is_dead
            }
        }
    }

    #[inline(never)]
    fn remove(&mut self, found: &Found<'s>, why: Gone) {
        found.main.change(|| {
            found.bucket.clear(found.slot);
            self.tighten(found.main);
        });
        self.bury(found.offset, &found.entry, why);
    }

    /// Gives back the buckets that an open one goes on in, as far as they are empty.
    fn tighten(&self, main: Bucket<'s>) {
        let mut before = main;
        while let Some(bucket) = self.next_of(before) {
            if bucket.used().next().is_some() {
                before = bucket;
                continue;
            }
            let link = before.link();
            before.set_link(bucket.link());
            self.part.index.give_spare(link);
        }
    }

    /// The entry at `offset` is no longer in the index.
    fn bury(&mut self, offset: u64, entry: &Entry<'_>, why: Gone) {
        account_gone(self, entry, why);
        S::leave(self, offset);
    }

    #[inline(always)]
    fn put(
        &mut self,
        key: Key<'_>,
        home: Home,
        present: Option<&Found<'s>>,
        is_live: bool,
        new: &NewItem<'_>,
        draft: Option<&MicaDraft<S>>,
    ) -> Result<(), Refusal> {
        let blueprint = self.blueprint(key, home.place, new);
        let source = match new.value {
            Value::Bytes(bytes) => Source::Bytes(bytes),
            Value::Digits(digits) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(digits.as_bytes());
                Source::Scratch
            }
            Value::Draft => Source::Draft(draft.ok_or(Refusal::NoMemory)?),
            Value::Joined { before, after } => {
                self.join(before, present.filter(|_| is_live).map(|live| live.entry), after);
                let length = self.scratch.len();
                let counted = counted_size(key.bytes.len(), new.flags, length);
                if counted > self.core.options.max_item_size || length + ENTRY_MAX > self.core.largest_item()
                {
                    return Err(Refusal::TooLarge);
                }
                Source::Scratch
            }
        };
        self.store(&blueprint, Tag::of(key.hash.0), source, present)
    }

    #[inline(always)]
    pub(crate) fn blueprint<'k>(&self, key: Key<'k>, place: u32, new: &NewItem<'_>) -> Blueprint<'k> {
        Blueprint {
            key: key.bytes,
            place,
            flags: new.flags,
            expiry: new.expiry,
            cas: new.cas,
            state: new.state,
            accessed: self.now,
            always: S::FIELDS,
        }
    }

    /// Puts a value together in the session's scratch room.
    fn join(&mut self, before: &[u8], old: Option<Entry<'_>>, after: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(before);
        if let Some(old) = old {
            self.scratch.resize(before.len() + old.value_len(), 0);
            old.copy_value(0, &mut self.scratch[before.len()..]);
        }
        self.scratch.extend_from_slice(after);
    }

    #[inline(always)]
    fn length_of(&self, source: Source<'_, S>) -> usize {
        match source {
            Source::Bytes(bytes) => bytes.len(),
            Source::Draft(draft) => draft.value_len(),
            Source::Scratch => self.scratch.len(),
        }
    }

    /// Stores an item, in place of the one that is there if any.
    #[inline(always)]
    fn store(
        &mut self,
        blueprint: &Blueprint<'_>,
        tag: Tag,
        source: Source<'_, S>,
        present: Option<&Found<'s>>,
    ) -> Result<(), Refusal> {
        let shape = blueprint.shape(self.length_of(source));
        if let Some(present) = present
            && present.entry.suits(shape.units())
            && self.may_stay(present.offset)
        {
            self.store_over(blueprint, shape, source, present);
            return Ok(());
        }
        self.store_anew(blueprint, shape, tag, source, present)
    }

    /// Stores an item where the one is that it takes the place of.
    #[inline(always)]
    fn store_over(
        &mut self,
        blueprint: &Blueprint<'_>,
        shape: Shape,
        source: Source<'_, S>,
        present: &Found<'s>,
    ) {
        let is_dead = present.entry.expiry().passed(self.now);
        let at = self.part.space.at(present.offset);
        let open = present.main.open();
        let words = if present.entry.has_fields_of(shape) {
            let words = self.core.region.words(at, shape.units()).expect("the log lies in the Region");
            blueprint.write_over(words, shape);
            words
        } else {
            blueprint.write(&self.core.region, at, shape, Anchor::load(&self.core.region, at))
        };
        hooks::pause(Window::Refilling);
        self.write_value(words, shape, source);
        drop(open);
        if is_dead {
            account_gone(self, &present.entry, Gone::Dead);
            return self.account_stored(shape.size());
        }
        self.account_replaced(&present.entry, shape);
    }

    /// Stores an item at the tail.
    #[inline(never)]
    fn store_anew(
        &mut self,
        blueprint: &Blueprint<'_>,
        shape: Shape,
        tag: Tag,
        source: Source<'_, S>,
        present: Option<&Found<'s>>,
    ) -> Result<(), Refusal> {
        // Before: it may count offsets anew.
        self.adjust();
        let present = present.map(|present| present.again());
        let present = present.as_ref();
        // Its room may be that of the new one.
        let is_dead = present.is_some_and(|present| present.entry.expiry().passed(self.now));
        let main = self.bucket_of(blueprint.place);
        let (bucket, slot, displaced) = match present {
            Some(present) => (present.bucket, present.slot, None),
            None => self.slot_for(blueprint.place, main)?,
        };
        let aside = present.filter(|_| S::IS_LOSSY).map(|present| self.set_aside(present));
        let room = S::find_room(self, shape.units() as u64);
        if let Err(refusal) = room {
            if let (Some(aside), Some(present)) = (aside, present) {
                self.put_back(&aside, present);
            }
            return Err(refusal);
        }
        let (offset, anchor) = self.part.space.take(shape.units() as u64);
        self.write(blueprint, shape, offset, anchor, source);
        if let Some(present) = present {
            account_gone(self, &present.entry, if is_dead { Gone::Dead } else { Gone::Removed });
        }
        if let Some(displaced) = displaced.filter(|displaced| self.part.space.is_live(displaced.offset)) {
            self.bury(displaced.offset, &displaced.entry, Gone::Displaced);
        }
        main.change(|| bucket.set(slot, tag, offset));
        if let Some(present) = present.filter(|_| aside.is_none()) {
            S::leave(self, present.offset);
        }
        self.account_stored(shape.size());
        self.after_store();
        Ok(())
    }

    /// Whether the item at `offset` may be written over: it is neither to be stored anew at the tail nor pinned.
    #[inline(always)]
    pub(crate) fn may_stay(&self, offset: u64) -> bool {
        !self.part.is_worth_moving(|| self.core.policy(), offset) && !self.is_pinned(offset)
    }

    #[inline(always)]
    pub(crate) fn is_pinned(&self, offset: u64) -> bool {
        let (pins, space) = (&self.part.pins, &self.part.space);
        !pins.is_empty() && pins.has(offset, |offset| space.at(offset))
    }

    /// Writes an item at `offset`, where there are `room` words.
    #[inline]
    fn write(
        &self,
        blueprint: &Blueprint<'_>,
        shape: Shape,
        offset: u64,
        anchor: Anchor,
        source: Source<'_, S>,
    ) {
        let words = blueprint.write(&self.core.region, self.part.space.at(offset), shape, anchor);
        self.write_value(words, shape, source);
    }

    #[inline(always)]
    fn write_value(&self, words: &[AtomicU64], shape: Shape, source: Source<'_, S>) {
        let at = shape.value_at();
        match source {
            Source::Bytes(bytes) => words::copy_in(words, at, bytes),
            Source::Scratch => words::copy_in(words, at, self.scratch),
            Source::Draft(draft) => {
                let mut at = at;
                for piece in draft.pieces() {
                    words::copy_in(words, at, piece);
                    at += piece.len();
                }
            }
        }
    }

    /// Lets the log have the room of an item that another is about to take the place of. Where nothing is evicted it keeps it until then: the other may be
    /// refused.
    fn set_aside(&self, present: &Found<'_>) -> Aside {
        let at = self.part.space.at(present.offset);
        let anchor = Anchor::load(&self.core.region, at);
        Anchor::bury(&self.core.region, at);
        Aside { offset: present.offset, anchor }
    }

    /// The item stays, unless its room was taken.
    fn put_back(&self, aside: &Aside, present: &Found<'_>) {
        if self.part.space.is_live(aside.offset) {
            aside.anchor.store(&self.core.region, self.part.space.at(aside.offset));
        } else {
            account_gone(self, &present.entry, Gone::Evicted);
        }
    }

    /// The same as `slot_in`, once more without what has expired if there is none.
    fn slot_for(&mut self, place: u32, main: Bucket<'s>) -> Result<Slot<'s>, Refusal> {
        self.slot_in(main).or_else(|_| {
            let index = &self.part.index;
            self.remove_dead_of(index.bucket_of(place, index.extent()));
            self.slot_in(main)
        })
    }

    /// A slot of the bucket, or of one that it goes on in, that is empty, or whose item may go: of all items that of the one furthest behind the tail (MICA,
    /// section 4.3.2). Where none may go the bucket goes on in another (section 4.3.3).
    fn slot_in(&self, main: Bucket<'s>) -> Result<Slot<'s>, Refusal> {
        if let Some(slot) = main.empty().next() {
            return Ok((main, slot, None));
        }
        if S::IS_LOSSY {
            return self.slot_of_oldest(main);
        }
        match self.slot_behind(main) {
            Some((bucket, slot)) => Ok((bucket, slot, None)),
            None => self.add_spare(main, self.part.index.take_spare()),
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

    /// Has a bucket go on in a spare one first. Its slots are empty: nobody who comes by misses anything.
    fn add_spare(&self, main: Bucket<'s>, link: Option<u32>) -> Result<Slot<'s>, Refusal> {
        let link = link.ok_or(Refusal::NoMemory)?;
        let spare = self.part.index.linked(link).ok_or(Refusal::NoMemory)?;
        spare.set_link(main.link());
        main.set_link(link);
        Ok((spare, 0, None))
    }

    #[inline(never)]
    fn slot_of_oldest(&self, bucket: Bucket<'s>) -> Result<Slot<'s>, Refusal> {
        let space = &self.part.space;
        let slot = (0..SLOTS).max_by_key(|slot| space.age(bucket.offset(*slot))).unwrap_or(0);
        let offset = bucket.offset(slot);
        match self.entry_at(offset) {
            Some(entry) => Ok((bucket, slot, Some(Found { main: bucket, bucket, slot, offset, entry }))),
            None => Ok((bucket, slot, None)),
        }
    }

    /// Takes an item in that comes from another bucket. Both are open. Where nothing may go and there is no room, it goes itself; a store sees to it
    /// beforehand that there is.
    pub(crate) fn take_in(&mut self, main: Bucket<'s>, tag: Tag, offset: u64) {
        let slot = self.slot_in(main).or_else(|_| self.add_spare(main, self.part.index.take_any_spare()));
        match slot {
            Ok((bucket, slot, displaced)) => {
                displaced.inspect(|displaced| self.bury(displaced.offset, &displaced.entry, Gone::Displaced));
                bucket.set(slot, tag, offset);
            }
            Err(_) => {
                let entry = self.entry_at(offset);
                entry.inspect(|entry| self.bury(offset, entry, Gone::Displaced));
            }
        }
    }

    #[inline(never)]
    fn amend(
        &mut self,
        key: Key<'_>,
        home: Home,
        live: &Found<'s>,
        change: &Amendment,
    ) -> Result<(), Refusal> {
        let entry = live.entry;
        let bumped = change.recency == Recency::Bump;
        let state = entry.header().state().with(change.set).without(change.clear);
        let fields = entry.fields();
        let has_room = (change.expiry.is_none_or(|expiry| expiry == entry.expiry())
            || fields.has(Fields::EXPIRY))
            && (change.cas.is_none() || fields.has(Fields::CAS));
        let is_pinned = self.is_pinned(live.offset);
        if has_room && !(is_pinned && change.overwrite.is_some()) {
            live.main.change(|| {
                let header = entry.header().with_state(state);
                entry.store_header(if bumped { header.read_at(self.now) } else { header });
                if let Some(expiry) = change.expiry.filter(|_| fields.has(Fields::EXPIRY)) {
                    entry.store_expiry(expiry);
                }
                if let Some(cas) = change.cas {
                    entry.store_cas(cas);
                }
                if let Some(digits) = change.overwrite {
                    entry.store_value(&padded(digits.as_bytes(), entry.value_len()));
                }
            });
            if bumped {
                self.move_up(key, home);
            }
            return Ok(());
        }
        let meta: Meta = entry.meta();
        let blueprint = Blueprint {
            key: key.bytes,
            place: home.place,
            flags: meta.flags,
            expiry: change.expiry.unwrap_or(meta.expiry),
            cas: change.cas.or(meta.cas),
            state: if bumped { state.with(ItemState::FETCHED) } else { state },
            accessed: if bumped { self.now } else { meta.last_access },
            always: S::FIELDS,
        };
        match change.overwrite {
            Some(digits) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(&padded(digits.as_bytes(), meta.value_len));
            }
            None => self.join(&[], Some(entry), &[]),
        }
        self.store(&blueprint, Tag::of(key.hash.0), Source::Scratch, Some(live))
    }

    /// An item was read.
    pub(crate) fn touch(&mut self, key: Key<'_>, home: Home) {
        let Some(found) = self.find(key, home) else {
            return;
        };
        let header = found.entry.header();
        if !header.is_noted(self.now) {
            found.entry.store_header(header.read_at(self.now));
        }
        self.move_up(key, home);
    }

    /// Stores an item that was used again at the tail, if the policy says so.
    fn move_up(&mut self, key: Key<'_>, home: Home) {
        if !self.part.space.is_evicting() {
            return;
        }
        self.adjust();
        if let Some(found) = self
            .find(key, home)
            .filter(|found| self.part.is_worth_moving(|| self.core.policy(), found.offset))
        {
            self.move_to_tail(found);
        }
    }

    /// Stores the item in a slot again at the tail. False if there is no room for it.
    pub(crate) fn move_slot(&mut self, main: Bucket<'s>, bucket: Bucket<'s>, slot: usize) -> bool {
        let offset = bucket.offset(slot);
        match self.entry_at(offset) {
            Some(entry) => self.move_to_tail(Found { main, bucket, slot, offset, entry }),
            None => true,
        }
    }

    fn move_to_tail(&mut self, found: Found<'s>) -> bool {
        let meta = found.entry.meta();
        let (mut key, place) = ([0; 256], found.entry.place());
        let blueprint = Blueprint {
            key: found.entry.key(&mut key),
            place,
            flags: meta.flags,
            expiry: meta.expiry,
            cas: meta.cas,
            state: meta.state,
            accessed: meta.last_access,
            always: S::FIELDS,
        };
        // Room may be made of the item itself.
        self.join(&[], Some(found.entry), &[]);
        let shape = blueprint.shape(self.scratch.len());
        let aside = S::IS_LOSSY.then(|| self.set_aside(&found));
        if S::find_room(self, shape.units() as u64).is_err() {
            if let Some(aside) = aside {
                self.put_back(&aside, &found);
            }
            return false;
        }
        let (offset, anchor) = self.part.space.take(shape.units() as u64);
        self.write(&blueprint, shape, offset, anchor, Source::Scratch);
        // A field that it no longer needs is left behind.
        self.account_resized(found.entry.size(), shape.size());
        let (bucket, tag) = (found.bucket, found.bucket.tag(found.slot));
        found.main.change(|| bucket.set(found.slot, tag, offset));
        if aside.is_none() {
            S::leave(self, found.offset);
        }
        self.after_store();
        true
    }

    /// An item took the place of another in the log.
    #[inline(always)]
    pub(crate) fn account_replaced(&self, present: &Entry<'_>, shape: Shape) {
        self.account_resized(present.size(), shape.size());
        self.counters.add(Count::ItemsStored, 1);
    }

    /// An item takes so many bytes that has taken so many before.
    #[inline(always)]
    fn account_resized(&self, before: usize, now: usize) {
        if before != now {
            let more = (now as u64).wrapping_sub(before as u64);
            self.part.bytes.add(more);
            self.counters.items_added(ALL, 0, more);
        }
    }

    fn account_stored(&self, size: usize) {
        self.part.items.add(1);
        self.part.bytes.add(size as u64);
        self.counters.item_stored(ALL, size as u64);
    }
}

/// A number with blanks behind it, as long as the value that it is written over.
fn padded(digits: &[u8], length: usize) -> Vec<u8> {
    let mut number = digits.to_vec();
    number.resize(length, b' ');
    number
}

/// Counts an item that is no longer there.
pub(crate) fn account_gone<S: Space>(writer: &Writer<'_, S>, entry: &Entry<'_>, why: Gone) {
    let (part, counters, size) = (writer.part, writer.counters, entry.size());
    part.items.add(1u64.wrapping_neg());
    part.bytes.add((size as u64).wrapping_neg());
    counters.item_removed(ALL, size as u64);
    let (all, unfetched) = match why {
        Gone::Removed => return,
        Gone::Dead => (Count::Reclaimed, Count::ExpiredUnfetched),
        Gone::Evicted | Gone::Displaced => (Count::Evictions, Count::EvictedUnfetched),
    };
    if why == Gone::Displaced {
        counters.add(Count::IndexEvictions, 1);
    }
    if why != Gone::Dead
        && let Some(watcher) = writer.core.eviction_watcher.get()
        && let Some(now) = watcher.watches()
    {
        watcher.evicted(entry.key(&mut [0; 256]), &entry.meta(), now);
    }
    counters.add(all, 1);
    if !entry.header().state().has(ItemState::FETCHED) {
        counters.add(unfetched, 1);
    }
}
