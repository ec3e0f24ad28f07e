//! The read-modify-write of a key, by the session that holds its partition.
//!
//! An item is changed in place if the new one fits into its room, and otherwise stored in new room; a log takes the old room back when its head comes
//! by. The version of the bucket keeps readers from believing what they saw of a change.

use crate::anew::{self, Anew, Cause, Source};
use crate::entry::{Anchor, ENTRY_MAX, Entry, ItemHeaderSpec, Shape};
use crate::growth;
use crate::index::Tag;
use crate::partition::Home;
use crate::pending::MicaPending;
use crate::store::{Holder, ItemStore};
use crate::writer::{ALL, Found, Writer};
use guira_contract::{
    Amendment, Counter, Decision, ItemState, ItemView, Key, Meta, NewItem, Recency, StoreError, Value,
    counted_size,
};
use guira_items::hooks::{self, Window};
use guira_items::{ClassUsage, Fields, Removal};

/// The rest of a change, which needs nothing that was found.
enum Left<'v, S: ItemStore> {
    Nothing,
    /// The item needs room of its own.
    Store(Anew<'v, S>),
}

/// Changes the item under `key` as `decide` says.
#[inline(always)]
pub(crate) fn update<'d: 'v, 's: 'v, 'v, S: ItemStore, F>(
    writer: &mut Writer<'s, S>,
    key: Key<'v>,
    home: Home,
    pending: Option<&'v MicaPending<S>>,
    decide: F,
) -> Result<(), StoreError>
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    // Before anything is found: offsets may change.
    growth::adjust(writer);
    match change_in_place(writer, key, home, pending, decide)? {
        Left::Nothing => Ok(()),
        Left::Store(anew) => anew::store_anew(writer, &anew),
    }
}

/// Does everything that needs no room, and returns the rest.
#[inline(always)]
fn change_in_place<'d: 'v, 's: 'v, 'v, S: ItemStore, F>(
    writer: &Writer<'s, S>,
    key: Key<'v>,
    home: Home,
    pending: Option<&'v MicaPending<S>>,
    mut decide: F,
) -> Result<Left<'v, S>, StoreError>
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    let present = writer.find(key, home);
    let live = present.as_ref().filter(|found| !writer.is_dead(found));
    let decision = decide(live.map(|live| &live.entry as &dyn ItemView));
    let is_live = live.is_some();
    match (decision, present) {
        (Decision::Put(new), present) => put(writer, (key, home), present, &new, pending),
        (Decision::Amend(change), Some(present)) if is_live => {
            Ok(amend(writer, (key, home), present, &change))
        }
        (Decision::Remove, Some(present)) if is_live => {
            writer.remove(present, Removal::Gone);
            Ok(Left::Nothing)
        }
        (_, Some(present)) if !is_live => {
            writer.remove(present, Removal::Dead);
            Ok(Left::Nothing)
        }
        _ => Ok(Left::Nothing),
    }
}

#[inline(always)]
fn put<'d, 's: 'd, S: ItemStore>(
    writer: &Writer<'s, S>,
    (key, home): (Key<'d>, Home),
    present: Option<Found<'_>>,
    new: &NewItem<'d>,
    pending: Option<&'d MicaPending<S>>,
) -> Result<Left<'d, S>, StoreError> {
    let header_spec = header_spec(writer, key, home.place, new);
    let source = match new.value {
        Value::Bytes(bytes) => Source::Bytes(bytes),
        Value::Digits(digits) => {
            Source::Scratch(writer.scratch().filled(|scratch| scratch.extend(digits.as_bytes())))
        }
        Value::Pending => Source::Pending(pending.ok_or(StoreError::NoMemory)?),
        Value::Joined { before, after } => {
            let live = present.as_ref().filter(|found| !writer.is_dead(found));
            let source = Source::Scratch(anew::joined(writer, before, live.map(|live| live.entry), after));
            let counted = counted_size(key.bytes.len(), new.flags, source.len());
            let is_too_large = source.len() + ENTRY_MAX > writer.core().sizing.largest_item();
            if counted > writer.core().options.engine.max_item_size || is_too_large {
                return Err(StoreError::TooLarge);
            }
            source
        }
    };
    Ok(store(writer, (header_spec, Tag::of(key.hash.0), source), present, Cause::Store))
}

#[inline(always)]
pub(crate) fn header_spec<'k, S: ItemStore>(
    writer: &Writer<'_, S>,
    key: Key<'k>,
    place: u32,
    new: &NewItem<'_>,
) -> ItemHeaderSpec<'k> {
    ItemHeaderSpec {
        key: key.bytes,
        place,
        generation: writer.generation(),
        flags: new.flags,
        expiry: new.expiry,
        cas: new.cas,
        state: new.state,
        accessed: writer.time(),
        always: S::FIELDS,
    }
}

