//! The read-modify-write of a key, by whoever holds its partition.
//!
//! An item is changed in place if what is to be stored fits into its room, and otherwise appended to the log; the room that it had is taken back when
//! the head comes by. Readers are kept from believing what they saw of a change by the version of its bucket.

use crate::anew::{Anew, Cause};
use crate::bucket::{Bucket, Tag};
use crate::cache::Keeps;
use crate::core::Core;
use crate::entry::{Anchor, ENTRY_MAX, Entry, ItemHeaderSpec, Shape};
use crate::partition::{Home, Partition};
use crate::pending::MicaPending;
use crate::scratch::{Scratch, ScratchBuffer};
use crate::space::Space;
use guira_contract::{
    Amendment, Counter, Decision, Expiry, ItemState, ItemView, Key, Meta, NewItem, PendingValue, Recency,
    StoreError, Value,
};
use guira_items::hooks::{self, Window};
use guira_items::{Fields, Removal, Removed, SessionCounters, counted_size};
use guira_memory::slab::ClassId;
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::Seconds;
use guira_sync::words;

/// There are no classes: all items are counted as one's.
const ALL: Option<ClassId> = Some(ClassId(0));

/// A session at work on a partition that it holds.
///
/// Whatever may remove or move items other than the one it is given, a search for room above all, takes the writer by `&mut`; whatever was found
/// borrows it. So nothing that was found is there any more after room was looked for, and the key is looked up again.
pub(crate) struct Writer<'s, S> {
    pub(crate) core: &'s Core<S>,
    pub(crate) part: &'s Partition<S>,
    /// Its number.
    pub(crate) partition: usize,
    pub(crate) counters: &'s SessionCounters,
    pub(crate) scratch: &'s ScratchBuffer,
    pub(crate) now: Seconds,
    /// The offset of the item that another is about to replace: a search for room that comes by it replaces it, and evicts nothing.
    pub(crate) replaced: Option<u64>,
    /// How much of what was used a search for room may still keep.
    pub(crate) keeps_left: Keeps,
}

/// An item that is in the index under the key, dead or alive.
pub(crate) struct Found<'w> {
    /// Its bucket, whose version tells of changes.
    pub(crate) main: Bucket<'w>,
    /// The bucket that its slot is in: the same, or one that it goes on in.
    pub(crate) bucket: Bucket<'w>,
    pub(crate) slot: usize,
    pub(crate) offset: u64,
    pub(crate) entry: Entry<'w>,
}

/// The value of a new item.
pub(crate) enum Source<'v, S: Space> {
    Bytes(&'v [u8]),
    Pending(&'v MicaPending<S>),
    /// One that was put together.
    Scratch(Scratch<'v>),
}

impl<S: Space> Source<'_, S> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Bytes(bytes) => bytes.len(),
            Source::Pending(pending) => pending.value_len(),
            Source::Scratch(scratch) => scratch.bytes().len(),
        }
    }
}

/// What is left to do of a change for which nothing that was found is needed any more.
enum Left<'v, S: Space> {
    Nothing,
    /// The item needs room of its own.
    Store(Anew<'v, S>),
}

