//! The read-modify-write of a key.

use crate::core::Core;
use crate::hold::Hold;
use crate::index::{Found, LockedBuckets, Scheme};
use crate::pending::SlabPending;
use crate::queue::{self, Event, What};
use crate::session::SlabSession;
use crate::turn::Wants;
use guira_contract::{
    Amendment, Counter, Decision, Digits, Expiry, ItemSpec, ItemState, ItemView, Key, KeyHash, Meta,
    MissKind, NewItem, PendingValue, Provision, Recency, StoreError, Value,
};
use guira_items::hooks::{self, Window};
use guira_items::{
    Fields, Flushes, INLINE_MAX, Item, ItemHeaderSpec, Pieces, Removal, SessionCounters, Shape, counted_size,
};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, FirstBit};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;
use guira_sync::words;

/// What an attempt came to.
enum Attempt {
    Done(After),
    /// Not enough: a chunk of this class is needed.
    NeedChunk(ClassId),
    /// Not enough: a pending value is needed for an item with these fields and a value of this length.
    NeedPending(Fields, usize),
    /// Both buckets are full.
    NeedSlot,
}

/// The item that is in the table under the key, dead or alive.
#[derive(Clone, Copy)]
struct Present<'a, X: Scheme> {
    slot: Found<X::At>,
    item: Item<'a>,
    dead: Option<MissKind>,
}

/// What is left to do after the counters were released.
enum After {
    Nothing,
    /// The item at this place was unlinked, for this reason.
    Free(Offset, Removal),
}

/// What an attempt may use, found before anything was locked.
struct Supplies<X: Scheme> {
    pending: Option<SlabPending<X>>,
    /// A pending value that the engine made for itself, for a value put together from the old one.
    spare: Option<SlabPending<X>>,
}

impl<X: Scheme> SlabSession<X> {
    pub(crate) fn read_modify_write<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        provision: Provision<SlabPending<X>>,
        mut decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        self.core.settle_flush(now);
        let mut supplies = Supplies { pending: None, spare: None };
        match provision {
            Provision::None => {}
            Provision::Item(spec) => {
                if let Err(refusal) = self.prepare(key.bytes.len(), &spec) {
                    self.prepare_again(key.bytes.len(), &spec, now, refusal)?;
                }
            }
            Provision::Pending(pending) => supplies.pending = Some(pending),
        }
        loop {
            let mut writer = Writer {
                core: &self.core,
                caches: &mut self.caches,
                queue: &mut self.queue,
                counters: &self.counters,
            };
            match writer.attempt(key, now, &mut supplies, &mut decide)? {
                Attempt::Done(After::Nothing) => {
                    self.tell_much();
                    if self.core.index.is_growing() {
                        self.help_growth(now);
                    }
                    return Ok(());
                }
                Attempt::Done(After::Free(at, why)) => {
                    self.tell_much();
                    self.account_removed(at, why, now);
                    self.free_item(at, now);
                    return Ok(());
                }
                Attempt::NeedChunk(class) => {
                    let _held = Hold::<X>::take(&self.core, key, now);
                    self.refill(class, now)?;
                }
                Attempt::NeedPending(fields, length) => {
                    supplies.spare = None;
                    let shape = Shape { key_len: key.bytes.len() as u8, value_len: length as u32, fields };
                    let _held = self.hold_for(key, shape.size(), now);
                    let spare = self
                        .pending_with(key.bytes.len(), fields, length, now)
                        .ok_or(StoreError::NoMemory)?;
                    supplies.spare = Some(spare);
                }
                Attempt::NeedSlot => self.make_slot(key, now)?,
            }
        }
    }

    /// Finds memory for what will probably be stored.
    fn prepare(&mut self, key_len: usize, spec: &ItemSpec) -> Result<(), StoreError> {
        if !guira_contract::Session::fits(self, key_len, spec) {
            return Err(StoreError::TooLarge);
        }
        let fields = self.core.fields_of(spec);
        let shape = Shape { key_len: key_len as u8, value_len: spec.value_len as u32, fields };
        match self.core.class_for(shape.size()) {
            Some(class) if self.caches[usize::from(class.0)].is_empty() => {
                let now = self.core.shell.time_seen();
                self.refill(class, now)
            }
            _ => Ok(()),
        }
    }

    /// The same once more, if it may be that something has expired since the session last saw the time.
    #[cold]
    #[inline(never)]
    fn prepare_again(
        &mut self,
        key_len: usize,
        spec: &ItemSpec,
        now: Seconds,
        refusal: StoreError,
    ) -> Result<(), StoreError> {
        if refusal == StoreError::TooLarge || self.seen >= now {
            return Err(refusal);
        }
        self.seen = now;
        self.prepare(key_len, spec)
    }

    /// Removes the item under `key` if it is dead.
    #[cold]
    #[inline(never)]
    pub(crate) fn remove_dead(&mut self, key: Key<'_>, now: Seconds) {
        // Nothing is stored, so nothing can be refused.
        let _ = self.read_modify_write(key, now, Provision::None, |_| Decision::Keep);
    }
}

