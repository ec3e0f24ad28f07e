//! The read-modify-write of a key.
//!
//! An item in the table never changes, except for the note of a read in its header, and its expiry if it has the field. Every other change is a new item
//! that replaces the old one by one compare-and-swap on the old one's link; if that fails the whole operation is repeated. A new expiry replaces, by
//! compare-and-swap, the one that the decision was made from, and is then counted as a change of the link, which stops every writer that has built a new
//! item from what it read before. If the item has left the table by then, the operation is repeated as well.

use crate::allocator::Allocator;
use crate::core::Core;
use crate::dead;
use crate::flush;
use crate::index::{EditNodes, Node, Spot};
use crate::maintain;
use crate::pending::FleecPending;
use crate::pool::{ChunkCache, Taking};
use guira_contract::{
    Amendment, Counter, Decision, Expiry, ItemSpec, ItemState, ItemView, Key, NewItem, OldItem, Provision,
    Recency, StoreError, Value, counted_size,
};
use guira_items::hooks::{self, Window};
use guira_items::{
    Eviction, Fields, HeldItem, Item, ItemHeaderSpec, Pieces, Removal, SessionCounters, Shape,
};
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words;

#[derive(Debug)]
enum Attempt {
    /// It is done and nothing was stored. The number of items has changed by this much.
    Done(i64),
    /// An item was stored at this place, in this flush generation. The number of items has changed by this much.
    Stored {
        more: i64,
        at: Offset,
        generation: u32,
    },
    Again,
    NeedChunk(ClassId, Taking),
    /// A pending value is needed for an item with these fields and a value of this length.
    NeedPending(Fields, usize),
}

/// The item that is in the table under the key, dead or alive. It is announced.
#[derive(Clone, Copy)]
struct Present<'n> {
    node: Node<'n>,
    item: Item<'n>,
    is_dead: bool,
    /// Its expiry when it was found, before the decision.
    expiry: Expiry,
}

impl Present<'_> {
    fn why(&self) -> Removal {
        if self.is_dead { Removal::Dead } else { Removal::Gone }
    }
}

#[derive(Debug)]
struct Supplies {
    pending: Option<FleecPending>,
    /// Memory for a value that is put together from the old one.
    spare: Option<FleecPending>,
}

#[derive(Clone, Copy)]
struct Parts<'v> {
    before: &'v [u8],
    old: Option<Item<'v>>,
    after: &'v [u8],
}

impl<'v> Parts<'v> {
    fn of(bytes: &'v [u8]) -> Self {
        Parts { before: bytes, old: None, after: &[] }
    }

    fn len(&self) -> usize {
        self.before.len() + self.old.map_or(0, |item| item.value_len()) + self.after.len()
    }

    /// Passes the value to `take`, piece by piece.
    fn each(&self, core: &Core, mut take: impl FnMut(&[u8])) {
        take(self.before);
        if let Some(item) = self.old {
            let mut buffer = [0; 4096];
            for (place, length) in Pieces::of(core.shell.region(), &item) {
                // Only a value in several chunks begins at a multiple of 8.
                let words = core.shell.region().words(place, length.div_ceil(words::WORD));
                for from in (0..length).step_by(buffer.len()) {
                    let part = &mut buffer[..(length - from).min(4096)];
                    match words.filter(|_| item.chain().is_some()) {
                        Some(words) => words::copy_out(words, from, part),
                        None => item.copy_value(from, part),
                    }
                    take(part);
                }
            }
        }
        take(self.after);
    }
}

/// A complete item that no other session knows of.
enum Made {
    /// In a chunk of this class, from the session's cache.
    Chunk(Offset, ClassId),
    Pending(Offset, FleecPending),
}

impl Made {
    fn at(&self) -> Offset {
        match self {
            Made::Chunk(at, _) | Made::Pending(at, _) => *at,
        }
    }
}

/// Changes the item under `key` as `decide` says.
pub(crate) fn update<'d, F>(
    allocator: &mut Allocator,
    key: Key<'_>,
    now: Seconds,
    provision: Provision<FleecPending>,
    mut decide: F,
) -> Result<(), StoreError>
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    flush::settle(allocator.local().core(), now);
    let mut supplies = Supplies { pending: None, spare: None };
    match provision {
        Provision::None => {}
        Provision::Item(spec) => prepare(allocator, key, &spec, now)?,
        Provision::Pending(pending) => supplies.pending = Some(pending),
    }
    loop {
        match attempt(allocator, key, now, &mut supplies, &mut decide)? {
            Attempt::Done(more) => {
                finish(allocator, more);
                return Ok(());
            }
            Attempt::Stored { more, at, generation } => {
                finish(allocator, more);
                dead::follow_up(allocator.local_mut(), (at, key.hash.0), generation, now);
                return Ok(());
            }
            Attempt::Again => allocator.local().counters().add(Counter::WriteRetries, 1),
            Attempt::NeedChunk(class, taking) => {
                let _held = allocator.hold(key, now);
                allocator.refill(class, taking, now)?;
            }
            Attempt::NeedPending(fields, length) => {
                supplies.spare = None;
                let _held = allocator.hold(key, now);
                let spare = FleecPending::joining(allocator, key.bytes.len(), (fields, length), now);
                supplies.spare = Some(spare.ok_or(StoreError::NoMemory)?);
            }
        }
    }
}

