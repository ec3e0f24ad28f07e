//! The read-modify-write of a key.

use super::pending::SlabPending;
use super::state::SessionState;
use super::{growth, refill, removal, slot};
use crate::core::Core;
use crate::evictor::EventQueue;
use crate::flush;
use crate::index::{Found, Guess, LockedBuckets, Scheme};
use crate::items::Items;
use crate::pins::guard::PinGuard;
use crate::pool::cache::ChunkCache;
use guira_contract::{
    Amendment, Counter, Decision, Digits, Expiry, ItemSpec, ItemState, ItemView, Key, KeyHash, Meta,
    MissKind, NewItem, OldItem, PendingValue, Provision, Recency, StoreError, Value, counted_size,
};
use guira_items::hooks::{self, Window};
use guira_items::{Fields, INLINE_MAX, Item, ItemHeaderSpec, Pieces, Removal, SessionCounters, Shape};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, FirstBit};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words;

/// What is to be done after the counters were released.
enum Step {
    /// Nothing: it is done.
    Done,
    /// The item at this place was unlinked, for this reason.
    Free(Offset, Removal),
    Refuse(StoreError),
    /// Another attempt, with a chunk of this class.
    NeedChunk(ClassId),
    /// Another attempt, with a pending value for an item with these fields and a value of this length.
    NeedPending(Fields, usize),
    /// Another attempt, with room in one of the two buckets.
    NeedSlot,
}

/// The item that is in the table under the key, dead or alive.
#[derive(Clone, Copy)]
pub(super) struct Present<'a, X: Scheme> {
    pub(super) slot: Found<X::At>,
    pub(super) item: Item<'a>,
    pub(super) dead: Option<MissKind>,
}

/// What an attempt may use, found before anything was locked.
struct Supplies<X: Scheme> {
    pending: Option<SlabPending<X>>,
    /// A pending value that the engine made for itself, for a value put together from the old one.
    spare: Option<SlabPending<X>>,
}

/// The read-modify-write of a key.
///
/// # Errors
/// If there is no memory, or what is decided is too large.
pub(crate) fn update<'d, X: Scheme, F>(
    state: &mut SessionState<'_, X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
    provision: Provision<SlabPending<X>>,
    mut decide: F,
) -> Result<(), StoreError>
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    flush::settle(state.core, now);
    let mut supplies = Supplies { pending: None, spare: None };
    match provision {
        Provision::None => {}
        Provision::Item(spec) => {
            if let Err(refusal) = prepare(state, key, &spec) {
                prepare_again(state, key, &spec, now, refusal)?;
            }
        }
        Provision::Pending(mut pending) => {
            pending.leave_draining(state);
            supplies.pending = Some(pending);
        }
    }
    loop {
        let mut writer = Writer {
            core: state.core,
            cache: &mut state.local.cache,
            events: &mut state.local.events,
            counters: &state.local.counters,
            lane: state.local.lane,
        };
        match writer.attempt((key, guess), now, &mut supplies, &mut decide) {
            Step::Done => {
                state.flush_many_events();
                if state.core.index.is_growing() {
                    growth::help(state, now);
                }
                return Ok(());
            }
            Step::Free(at, why) => {
                state.flush_many_events();
                removal::account(state, at, why, now);
                removal::free(state, at, now);
                return Ok(());
            }
            Step::Refuse(error) => return Err(error),
            Step::NeedChunk(class) => {
                let _guard = PinGuard::<X>::take(state.core, key, now);
                refill::refill(state, class, now)?;
            }
            Step::NeedPending(fields, length) => {
                supplies.spare = None;
                let shape = Shape { key_len: key.bytes.len() as u8, value_len: length as u32, fields };
                let _guard = guard_for(state, key, shape.size(), now);
                let mut spare = SlabPending::joining(state, key.bytes.len(), (fields, length), now)
                    .ok_or(StoreError::NoMemory)?;
                // A short one is moved later. The item in whose place it comes may not be pinned, and shall not go for it.
                if shape.size() > INLINE_MAX {
                    spare.leave_draining(state);
                }
                supplies.spare = Some(spare);
            }
            Step::NeedSlot => {
                slot::make(state, key, now)?;
                supplies.pending.iter_mut().for_each(|pending| pending.leave_draining(state));
            }
        }
    }
}

