//! Storing an item in room of its own: a new one, one that does not fit where the one lies that it replaces, or one that moves.
//!
//! Room is found first, and everything else after that: the search may remove any item, and with it slots and spare buckets.

use crate::entry::{Anchor, Entry, ItemHeaderSpec, Shape};
use crate::growth;
use crate::index::Tag;
use crate::pending::MicaPending;
use crate::scratch::Scratch;
use crate::slots::{self, Slot};
use crate::store::{Holder, ItemStore};
use crate::writer::{ALL, Found, Writer};
use guira_contract::{Counter, Expiry, ItemState, ItemView, PendingValue, StoreError};
use guira_items::{ClassUsage, Removal};
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::Seconds;
use guira_sync::words;

/// The value of a new item.
pub(crate) enum Source<'v, S: ItemStore> {
    Bytes(&'v [u8]),
    Pending(&'v MicaPending<S>),
    /// A value that was put together.
    Scratch(Scratch<'v>),
}

/// An item that needs room of its own.
pub(crate) struct Anew<'v, S: ItemStore> {
    pub(crate) header_spec: ItemHeaderSpec<'v>,
    pub(crate) tag: Tag,
    pub(crate) source: Source<'v, S>,
    /// The offset of the item that it replaces.
    pub(crate) replaced: Option<u64>,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Store,
    /// It was there before, in other room or with other fields.
    Rebuild,
}

/// A copy of an item that is about to move.
pub(crate) struct Copied<'s> {
    key: [u8; 256],
    key_len: usize,
    place: u32,
    generation: u32,
    tag: Tag,
    offset: u64,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
    state: ItemState,
    accessed: Seconds,
    value: Scratch<'s>,
}