impl<'s, S: Space> Writer<'s, S> {
    /// The item at `offset`, if there is one.
    #[inline(always)]
    pub(crate) fn entry_at(&self, offset: u64) -> Option<Entry<'s>> {
        if !self.part.space.is_live(offset) {
            return None;
        }
        Entry::at(self.core.shell.region(), self.part.space.at(offset), self.now)
    }

    /// The bucket of a place.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, place: u32) -> Bucket<'s> {
        let index = &self.part.index;
        index.bucket(index.bucket_of(place, index.extent()))
    }

    /// The item that is in the index under the key.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key<'_>, home: Home) -> Option<Found<'_>> {
        self.find_tagged(key.bytes, home.place, Tag::of(key.hash.0))
    }

    /// The same, of a key with this place and tag.
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
            bucket = self.next_of(bucket)?;
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

    /// Whether an item has expired.
    #[inline(always)]
    pub(crate) fn is_dead(&self, found: &Found<'_>) -> bool {
        found.entry.expiry().passed(self.now)
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
        self.counters.add(Counter::Reclaimed, items);
        self.part.items.set(0);
        self.part.bytes.set(0);
        self.part.flushed(count);
    }

    /// The read-modify-write of a key.
    #[inline(always)]
    pub(crate) fn change<'d: 'v, 'v, F>(
        &mut self,
        key: Key<'v>,
        home: Home,
        pending: Option<&'v MicaPending<S>>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
        's: 'v,
    {
        // Before anything is found: it may count offsets anew.
        self.adjust();
        match self.change_in_place(key, home, pending, decide)? {
            Left::Nothing => Ok(()),
            Left::Store(anew) => self.store_anew(&anew),
        }
    }

    /// Does what needs no room, and says what is left to do.
    #[inline(always)]
    fn change_in_place<'d: 'v, 'v, F>(
        &self,
        key: Key<'v>,
        home: Home,
        pending: Option<&'v MicaPending<S>>,
        mut decide: F,
    ) -> Result<Left<'v, S>, StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
        's: 'v,
    {
        let present = self.find(key, home);
        let live = present.as_ref().filter(|found| !self.is_dead(found));
        let decision = decide(live.map(|live| &live.entry as &dyn ItemView));
        let is_live = live.is_some();
        match (decision, present) {
            (Decision::Put(new), present) => self.put(key, home, present, &new, pending),
            (Decision::Amend(change), Some(present)) if is_live => {
                Ok(self.amend(key, home, present, &change))
            }
            (Decision::Remove, Some(present)) if is_live => {
                self.remove(present, Removal::Gone);
                Ok(Left::Nothing)
            }
            (_, Some(present)) if !is_live => {
                self.remove(present, Removal::Dead);
                Ok(Left::Nothing)
            }
            _ => Ok(Left::Nothing),
        }
    }

    /// Removes the item under the key if it is dead.
    pub(crate) fn remove_dead(&self, key: Key<'_>, home: Home) {
        if let Some(found) = self.find(key, home).filter(|found| self.is_dead(found)) {
            self.remove(found, Removal::Dead);
        }
    }

    #[inline(never)]
    pub(crate) fn remove(&self, found: Found<'_>, why: Removal) {
        found.main.change(|| {
            found.bucket.clear(found.slot);
            self.tighten(found.main);
        });
        self.bury(&found, why);
    }

    /// An item is no longer in the index.
    pub(crate) fn bury(&self, found: &Found<'_>, why: Removal) {
        account_removed(self, &found.entry, why);
        S::leave(self, found.offset);
    }

    #[inline(always)]
    fn put<'d>(
        &self,
        key: Key<'d>,
        home: Home,
        present: Option<Found<'_>>,
        new: &NewItem<'d>,
        pending: Option<&'d MicaPending<S>>,
    ) -> Result<Left<'d, S>, StoreError>
    where
        's: 'd,
    {
        let header_spec = self.header_spec(key, home.place, new);
        let source = match new.value {
            Value::Bytes(bytes) => Source::Bytes(bytes),
            Value::Digits(digits) => {
                Source::Scratch(self.scratch.filled(|scratch| scratch.extend(digits.as_bytes())))
            }
            Value::Pending => Source::Pending(pending.ok_or(StoreError::NoMemory)?),
            Value::Joined { before, after } => {
                let live = present.as_ref().filter(|found| !self.is_dead(found));
                let source = Source::Scratch(self.joined(before, live.map(|live| live.entry), after));
                let counted = counted_size(key.bytes.len(), new.flags, source.len());
                let is_too_large = source.len() + ENTRY_MAX > self.core.largest_item();
                if counted > self.core.options.engine.max_item_size || is_too_large {
                    return Err(StoreError::TooLarge);
                }
                source
            }
        };
        Ok(self.store((header_spec, Tag::of(key.hash.0), source), present, Cause::Store))
    }

    #[inline(always)]
    pub(crate) fn header_spec<'k>(&self, key: Key<'k>, place: u32, new: &NewItem<'_>) -> ItemHeaderSpec<'k> {
        ItemHeaderSpec {
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

    /// A value with bytes before and after it.
    pub(crate) fn joined(&self, before: &[u8], old: Option<Entry<'_>>, after: &[u8]) -> Scratch<'s> {
        self.scratch.filled(|scratch| {
            scratch.extend_from_slice(before);
            if let Some(old) = old {
                scratch.resize(before.len() + old.value_len(), 0);
                old.copy_value(0, &mut scratch[before.len()..]);
            }
            scratch.extend_from_slice(after);
        })
    }

    /// Stores an item where the one is that it replaces, if that has the room.
    #[inline(always)]
    fn store<'d>(
        &self,
        (header_spec, tag, source): (ItemHeaderSpec<'d>, Tag, Source<'d, S>),
        present: Option<Found<'_>>,
        cause: Cause,
    ) -> Left<'d, S> {
        let shape = header_spec.shape(source.len());
        let replaced = present.as_ref().map(|present| present.offset);
        match present {
            Some(present) if present.entry.suits(shape.units()) && !self.is_pinned(present.offset) => {
                self.store_over(&header_spec, shape, &source, &present, cause);
                Left::Nothing
            }
            _ => Left::Store(Anew { header_spec, tag, source, replaced, cause }),
        }
    }

    #[inline(always)]
    fn store_over(
        &self,
        header_spec: &ItemHeaderSpec<'_>,
        shape: Shape,
        source: &Source<'_, S>,
        present: &Found<'_>,
        cause: Cause,
    ) {
        let is_dead = self.is_dead(present);
        let at = self.part.space.at(present.offset);
        let open = present.main.open();
        let words = if present.entry.has_fields_of(shape) {
            let words =
                self.core.shell.region().words(at, shape.units()).expect("the log lies in the Region");
            header_spec.write_over(words, shape);
            words
        } else {
            header_spec.write(self.core.shell.region(), at, shape, Anchor::load(self.core.shell.region(), at))
        };
        hooks::pause(Window::Refilling);
        self.write_value(words, shape, source);
        drop(open);
        if let Some(entry) = self.entry_at(present.offset) {
            self.note_use(&entry, present.offset);
        }
        if is_dead {
            account_removed(self, &present.entry, Removal::Dead);
            return self.account_stored(shape.size());
        }
        self.account_replaced(&present.entry, shape, cause);
    }

    /// The item at `offset` was used: notes it, if it is to be kept for that when the head of the log comes by.
    #[inline(always)]
    pub(crate) fn note_use(&self, entry: &Entry<'_>, offset: u64) {
        if self.part.is_use_news(|| self.core.policy(), offset, entry.is_used()) {
            entry.note_use();
        }
    }

    #[inline(always)]
    pub(crate) fn is_pinned(&self, offset: u64) -> bool {
        let (pins, space) = (&self.part.pins, &self.part.space);
        !pins.is_empty() && pins.has(offset, |offset| space.at(offset))
    }

    /// Writes an item at `offset`, in the room that `anchor` tells of.
    #[inline]
    pub(crate) fn write(
        &self,
        header_spec: &ItemHeaderSpec<'_>,
        shape: Shape,
        (offset, anchor): (u64, Anchor),
        source: &Source<'_, S>,
    ) {
        let words = header_spec.write(self.core.shell.region(), self.part.space.at(offset), shape, anchor);
        self.write_value(words, shape, source);
    }

    #[inline(always)]
    fn write_value(&self, words: &[AtomicU64], shape: Shape, source: &Source<'_, S>) {
        let at = shape.value_at();
        match source {
            Source::Bytes(bytes) => words::copy_in(words, at, bytes),
            Source::Scratch(scratch) => words::copy_in(words, at, scratch.bytes()),
            Source::Pending(pending) => {
                let mut at = at;
                for piece in pending.pieces() {
                    words::copy_in(words, at, piece);
                    at += piece.len();
                }
            }
        }
    }

    #[inline(never)]
    fn amend<'d>(&self, key: Key<'d>, home: Home, live: Found<'_>, change: &Amendment) -> Left<'d, S>
    where
        's: 'd,
    {
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
                self.note_use(&entry, live.offset);
            }
            return Left::Nothing;
        }
        let meta: Meta = entry.meta();
        let header_spec = ItemHeaderSpec {
            key: key.bytes,
            place: home.place,
            flags: meta.flags,
            expiry: change.expiry.unwrap_or(meta.expiry),
            cas: change.cas.or(meta.cas),
            state: if bumped { state.with(ItemState::FETCHED) } else { state },
            accessed: if bumped { self.now } else { meta.last_access },
            always: S::FIELDS,
        };
        let value = match change.overwrite {
            Some(digits) => {
                self.scratch.filled(|scratch| scratch.extend(padded(digits.as_bytes(), meta.value_len)))
            }
            None => self.joined(&[], Some(entry), &[]),
        };
        let item = (header_spec, Tag::of(key.hash.0), Source::Scratch(value));
        self.store(item, Some(live), Cause::Rebuild)
    }

    /// An item was read.
    pub(crate) fn touch(&self, key: Key<'_>, home: Home) {
        let Some(found) = self.find(key, home) else {
            return;
        };
        let header = found.entry.header();
        if !header.is_noted(self.now) {
            found.entry.store_header(header.read_at(self.now));
        }
        self.note_use(&found.entry, found.offset);
    }

    /// An item took the place of another in the log.
    #[inline(always)]
    pub(crate) fn account_replaced(&self, present: &Entry<'_>, shape: Shape, cause: Cause) {
        let (before, now) = (present.size(), shape.size());
        if before != now {
            let more = (now as u64).wrapping_sub(before as u64);
            self.part.bytes.add(more);
            self.counters.items_added(ALL, 0, more);
        }
        if cause == Cause::Store {
            self.counters.add(Counter::ItemsStored, 1);
        }
    }

    /// There is an item more.
    pub(crate) fn account_added(&self, size: usize) {
        self.part.items.add(1);
        self.part.bytes.add(size as u64);
        self.counters.items_added(ALL, 1, size as u64);
    }

    /// The same, and a command has stored it.
    pub(crate) fn account_stored(&self, size: usize) {
        self.account_added(size);
        self.counters.add(Counter::ItemsStored, 1);
    }
}

/// A number with blanks behind it, as long as the value that it is written over.
fn padded(digits: &[u8], length: usize) -> Vec<u8> {
    let mut number = digits.to_vec();
    number.resize(length, b' ');
    number
}

/// Counts an item that is no longer there, and reports an eviction.
pub(crate) fn account_removed<S: Space>(writer: &Writer<'_, S>, entry: &Entry<'_>, why: Removal) {
    let (part, size) = (writer.part, entry.size() as u64);
    part.items.add(1u64.wrapping_neg());
    part.bytes.add(size.wrapping_neg());
    let header = entry.header();
    let removed = Removed {
        class: ALL,
        bytes: size,
        is_fetched: header.state().has(ItemState::FETCHED),
        expires: entry.expiry() != Expiry::Never,
        idle: Seconds(writer.now.0.saturating_sub(header.last_access(writer.now).0)),
    };
    writer.counters.item_removed(why, &removed);
    if why.is_eviction()
        && let Some((watcher, now)) = writer.core.shell.watcher()
    {
        watcher.evicted(entry.key(&mut [0; 256]), &entry.meta(), now);
    }
}