/// Stores an item in the room of the one that it replaces, if that suits.
#[inline(always)]
fn store<'d, S: ItemStore>(
    writer: &Writer<'_, S>,
    (header_spec, tag, source): (ItemHeaderSpec<'d>, Tag, Source<'d, S>),
    present: Option<Found<'_>>,
    cause: Cause,
) -> Left<'d, S> {
    let shape = header_spec.shape(source.len());
    let replaced = present.as_ref().map(|present| present.offset);
    match present {
        Some(present) if present.entry.suits(shape.units()) && !writer.is_pinned(present.offset) => {
            store_over(writer, (&header_spec, shape, &source), &present, cause);
            Left::Nothing
        }
        _ => Left::Store(Anew { header_spec, tag, source, replaced, cause }),
    }
}

#[inline(always)]
fn store_over<S: ItemStore>(
    writer: &Writer<'_, S>,
    (header_spec, shape, source): (&ItemHeaderSpec<'_>, Shape, &Source<'_, S>),
    present: &Found<'_>,
    cause: Cause,
) {
    let is_dead = writer.is_dead(present);
    let region = writer.core().shell.region();
    let at = writer.part().store().at(present.offset);
    let open = present.main.open();
    let is_stamped = present.entry.generation() == header_spec.generation;
    let words = if is_stamped && present.entry.has_fields_of(shape) {
        let words = region.words(at, shape.units()).expect("the log is inside the region");
        header_spec.write_over(words, shape);
        words
    } else {
        header_spec.write(region, at, shape, Anchor::load(region, at))
    };
    hooks::pause(Window::Refilling);
    source.write(words, shape);
    drop(open);
    if let Some(entry) = writer.entry_at(present.offset) {
        note_use(writer, &entry, present.offset);
    }
    if is_dead {
        writer.account_removed(&present.entry, Removal::Dead);
        return anew::account_stored(writer, shape.size());
    }
    account_replaced(writer, &present.entry, shape, cause);
}

/// Notes a use of the item at `offset`, if the policy keeps it for that when the head of the log comes by.
#[inline(always)]
pub(crate) fn note_use<S: ItemStore>(writer: &Writer<'_, S>, entry: &Entry<'_>, offset: u64) {
    if writer.part().is_use_news(|| writer.core().policy.get(), offset, entry.is_used()) {
        entry.note_use();
    }
}

#[inline(never)]
fn amend<'d, 's: 'd, S: ItemStore>(
    writer: &Writer<'s, S>,
    (key, home): (Key<'d>, Home),
    live: Found<'_>,
    change: &Amendment,
) -> Left<'d, S> {
    let (entry, now) = (live.entry, writer.time());
    let bumped = change.recency == Recency::Bump;
    let state = entry.header().state().with(change.set).without(change.clear);
    let fields = entry.fields();
    let has_room = (change.expiry.is_none_or(|expiry| expiry == entry.expiry())
        || fields.has(Fields::EXPIRY))
        && (change.cas.is_none() || fields.has(Fields::CAS));
    let is_pinned = writer.is_pinned(live.offset);
    if has_room && !(is_pinned && change.overwrite.is_some()) {
        live.main.change(|| {
            let header = entry.header().with_state(state);
            entry.store_header(if bumped { header.read_at(now) } else { header });
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
            note_use(writer, &entry, live.offset);
        }
        return Left::Nothing;
    }
    let meta: Meta = entry.meta();
    let header_spec = ItemHeaderSpec {
        key: key.bytes,
        place: home.place,
        generation: writer.generation(),
        flags: meta.flags,
        expiry: change.expiry.unwrap_or(meta.expiry),
        cas: change.cas.or(meta.cas),
        state: if bumped { state.with(ItemState::FETCHED) } else { state },
        accessed: if bumped { now } else { meta.last_access },
        always: S::FIELDS,
    };
    let value = match change.overwrite {
        Some(digits) => {
            writer.scratch().filled(|scratch| scratch.extend(padded(digits.as_bytes(), meta.value_len)))
        }
        None => anew::joined(writer, &[], Some(entry), &[]),
    };
    let item = (header_spec, Tag::of(key.hash.0), Source::Scratch(value));
    store(writer, item, Some(live), Cause::Rebuild)
}

/// Notes a read of the item under `key`.
pub(crate) fn touch<S: ItemStore>(writer: &Writer<'_, S>, key: Key<'_>, home: Home) {
    let Some(found) = writer.find(key, home) else {
        return;
    };
    let header = found.entry.header();
    if !header.is_noted(writer.time()) {
        found.entry.store_header(header.read_at(writer.time()));
    }
    note_use(writer, &found.entry, found.offset);
}

/// Counts an item that was stored in the room of another.
#[inline(always)]
pub(crate) fn account_replaced<S: ItemStore>(
    writer: &Writer<'_, S>,
    present: &Entry<'_>,
    shape: Shape,
    cause: Cause,
) {
    let (before, now) = (present.size(), shape.size());
    if before != now {
        let more = (now as u64).wrapping_sub(before as u64);
        writer.part().add_usage(ClassUsage { items: 0, bytes: more });
        writer.counters().items_added(ALL, 0, more);
    }
    if cause == Cause::Store {
        writer.counters().add(Counter::ItemsStored, 1);
    }
}

/// A number with blanks behind it, as long as the value that it replaces.
fn padded(digits: &[u8], length: usize) -> Vec<u8> {
    let mut number = digits.to_vec();
    number.resize(length, b' ');
    number
}