impl<S: ItemStore> Source<'_, S> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Bytes(bytes) => bytes.len(),
            Source::Pending(pending) => pending.value_len(),
            Source::Scratch(scratch) => scratch.bytes().len(),
        }
    }

    /// Writes the value into an item.
    #[inline(always)]
    pub(crate) fn write(&self, words: &[AtomicU64], shape: Shape) {
        let at = shape.value_at();
        match self {
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
}

/// Stores an item in room of its own.
#[inline(never)]
pub(crate) fn store_anew<S: ItemStore>(
    writer: &mut Writer<'_, S>,
    anew: &Anew<'_, S>,
) -> Result<(), StoreError> {
    let header_spec = &anew.header_spec;
    let shape = header_spec.shape(anew.source.len());
    make_room(writer, anew, shape.units() as u64)?;
    let main = writer.bucket_of(header_spec.place);
    // If nothing is replaced there is nothing under the key.
    let present =
        anew.replaced.and_then(|_| writer.find_tagged(header_spec.key, header_spec.place, anew.tag));
    let slot = match &present {
        Some(present) => Slot::Empty(present.bucket, present.slot),
        None => slots::slot_in(writer, main)?,
    };
    let room = writer.part().store().take(shape.units() as u64);
    write(writer, header_spec, shape, room, &anew.source);
    if let Some(present) = &present {
        writer.account_removed(&present.entry, why_replaced(writer, &present.entry));
    }
    if let Slot::Displaced(displaced) = &slot {
        writer.bury(displaced, Removal::Displaced);
    }
    main.change(|| slots::fill(writer, main, &slot, (anew.tag, room.0)));
    if let Some(present) = &present {
        writer.leave(present.offset);
    }
    match anew.cause {
        Cause::Store => account_stored(writer, shape.size()),
        Cause::Rebuild => account_added(writer, shape.size()),
    }
    after_store(writer);
    Ok(())
}

/// Finds room for an item of `units` words, and a slot.
fn make_room<S: ItemStore>(
    writer: &mut Writer<'_, S>,
    anew: &Anew<'_, S>,
    units: u64,
) -> Result<(), StoreError> {
    let (part, place) = (writer.part(), anew.header_spec.place);
    if anew.replaced.is_none() && !slots::has_slot(writer, writer.bucket_of(place)) {
        let index = part.index();
        writer.remove_dead_of(index.bucket_of(place, index.extent()));
    }
    let mut replaced = anew.replaced;
    let found = part.store().find_room(writer, units, &mut replaced);
    if found.is_err() && replaced != anew.replaced {
        // The room of the old item was not enough, and nothing replaces it.
        writer.counters().add(Counter::Evictions, 1);
    }
    found
}

/// Writes an item at `offset`, in the room that `anchor` describes.
#[inline]
fn write<S: ItemStore>(
    writer: &Writer<'_, S>,
    header_spec: &ItemHeaderSpec<'_>,
    shape: Shape,
    (offset, anchor): (u64, Anchor),
    source: &Source<'_, S>,
) {
    let at = writer.part().store().at(offset);
    let words = header_spec.write(writer.core().shell.region(), at, shape, anchor);
    source.write(words, shape);
}

#[inline]
fn after_store<S: ItemStore>(writer: &mut Writer<'_, S>) {
    let part = writer.part();
    part.store().after_store(writer);
    if part.index().is_crowded(part.items()) {
        growth::grow(writer);
    }
}

/// Why an item goes that another replaces.
fn why_replaced<S: ItemStore>(writer: &Writer<'_, S>, entry: &Entry<'_>) -> Removal {
    if writer.is_dead_entry(entry) { Removal::Dead } else { Removal::Gone }
}

fn account_added<S: ItemStore>(writer: &Writer<'_, S>, size: usize) {
    writer.part().add_usage(ClassUsage { items: 1, bytes: size as u64 });
    writer.counters().items_added(ALL, 1, size as u64);
}

/// The same for an item that a command stored.
pub(crate) fn account_stored<S: ItemStore>(writer: &Writer<'_, S>, size: usize) {
    account_added(writer, size);
    writer.counters().add(Counter::ItemsStored, 1);
}

/// A value with bytes before and after it.
pub(crate) fn joined<'s, S: ItemStore>(
    writer: &Writer<'s, S>,
    before: &[u8],
    old: Option<Entry<'_>>,
    after: &[u8],
) -> Scratch<'s> {
    writer.scratch().filled(|scratch| {
        scratch.extend_from_slice(before);
        if let Some(old) = old {
            scratch.resize(before.len() + old.value_len(), 0);
            old.copy_value(0, &mut scratch[before.len()..]);
        }
        scratch.extend_from_slice(after);
    })
}

pub(crate) fn copied<'s, S: ItemStore>(writer: &Writer<'s, S>, found: &Found<'_>) -> Copied<'s> {
    let (entry, meta) = (found.entry, found.entry.meta());
    let mut key = [0; 256];
    let key_len = entry.key(&mut key).len();
    Copied {
        key,
        key_len,
        place: entry.place(),
        generation: entry.generation(),
        tag: found.bucket.tag(found.slot),
        offset: found.offset,
        flags: meta.flags,
        expiry: meta.expiry,
        cas: meta.cas,
        state: meta.state,
        accessed: meta.last_access,
        value: joined(writer, &[], Some(entry), &[]),
    }
}

/// Stores a copied item again. False if there is no room for it.
pub(crate) fn move_to_tail<'s, S: ItemStore>(writer: &mut Writer<'s, S>, copied: Copied<'s>) -> bool {
    let header_spec = ItemHeaderSpec {
        key: &copied.key[..copied.key_len],
        place: copied.place,
        generation: copied.generation,
        flags: copied.flags,
        expiry: copied.expiry,
        cas: copied.cas,
        state: copied.state,
        accessed: copied.accessed,
        always: S::FIELDS,
    };
    let (tag, replaced) = (copied.tag, Some(copied.offset));
    let source = Source::Scratch(copied.value);
    store_anew(writer, &Anew { header_spec, tag, source, replaced, cause: Cause::Rebuild }).is_ok()
}