/// Removes the item under `key` if it is dead.
#[cold]
#[inline(never)]
pub(crate) fn remove_dead(allocator: &mut Allocator, key: Key<'_>, now: Seconds) {
    // Nothing is stored, so nothing can be refused.
    let _ = update(allocator, key, now, Provision::None, |_| Decision::Keep);
}

/// Follows up a change: counts items, grows the table, frees memory.
fn finish(allocator: &mut Allocator, more: i64) {
    let local = allocator.local_mut();
    if more != 0 {
        local.editor().count_items(more);
        if more > 0 && local.core().table.is_crowded() {
            maintain::help_growth(local);
        }
    }
    local.reclaim_some();
}

/// Finds memory for the item that will probably be stored.
fn prepare(allocator: &mut Allocator, key: Key<'_>, spec: &ItemSpec, now: Seconds) -> Result<(), StoreError> {
    let core = allocator.local().core();
    if !core.fits(key.bytes.len(), spec) {
        return Err(StoreError::TooLarge);
    }
    if core.options.engine.eviction == Eviction::Off {
        // Memory may not be needed at all, and none is evicted for it.
        return Ok(());
    }
    let fields = core.fields_of(spec);
    let shape = Shape { key_len: key.bytes.len() as u8, value_len: spec.value_len as u32, fields };
    let kept = (spec.old == OldItem::Stays).then_some(key);
    match core.memory.classes().class_for(shape.size()) {
        Some(class) => allocator.prepare(class, kept, now),
        None => Ok(()),
    }
}

#[inline(always)]
fn attempt<'d, F>(
    allocator: &mut Allocator,
    key: Key<'_>,
    now: Seconds,
    supplies: &mut Supplies,
    decide: &mut F,
) -> Result<Attempt, StoreError>
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    let lane = allocator.local().lane();
    let (mut editor, cache) = allocator.local_mut().editor_and_cache();
    let (core, counters) = (editor.core(), editor.counters());
    let bucket = core.table.bucket_of(key.hash.0);
    editor.at_key(bucket, key, now, |nodes, spot| {
        // Read after the item was found, so that the item is of this generation or an earlier one; and once, so that both the decision and what is stored
        // are before a flush, or after it.
        let generation = core.flushes.generation();
        let present = spot.node.and_then(|node| {
            let item = core.item(node.at, now)?;
            // Read before it is known that the item is alive: or a dead one could get a new expiry.
            let expiry = item.expiry();
            let is_dead = core.flushes.dead_as_of(generation, &item, now).is_some();
            Some(Present { node, item, is_dead, expiry })
        });
        let mut writer = Writer { core, cache, counters, key, now, generation, bucket, lane };
        writer.change(nodes, spot, present, supplies, decide)
    })
}

struct Writer<'n, 's, 'k> {
    core: &'n Core,
    cache: &'s mut ChunkCache,
    counters: &'s SessionCounters,
    key: Key<'k>,
    now: Seconds,
    generation: u32,
    bucket: u64,
    lane: usize,
}