/// The parts of a session that are used while counters are held: nothing here takes another lock.
struct Writer<'s, X: Scheme> {
    core: &'s Core<X>,
    caches: &'s mut Vec<Vec<Offset>>,
    queue: &'s mut Vec<Event>,
    counters: &'s SessionCounters,
}

impl<'s, X: Scheme> Writer<'s, X> {
    #[inline]
    fn attempt<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        supplies: &mut Supplies<X>,
        decide: &mut F,
    ) -> Result<Attempt, StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let core = self.core;
        hooks::pause(Window::Locking);
        let held = core.index.lock(key.hash);
        // Loaded once, so that what is decided, and what is stored, is so before a flush or after it as a whole; and under the counters, so that an item that
        // somebody has stored after a flush is not judged as of before it.
        let generation = core.flushes.generation();
        let present = present(core, &held, key, (generation, now));
        let live = present.filter(|present| present.dead.is_none());
        let view = live.map(|present| View { core, item: present.item });
        let decision = decide(view.as_ref().map(|view| view as &dyn ItemView));
        hooks::pause(Window::Judged);
        let step = match (decision, present, live) {
            (Decision::Remove, Some(present), _) => Ok(remove(&held, present)),
            (Decision::Amend(change), _, Some(live)) => self.amend(&held, key, now, live, &change, supplies),
            (Decision::Put(new), _, _) => self.put(&held, key, (generation, now), present, &new, supplies)?,
            (_, Some(present), None) => Ok(remove(&held, present)),
            _ => {
                held.release_unchanged();
                return Ok(Attempt::Done(After::Nothing));
            }
        };
        match step {
            Ok(after) => Ok(Attempt::Done(after)),
            Err(needed) => {
                held.release_unchanged();
                Ok(needed)
            }
        }
    }

    fn put(
        &mut self,
        held: &LockedBuckets<'_, X>,
        key: Key<'_>,
        (generation, now): (u32, Seconds),
        present: Option<Present<'s, X>>,
        new: &NewItem<'_>,
        supplies: &mut Supplies<X>,
    ) -> Result<Result<After, Attempt>, StoreError> {
        if present.is_none() && !held.has_room() {
            return Ok(Err(Attempt::NeedSlot));
        }
        let header_spec = ItemHeaderSpec {
            key: key.bytes,
            flags: new.flags,
            expiry: new.expiry,
            cas: new.cas,
            state: new.state,
            generation,
            accessed: now,
        };
        let at = match new.value {
            Value::Bytes(bytes) => self.fill(&header_spec, bytes),
            Value::Digits(digits) => self.fill(&header_spec, digits.as_bytes()),
            Value::Pending => match supplies.pending.take() {
                Some(pending) => Ok(pending.finish(&header_spec, now)),
                None => return Err(StoreError::NoMemory),
            },
            Value::Joined { before, after } => {
                let old = present.filter(|present| present.dead.is_none()).map(|present| present.item);
                let old_len = old.map_or(0, |item| item.value_len());
                let length = before.len() + old_len + after.len();
                if counted_size(key.bytes.len(), new.flags, length) > self.core.options.engine.max_item_size {
                    return Err(StoreError::TooLarge);
                }
                self.join(&header_spec, old, before, after, supplies, now)
            }
        };
        Ok(at.map(|at| {
            self.counters.add(Counter::ItemsStored, 1);
            self.link(held, at, key.hash, present, now)
        }))
    }

    /// Fills a chunk from the session's cache.
    fn fill(&mut self, header_spec: &ItemHeaderSpec<'_>, value: &[u8]) -> Result<Offset, Attempt> {
        let fields = self.core.fields(header_spec, value.len());
        let shape = Shape { key_len: header_spec.key.len() as u8, value_len: value.len() as u32, fields };
        let Some(class) = self.core.class_for(shape.size()) else {
            return Err(Attempt::NeedPending(fields, value.len()));
        };
        let Some(at) = self.caches[usize::from(class.0)].pop() else {
            return Err(Attempt::NeedChunk(class));
        };
        // Release fence: pairs with the Acquire fence of a reader's validation. Whoever sees what is written into
        // the chunk from now on also sees the version under which its last item was unlinked (hazard 3).
        fence(Ordering::Release);
        let item = header_spec.write(self.core.shell.region(), at, shape, None, header_spec.accessed);
        hooks::pause(Window::Refilling);
        let (words, start) = item.value_words();
        words::copy_in(words, start, value);
        Ok(at)
    }

    /// Puts a value together from the old one and what comes before and after it.
    fn join(
        &mut self,
        header_spec: &ItemHeaderSpec<'_>,
        old: Option<Item<'_>>,
        before: &[u8],
        after: &[u8],
        supplies: &mut Supplies<X>,
        now: Seconds,
    ) -> Result<Offset, Attempt> {
        let length = before.len() + old.map_or(0, |item| item.value_len()) + after.len();
        let mut pending = self.take_spare(header_spec, length, supplies)?;
        pending.append(before);
        if let Some(item) = old {
            copy_value(self.core, &item, &mut pending);
        }
        pending.append(after);
        Ok(pending.finish(header_spec, now))
    }

    /// The pending value that was made for such an item. One that was made for another is not dropped here, where counters are held: its chunks go back under
    /// the locks of their classes.
    fn take_spare(
        &self,
        header_spec: &ItemHeaderSpec<'_>,
        length: usize,
        supplies: &mut Supplies<X>,
    ) -> Result<SlabPending<X>, Attempt> {
        let fields = self.core.fields(header_spec, length);
        supplies
            .spare
            .take_if(|spare| spare.is_for(fields, length))
            .ok_or(Attempt::NeedPending(fields, length))
    }

    /// The item once more, with other fields or with a number in place of its value.
    fn rebuild(
        &self,
        header_spec: &ItemHeaderSpec<'_>,
        item: &Item<'_>,
        overwrite: Option<Digits>,
        supplies: &mut Supplies<X>,
        now: Seconds,
    ) -> Result<Offset, Attempt> {
        let mut pending = self.take_spare(header_spec, item.value_len(), supplies)?;
        match overwrite {
            None => copy_value(self.core, item, &mut pending),
            Some(digits) => {
                pending.append(digits.as_bytes());
                while pending.missing() > 0 {
                    pending.append(&BLANKS[..pending.missing().min(BLANKS.len())]);
                }
            }
        }
        Ok(pending.finish(header_spec, now))
    }

    /// Puts the item at `at` into the table, in place of the one that is there.
    fn link(
        &mut self,
        held: &LockedBuckets<'_, X>,
        at: Offset,
        hash: KeyHash,
        present: Option<Present<'_, X>>,
        now: Seconds,
    ) -> After {
        let is_live = present.is_some_and(|present| present.dead.is_none());
        let first = if is_live { FirstBit::Set } else { FirstBit::Clear };
        if let Some(item) = self.core.item(at, now) {
            self.core.memory.renew(at, item.shape().size(), first);
            self.counters.item_put(self.core.memory.class_at(at), Core::<X>::bytes_of(&item));
            if self.core.turn.wants().has(Wants::STORES) {
                let arrival = queue::arrival(hash.0 as u32, item.expiry(), now);
                let what = match first {
                    FirstBit::Clear => What::Stored(arrival),
                    FirstBit::Set => What::StoredOver(arrival),
                };
                self.queue.push(Event { at, what });
            }
        }
        match present {
            Some(present) => {
                held.replace(present.slot, at);
                self.core.replaced(hash, present.item.at, at);
                let why = if present.dead.is_some() { Removal::Dead } else { Removal::Gone };
                After::Free(present.item.at, why)
            }
            None => {
                let inserted = held.insert(at);
                debug_assert!(inserted, "room was seen under the same lock");
                After::Nothing
            }
        }
    }

    fn amend(
        &mut self,
        held: &LockedBuckets<'_, X>,
        key: Key<'_>,
        now: Seconds,
        live: Present<'s, X>,
        change: &Amendment,
        supplies: &mut Supplies<X>,
    ) -> Result<After, Attempt> {
        let item = live.item;
        let bumped = change.recency == Recency::Bump;
        let facts = if bumped { change.set.with(ItemState::FETCHED) } else { change.set };
        let state = item.header.state().with(facts).without(change.clear);
        if bumped {
            self.core.memory.touch(item.at, item.shape().size());
            queue::note_read(self.core, self.queue, item.at);
        }
        // A long value may be pinned, and then it is being sent from where it lies.
        let may_overwrite = change.overwrite.is_none() || item.value_len() <= INLINE_MAX;
        if may_overwrite && !lacks_field(&item, change) {
            let header = item.header.with_state(state);
            item.store_header(if bumped { header.accessed(now) } else { header });
            if let Some(expiry) = change.expiry.filter(|_| item.shape().fields.has(Fields::EXPIRY)) {
                item.store_expiry(expiry);
            }
            if let Some(cas) = change.cas {
                item.store_cas(cas);
            }
            if let Some(digits) = change.overwrite {
                write_number(&item, &digits);
            }
            return Ok(After::Nothing);
        }
        let meta = item.meta();
        let header_spec = ItemHeaderSpec {
            key: key.bytes,
            flags: meta.flags,
            expiry: change.expiry.unwrap_or(meta.expiry),
            cas: change.cas.or(meta.cas),
            state,
            generation: item.header.generation(),
            accessed: if bumped { now } else { meta.last_access },
        };
        let at = self.rebuild(&header_spec, &item, change.overwrite, supplies, now)?;
        Ok(self.link(held, at, key.hash, Some(live), now))
    }
}