/// Locks the key's buckets: only the one with its entry if there is one, since then none is added. Returns the flush
/// generation and the item that is there.
#[inline(always)]
fn lock<'a, X: Scheme>(
    core: &'a Core<X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
) -> (LockedBuckets<'a, X>, u32, Option<Present<'a, X>>) {
    // Loaded once, so that what is decided, and what is stored, is so before a flush or after it as a whole; and under the counters, so that an item that
    // was stored after a flush is not judged as of before it.
    if let Some(held) = core.index.lock_entry(key.hash, guess) {
        let generation = core.items.flushes().generation();
        match present(core, &held, key, (generation, now)) {
            Some(present) if held.covers(present.slot) => return (held.among(), generation, Some(present)),
            _ => held.release_unchanged(),
        }
    }
    let held = core.index.lock(key.hash);
    let generation = core.items.flushes().generation();
    let present = present(core, &held, key, (generation, now));
    (held, generation, present)
}

/// Finds memory for what will probably be stored.
fn prepare<X: Scheme>(
    state: &mut SessionState<'_, X>,
    key: Key<'_>,
    spec: &ItemSpec,
) -> Result<(), StoreError> {
    if !fits(state.core, key.bytes.len(), spec) {
        return Err(StoreError::TooLarge);
    }
    let fields = state.core.items.fields_of(spec);
    let shape = Shape { key_len: key.bytes.len() as u8, value_len: spec.value_len as u32, fields };
    match state.core.pool.class_for(shape.size()) {
        Some(class) if state.local.cache.is_empty(class) => {
            let now = state.core.items.shell().time_seen();
            let stays = spec.old == OldItem::Stays;
            let _guard = if stays { PinGuard::<X>::take(state.core, key, now) } else { None };
            refill::refill(state, class, now)
        }
        _ => Ok(()),
    }
}

/// The same once more, if it may be that something has expired since the session last saw the time.
#[cold]
#[inline(never)]
fn prepare_again<X: Scheme>(
    state: &mut SessionState<'_, X>,
    key: Key<'_>,
    spec: &ItemSpec,
    now: Seconds,
    refusal: StoreError,
) -> Result<(), StoreError> {
    if refusal == StoreError::TooLarge || state.local.seen >= now {
        return Err(refusal);
    }
    state.local.seen = now;
    prepare(state, key, spec)
}

/// Whether an item is not larger than items may be.
pub(crate) fn fits<X: Scheme>(core: &Core<X>, key_len: usize, spec: &ItemSpec) -> bool {
    counted_size(key_len, spec.flags, spec.value_len) <= core.options.engine.max_item_size
}

/// Pins the item under `key` if it may take an eviction to put another of `size` bytes in its place. Mostly the session has
/// a chunk at hand, and nothing needs to be pinned.
fn guard_for<X: Scheme>(
    state: &SessionState<'_, X>,
    key: Key<'_>,
    size: usize,
    now: Seconds,
) -> Option<PinGuard<X>> {
    let class = state.core.pool.class_for(size).filter(|_| size <= INLINE_MAX);
    let at_hand = class.is_some_and(|class| !state.local.cache.is_empty(class));
    if at_hand { None } else { PinGuard::<X>::take(state.core, key, now) }
}

/// The parts of a session that are used while counters are held: nothing here takes another lock.
struct Writer<'s, X: Scheme> {
    core: &'s Core<X>,
    cache: &'s mut ChunkCache,
    events: &'s mut EventQueue,
    counters: &'s SessionCounters,
    lane: usize,
}