impl<'n> Writer<'n, '_, '_> {
    #[inline(always)]
    fn change<'d, F>(
        &mut self,
        nodes: &mut EditNodes<'n, '_>,
        spot: &Spot<'n>,
        present: Option<Present<'n>>,
        supplies: &mut Supplies,
        decide: &mut F,
    ) -> Result<Attempt, StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let live = present.filter(|present| !present.is_dead);
        let view = live.map(|live| {
            let item = live.item.of_class(self.core.memory.class_number(live.item.at));
            HeldItem::new(self.core.shell.region(), item)
        });
        let decision = decide(view.as_ref().map(|view| view as &dyn ItemView));
        match (decision, present, live) {
            (Decision::Remove, Some(present), _) => Ok(self.remove(nodes, spot, present)),
            (Decision::Amend(change), _, Some(live)) => self.amend(nodes, spot, live, &change, supplies),
            (Decision::Put(new), ..) => self.put(nodes, spot, present, &new, supplies),
            (_, Some(present), None) => Ok(self.remove(nodes, spot, present)),
            // The item that the decision was made from has to have been there as a whole at some moment.
            (_, Some(present), _) if !present.node.stands() => Ok(Attempt::Again),
            _ => Ok(Attempt::Done(0)),
        }
    }

    fn remove(&mut self, nodes: &mut EditNodes<'n, '_>, spot: &Spot<'n>, present: Present<'n>) -> Attempt {
        if !spot.remove(nodes, present.node) {
            self.counters.add(Counter::SwapsLost, 1);
            return Attempt::Again;
        }
        self.core.account_removed(self.counters, &present.item, present.why(), self.now);
        Attempt::Done(-1)
    }

    fn put(
        &mut self,
        nodes: &mut EditNodes<'n, '_>,
        spot: &Spot<'n>,
        present: Option<Present<'n>>,
        new: &NewItem<'_>,
        supplies: &mut Supplies,
    ) -> Result<Attempt, StoreError> {
        let header_spec = ItemHeaderSpec::of(self.key.bytes, new, self.generation, self.now);
        let made = match new.value {
            Value::Bytes(bytes) => self.make(&header_spec, Parts::of(bytes), &mut supplies.spare),
            Value::Digits(digits) => {
                self.make(&header_spec, Parts::of(digits.as_bytes()), &mut supplies.spare)
            }
            Value::Pending => {
                let pending = supplies.pending.take().ok_or(StoreError::NoMemory)?;
                Ok(Made::Pending(pending.write(&header_spec, self.now), pending))
            }
            Value::Joined { before, after } => {
                let old = present.filter(|present| !present.is_dead).map(|present| present.item);
                let parts = Parts { before, old, after };
                if counted_size(self.key.bytes.len(), new.flags, parts.len())
                    > self.core.options.engine.max_item_size
                {
                    return Err(StoreError::TooLarge);
                }
                self.make(&header_spec, parts, &mut supplies.spare)
            }
        };
        let attempt = match made {
            Ok(made) => self.publish(nodes, spot, present, made, supplies),
            Err(needed) => needed,
        };
        if matches!(attempt, Attempt::Stored { .. }) {
            self.counters.add(Counter::ItemsStored, 1);
        }
        Ok(attempt)
    }

    /// Builds an item that no other session knows of yet.
    fn make(
        &mut self,
        header_spec: &ItemHeaderSpec<'_>,
        parts: Parts<'_>,
        spare: &mut Option<FleecPending>,
    ) -> Result<Made, Attempt> {
        let length = parts.len();
        let fields = self.core.fields(header_spec, length);
        let shape = Shape { key_len: header_spec.key.len() as u8, value_len: length as u32, fields };
        if let Some(class) = self.core.memory.classes().class_for(shape.size()) {
            let Some(at) = self.cache.pop(class) else {
                return Err(Attempt::NeedChunk(class, Taking::Fresh));
            };
            // Release fence: pairs with the Acquire fence of `find`. A reader that sees what is written into the chunk from now on also sees the mark of the
            // item that was there before.
            fence(Ordering::Release);
            let item = header_spec.write(self.core.shell.region(), at, shape, None, header_spec.accessed);
            let (words, mut to) = item.value_words();
            parts.each(self.core, |bytes| {
                words::copy_in(words, to, bytes);
                to += bytes.len();
            });
            return Ok(Made::Chunk(at, class));
        }
        let Some(mut pending) = spare.take().filter(|spare| spare.is_for(fields, length)) else {
            return Err(Attempt::NeedPending(fields, length));
        };
        pending.begin_anew();
        parts.each(self.core, |bytes| pending.append(bytes));
        Ok(Made::Pending(pending.write(header_spec, self.now), pending))
    }

    /// Inserts an item into the table, or replaces the one that is there.
    fn publish(
        &mut self,
        nodes: &mut EditNodes<'n, '_>,
        spot: &Spot<'n>,
        present: Option<Present<'n>>,
        made: Made,
        supplies: &mut Supplies,
    ) -> Attempt {
        let core = self.core;
        let at = made.at();
        let (word, item) = (core.table.link_of_item(at), core.item(at, self.now));
        let (word, item) = word.zip(item).expect("the new item is inside the region");
        let bytes = Core::bytes_of(&item);
        let class = core.memory.class_at(at);
        let overwritten = present.filter(|present| !present.is_dead);
        if overwritten.is_some() {
            item.note_overwriting();
        }
        hooks::pause(Window::Publishing);
        let done = match present {
            Some(present) => spot.replace(nodes, present.node, at, word),
            None => spot.insert(at, word),
        };
        if !done {
            self.counters.add(Counter::SwapsLost, 1);
            self.take_back(made, supplies);
            return Attempt::Again;
        }
        if let Made::Pending(_, pending) = made {
            pending.published();
        }
        self.counters.item_put(class, bytes);
        core.expiry.short_lived.note(self.lane, at, item.expiry(), self.now);
        if let Some(present) = present {
            core.account_removed(self.counters, &present.item, present.why(), self.now);
        }
        match overwritten {
            // A replaced item counts as read.
            Some(_) => core.table.touch(self.bucket),
            None => core.table.on_insert(self.bucket),
        }
        Attempt::Stored { more: i64::from(present.is_none()), at, generation: self.generation }
    }

    /// Keeps the memory of an item that could not be published for the next attempt.
    fn take_back(&mut self, made: Made, supplies: &mut Supplies) {
        match made {
            Made::Chunk(at, class) => self.cache.push(class, at),
            Made::Pending(_, pending) if pending.is_the_clients() => supplies.pending = Some(pending),
            Made::Pending(_, pending) => supplies.spare = Some(pending),
        }
    }

    /// Changes the cas unique and the expiry of an item that has fields for them.
    fn amend_in_place(&mut self, spot: &Spot<'n>, live: Present<'n>, change: &Amendment) -> Attempt {
        let item = live.item;
        if change.cas.is_some_and(|cas| !item.give_cas(cas)) {
            return Attempt::Again;
        }
        let stored = change.expiry.filter(|_| item.shape().fields.has(Fields::EXPIRY));
        if stored.is_some_and(|expiry| !item.replace_expiry(live.expiry, expiry)) {
            if change.cas.is_some() {
                // The item has its cas unique from now on, whatever becomes of the rest.
                spot.renew(live.node);
            }
            return Attempt::Again;
        }
        if !spot.renew(live.node) {
            self.counters.add(Counter::SwapsLost, 1);
            return Attempt::Again;
        }
        if let Some(expiry) = stored {
            self.core.expiry.short_lived.note(self.lane, item.at, expiry, self.now);
        }
        if change.recency == Recency::Bump {
            item.note_read(self.now);
        }
        Attempt::Done(0)
    }

    fn amend(
        &mut self,
        nodes: &mut EditNodes<'n, '_>,
        spot: &Spot<'n>,
        live: Present<'n>,
        change: &Amendment,
        supplies: &mut Supplies,
    ) -> Result<Attempt, StoreError> {
        let item = live.item;
        let bumped = change.recency == Recency::Bump;
        if bumped {
            self.core.table.touch(self.bucket);
        }
        if item.expiry() != live.expiry {
            // The decision may have seen the one or the other.
            return Ok(Attempt::Again);
        }
        let state = item.header.state().with(change.set).without(change.clear);
        let is_same = state == item.header.state()
            && change.expiry.is_none_or(|expiry| expiry == live.expiry)
            && change.cas.is_none()
            && change.overwrite.is_none();
        if is_same {
            if bumped {
                item.note_read(self.now);
            }
            return Ok(if live.node.stands() { Attempt::Done(0) } else { Attempt::Again });
        }
        if state == item.header.state() && change.overwrite.is_none() && has_fields(&item, change) {
            return Ok(self.amend_in_place(spot, live, change));
        }
        let meta = self.core.meta_of(&item);
        let header_spec = ItemHeaderSpec {
            key: self.key.bytes,
            flags: meta.flags,
            expiry: change.expiry.unwrap_or(live.expiry),
            cas: change.cas.or(meta.cas),
            state: if bumped { state.with(ItemState::FETCHED) } else { state },
            // Not that of the item: the crawler may have passed the bucket already.
            generation: self.generation,
            accessed: if bumped { self.now } else { meta.last_access },
        };
        let number = change.overwrite.map(|digits| {
            let mut number = digits.as_bytes().to_vec();
            number.resize(meta.value_len, b' ');
            number
        });
        let parts = match &number {
            Some(number) => Parts::of(number),
            None => Parts { before: &[], old: Some(item), after: &[] },
        };
        Ok(match self.make(&header_spec, parts, &mut supplies.spare) {
            Ok(made) => self.publish(nodes, spot, Some(live), made, supplies),
            // The old item's chunk is given back for it.
            Err(Attempt::NeedChunk(class, _)) => Attempt::NeedChunk(class, Taking::Exchange),
            Err(needed) => needed,
        })
    }
}

/// Whether the change of expiry and cas unique can be made in place. An existing cas unique is part of what readers believe of the item.
fn has_fields(item: &Item<'_>, change: &Amendment) -> bool {
    let fields = item.shape().fields;
    let has_expiry = matches!(change.expiry, None | Some(Expiry::Never)) || fields.has(Fields::EXPIRY);
    has_expiry && (change.cas.is_none() || (fields.has(Fields::CAS) && item.cas().is_none()))
}