/// The item under the key, dead or alive.
#[inline]
fn present<'a, X: Scheme>(
    core: &'a Core<X>,
    held: &LockedBuckets<'_, X>,
    key: Key<'_>,
    (generation, now): (u32, Seconds),
) -> Option<Present<'a, X>> {
    let (slot, item) = held.find(|at| core.item(at, now).filter(|item| item.key_is(key.bytes)))?;
    let dead = Flushes::<Ticket>::dead_as_of(generation, &item, now);
    Some(Present { slot, item, dead })
}

/// An item as a decision sees it. Its class is looked up when it is asked for.
struct View<'a, X: Scheme> {
    core: &'a Core<X>,
    item: Item<'a>,
}

impl<X: Scheme> ItemView for View<'_, X> {
    fn value_len(&self) -> usize {
        self.item.value_len()
    }

    fn flags(&self) -> u32 {
        self.item.flags()
    }

    fn cas(&self) -> Option<u64> {
        self.item.cas()
    }

    fn meta(&self) -> Meta {
        self.item.of_class(self.core.class_number(self.item.at)).meta()
    }

    fn copy_value(&self, from: usize, out: &mut [u8]) {
        self.item.copy_value(from, out);
    }
}

fn remove<X: Scheme>(held: &LockedBuckets<'_, X>, present: Present<'_, X>) -> After {
    held.remove(present.slot);
    After::Free(present.item.at, if present.dead.is_some() { Removal::Dead } else { Removal::Gone })
}