impl<'s, X: Scheme> Writer<'s, X> {
    #[inline]
    fn attempt<'d, F>(
        &mut self,
        (key, guess): (Key<'_>, &Guess),
        now: Seconds,
        supplies: &mut Supplies<X>,
        decide: &mut F,
    ) -> Step
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let core = self.core;
        hooks::pause(Window::Locking);
        let (held, generation, present) = lock(core, (key, guess), now);
        let live = present.filter(|present| present.dead.is_none());
        let view = live.map(|present| View { core, item: present.item });
        let decision = decide(view.as_ref().map(|view| view as &dyn ItemView));
        hooks::pause(Window::Judged);
        let step = match (decision, present, live) {
            (Decision::Remove, Some(present), _) => remove(&held, present),
            (Decision::Amend(change), _, Some(live)) => {
                self.amend(&held, key, (generation, now), live, &change, supplies)
            }
            (Decision::Put(new), _, _) => self.put(&held, key, (generation, now), present, &new, supplies),
            (_, Some(present), None) => remove(&held, present),
            _ => {
                held.release_unchanged();
                return Step::Done;
            }
        };
        match step {
            Step::Done | Step::Free(..) => {}
            Step::Refuse(_) | Step::NeedChunk(_) | Step::NeedPending(..) | Step::NeedSlot => {
                held.release_unchanged();
            }
        }
        step
    }

    fn put(
        &mut self,
        held: &LockedBuckets<'_, X>,
        key: Key<'_>,
        (generation, now): (u32, Seconds),
        present: Option<Present<'s, X>>,
        new: &NewItem<'_>,
        supplies: &mut Supplies<X>,
    ) -> Step {
        if present.is_none() && !held.has_room() {
            return Step::NeedSlot;
        }
        let header_spec = ItemHeaderSpec::of(key.bytes, new, generation, now);
        let at = match new.value {
            // What append creates comes in one piece, however long it is.
            Value::Bytes(bytes) if bytes.len() > INLINE_MAX => {
                self.join(&header_spec, None, bytes, &[], supplies, now)
            }
            Value::Bytes(bytes) => self.fill(&header_spec, bytes),
            Value::Digits(digits) => self.fill(&header_spec, digits.as_bytes()),
            Value::Pending => match supplies.pending.take() {
                Some(pending) => Ok(pending.finish(&header_spec, now)),
                None => return Step::Refuse(StoreError::NoMemory),
            },
            Value::Joined { before, after } => {
                let old = present.filter(|present| present.dead.is_none()).map(|present| present.item);
                let old_len = old.map_or(0, |item| item.value_len());
                let length = before.len() + old_len + after.len();
                if counted_size(key.bytes.len(), new.flags, length) > self.core.options.engine.max_item_size {
                    return Step::Refuse(StoreError::TooLarge);
                }
                self.join(&header_spec, old, before, after, supplies, now)
            }
        };
        match at {
            Ok(at) => {
                self.counters.add(Counter::ItemsStored, 1);
                self.link(held, at, key.hash, present, now)
            }
            Err(needed) => needed,
        }
    }

    /// Fills a chunk from the session's cache.
    fn fill(&mut self, header_spec: &ItemHeaderSpec<'_>, value: &[u8]) -> Result<Offset, Step> {
        let fields = self.core.items.fields(header_spec, value.len());
        let shape = Shape { key_len: header_spec.key.len() as u8, value_len: value.len() as u32, fields };
        let Some(class) = self.core.pool.class_for(shape.size()) else {
            return Err(Step::NeedPending(fields, value.len()));
        };
        let Some(at) = self.cache.pop(class) else {
            return Err(Step::NeedChunk(class));
        };
        write_item(self.core, header_spec, at, shape, value);
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
    ) -> Result<Offset, Step> {
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
    ) -> Result<SlabPending<X>, Step> {
        let fields = self.core.items.fields(header_spec, length);
        supplies.spare.take_if(|spare| spare.is_for(fields, length)).ok_or(Step::NeedPending(fields, length))
    }

    /// The item once more, with other fields or with a number in place of its value.
    fn rebuild(
        &self,
        header_spec: &ItemHeaderSpec<'_>,
        item: &Item<'_>,
        overwrite: Option<Digits>,
        supplies: &mut Supplies<X>,
        now: Seconds,
    ) -> Result<Offset, Step> {
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
    ) -> Step {
        let is_live = present.is_some_and(|present| present.dead.is_none());
        let first = if is_live { FirstBit::Set } else { FirstBit::Clear };
        if let Some(item) = self.core.items.at(at, now) {
            self.core.pool.memory().renew(at, item.shape().size(), first);
            self.counters.item_put(self.core.pool.memory().class_at(at), Items::bytes_of(&item));
            self.core.short_lived.note(self.lane, at, item.expiry(), now);
            if item.chain().is_some() {
                let parts = Pieces::of(self.core.items.region(), &item).map(|(part, _)| part);
                self.core.pool.long_stored(at, present.map(|present| present.item.at), parts);
            }
            if self.core.evictor.wants_stores() {
                match first {
                    FirstBit::Clear => self.events.stored(at, hash.0 as u32, item.expiry(), now),
                    FirstBit::Set => self.events.stored_over(at, hash.0 as u32, item.expiry(), now),
                }
            }
        }
        match present {
            Some(present) => {
                held.replace(present.slot, at);
                self.core.walks.replaced(self.core.pool.memory(), hash, present.item.at, at);
                let why = if present.dead.is_some() { Removal::Dead } else { Removal::Gone };
                Step::Free(present.item.at, why)
            }
            None => {
                let inserted = held.insert(at);
                debug_assert!(inserted, "room was seen under the same lock");
                Step::Done
            }
        }
    }

    fn amend(
        &mut self,
        held: &LockedBuckets<'_, X>,
        key: Key<'_>,
        (generation, now): (u32, Seconds),
        live: Present<'s, X>,
        change: &Amendment,
        supplies: &mut Supplies<X>,
    ) -> Step {
        let item = live.item;
        let bumped = change.recency == Recency::Bump;
        let facts = if bumped { change.set.with(ItemState::FETCHED) } else { change.set };
        let state = item.header.state().with(facts).without(change.clear);
        if bumped {
            self.core.pool.memory().touch(item.at, item.shape().size());
            self.core.evictor().note_read(self.events, item.at);
        }
        // A long value may be pinned, and then it is being sent from where it lies.
        let may_overwrite = change.overwrite.is_none() || item.value_len() <= INLINE_MAX;
        if may_overwrite && !lacks_field(&item, change) {
            let header = item.header.with_state(state);
            item.store_header(if bumped { header.accessed(now) } else { header });
            if let Some(expiry) = change.expiry.filter(|_| item.shape().fields.has(Fields::EXPIRY)) {
                item.store_expiry(expiry);
                self.core.short_lived.note(self.lane, item.at, expiry, now);
            }
            if let Some(cas) = change.cas {
                item.store_cas(cas);
            }
            if let Some(digits) = change.overwrite {
                write_number(&item, &digits);
            }
            return Step::Done;
        }
        let meta = item.meta();
        let header_spec = ItemHeaderSpec {
            key: key.bytes,
            flags: meta.flags,
            expiry: change.expiry.unwrap_or(meta.expiry),
            cas: change.cas.or(meta.cas),
            state,
            // Not that of the item: the crawler may have passed the new chunk already.
            generation,
            accessed: if bumped { now } else { meta.last_access },
        };
        match self.rebuild(&header_spec, &item, change.overwrite, supplies, now) {
            Ok(at) => self.link(held, at, key.hash, Some(live), now),
            Err(needed) => needed,
        }
    }
}

/// Writes an item into a chunk that no other session has.
#[inline(always)]
pub(super) fn write_item<X: Scheme>(
    core: &Core<X>,
    header_spec: &ItemHeaderSpec<'_>,
    at: Offset,
    shape: Shape,
    value: &[u8],
) {
    // Release fence: pairs with the Acquire fence of a reader's validation. A reader that sees what is written into
    // the chunk from now on also sees the version under which its last item was unlinked (hazard 3).
    fence(Ordering::Release);
    let item = header_spec.write(core.items.region(), at, shape, None, header_spec.accessed);
    hooks::pause(Window::Refilling);
    let (words, start) = item.value_words();
    words::copy_in(words, start, value);
}

/// The item under the key, dead or alive.
#[inline(always)]
pub(super) fn present<'a, X: Scheme, const N: usize>(
    core: &'a Core<X>,
    held: &LockedBuckets<'_, X, N>,
    key: Key<'_>,
    (generation, now): (u32, Seconds),
) -> Option<Present<'a, X>> {
    let (slot, item) = held.find(|at| core.items.at(at, now).filter(|item| item.key_is(key.bytes)))?;
    let dead = core.items.flushes().dead_as_of(generation, &item, now);
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

    fn state(&self) -> ItemState {
        self.item.state()
    }

    fn meta(&self) -> Meta {
        self.item.of_class(self.core.pool.class_number(self.item.at)).meta()
    }

    fn copy_value(&self, from: usize, out: &mut [u8]) {
        Pieces::copy_value(self.core.items.region(), &self.item, from, out);
    }
}

fn remove<X: Scheme>(held: &LockedBuckets<'_, X>, present: Present<'_, X>) -> Step {
    held.remove(present.slot);
    Step::Free(present.item.at, if present.dead.is_some() { Removal::Dead } else { Removal::Gone })
}

/// Whether a change needs a field that the item does not have.
fn lacks_field(item: &Item<'_>, change: &Amendment) -> bool {
    let fields = item.shape().fields;
    let needs_expiry = matches!(change.expiry, Some(Expiry::At(_))) && !fields.has(Fields::EXPIRY);
    needs_expiry || (change.cas.is_some() && !fields.has(Fields::CAS))
}

/// Blanks to fill a value with.
const BLANKS: [u8; 512] = [b' '; 512];

/// Writes a number over the value of `item`, padded with blanks. The value is so short that readers copy it instead of pinning it.
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
    for (place, length) in Pieces::of(core.items.region(), item) {
        let words = core
            .items
            .region()
            .words(place, length.div_ceil(words::WORD))
            .expect("the chunk is inside the region");
        let mut from = 0;
        while from < length {
            let part = buffer.len().min(length - from);
            words::copy_out(words, from, &mut buffer[..part]);
            pending.append(&buffer[..part]);
            from += part;
        }
    }
}