/// Whether a change needs a field that the item does not have.
fn lacks_field(item: &Item<'_>, change: &Amendment) -> bool {
    let fields = item.shape().fields;
    let needs_expiry = matches!(change.expiry, Some(Expiry::At(_))) && !fields.has(Fields::EXPIRY);
    needs_expiry || (change.cas.is_some() && !fields.has(Fields::CAS))
}

/// Blanks to fill a value with.
const BLANKS: [u8; 512] = [b' '; 512];

/// Writes a number over the value of `item`, padded with blanks. The value is so short that readers copy it, and nobody pins it.
fn write_number(item: &Item<'_>, digits: &Digits) {
    debug_assert!(item.value_len() <= INLINE_MAX && item.chain().is_none(), "it may be pinned");
    let (words, start) = item.value_words();
    let number = digits.as_bytes();
    words::copy_in(words, start, number);
    for at in (number.len()..item.value_len()).step_by(BLANKS.len()) {
        words::copy_in(words, start + at, &BLANKS[..(item.value_len() - at).min(BLANKS.len())]);
    }
}

/// Appends the value of `item`, whose counters are held, to a pending value.
fn copy_value<X: Scheme>(core: &Core<X>, item: &Item<'_>, pending: &mut SlabPending<X>) {
    let mut buffer = [0; 4096];
    let mut from = 0;
    if item.chain().is_none() {
        while from < item.value_len() {
            let part = buffer.len().min(item.value_len() - from);
            item.copy_value(from, &mut buffer[..part]);
            pending.append(&buffer[..part]);
            from += part;
        }
        return;
    }
    for (place, length) in Pieces::of(core.shell.region(), item) {
        let words = core
            .shell
            .region()
            .words(place, length.div_ceil(words::WORD))
            .expect("a chunk lies in the Region");
        let mut from = 0;
        while from < length {
            let part = buffer.len().min(length - from);
            words::copy_out(words, from, &mut buffer[..part]);
            pending.append(&buffer[..part]);
            from += part;
        }
    }
}
