//! Storing an item in room of its own: a new one, one that does not fit where the one lies that it replaces, or one that is moved.
//!
//! Room is found first, and everything else after that: the search may remove any item, and with it slots and the buckets that they are in.

use crate::bucket::Tag;
use crate::entry::{Entry, ItemHeaderSpec};
use crate::scratch::Scratch;
use crate::slots::Slot;
use crate::space::Space;
use crate::update::{Found, Source, Writer, account_removed};
use guira_contract::Counter;
use guira_contract::{Expiry, ItemState, ItemView, StoreError};
use guira_items::Removal;
use guira_sync::clock::Seconds;

/// An item that needs room of its own.
pub(crate) struct Anew<'v, S: Space> {
    pub(crate) header_spec: ItemHeaderSpec<'v>,
    pub(crate) tag: Tag,
    pub(crate) source: Source<'v, S>,
    /// The offset of the item that it replaces.
    pub(crate) replaced: Option<u64>,
    pub(crate) cause: Cause,
}

/// Why an item is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A command stores it.
    Store,
    /// It was there before, in other room or with other fields.
    Rebuild,
}

/// A copy of an item that is about to move.
pub(crate) struct Copied<'s> {
    key: [u8; 256],
    key_len: usize,
    place: u32,
    tag: Tag,
    offset: u64,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
    state: ItemState,
    accessed: Seconds,
    value: Scratch<'s>,
}

impl<'s, S: Space> Writer<'s, S> {
    /// Stores an item in room of its own.
    #[inline(never)]
    pub(crate) fn store_anew(&mut self, anew: &Anew<'_, S>) -> Result<(), StoreError> {
        let header_spec = &anew.header_spec;
        let shape = header_spec.shape(anew.source.len());
        self.make_room(anew, shape.units() as u64)?;
        let main = self.bucket_of(header_spec.place);
        // Where there was none there is none now.
        let present =
            anew.replaced.and_then(|_| self.find_tagged(header_spec.key, header_spec.place, anew.tag));
        let slot = match &present {
            Some(present) => Slot::Empty(present.bucket, present.slot),
            None => self.slot_in(main)?,
        };
        let room = self.part.space.take(shape.units() as u64);
        self.write(header_spec, shape, room, &anew.source);
        if let Some(present) = &present {
            account_removed(self, &present.entry, self.why_replaced(&present.entry));
        }
        if let Slot::Displaced(displaced) = &slot {
            self.bury(displaced, Removal::Displaced);
        }
        main.change(|| self.fill(main, &slot, anew.tag, room.0));
        if let Some(present) = &present {
            S::leave(self, present.offset);
        }
        match anew.cause {
            Cause::Store => self.account_stored(shape.size()),
            Cause::Rebuild => self.account_added(shape.size()),
        }
        self.after_store();
        Ok(())
    }

    /// Sees to it that there is room for an item of so many words, and a slot.
    fn make_room(&mut self, anew: &Anew<'_, S>, units: u64) -> Result<(), StoreError> {
        let place = anew.header_spec.place;
        if anew.replaced.is_none() && !self.has_slot(self.bucket_of(place)) {
            let index = &self.part.index;
            self.remove_dead_of(index.bucket_of(place, index.extent()));
        }
        self.replaced = anew.replaced;
        let found = S::find_room(self, units);
        let is_taken = self.replaced.take() != anew.replaced;
        if found.is_err() && is_taken {
            // Its room was not enough, and nothing replaces it.
            self.counters.add(Counter::Evictions, 1);
        }
        found
    }

    /// Why an item goes that another replaces.
    pub(crate) fn why_replaced(&self, entry: &Entry<'_>) -> Removal {
        if entry.expiry().passed(self.now) { Removal::Dead } else { Removal::Gone }
    }

    /// A copy of an item.
    pub(crate) fn copied(&self, found: Found<'_>) -> Copied<'s> {
        let (entry, meta) = (found.entry, found.entry.meta());
        let mut key = [0; 256];
        let key_len = entry.key(&mut key).len();
        Copied {
            key,
            key_len,
            place: entry.place(),
            tag: found.bucket.tag(found.slot),
            offset: found.offset,
            flags: meta.flags,
            expiry: meta.expiry,
            cas: meta.cas,
            state: meta.state,
            accessed: meta.last_access,
            value: self.joined(&[], Some(entry), &[]),
        }
    }

    /// Stores an item again, of which this is a copy. False if there is no room for it.
    pub(crate) fn move_to_tail(&mut self, copied: Copied<'s>) -> bool {
        let header_spec = ItemHeaderSpec {
            key: &copied.key[..copied.key_len],
            place: copied.place,
            flags: copied.flags,
            expiry: copied.expiry,
            cas: copied.cas,
            state: copied.state,
            accessed: copied.accessed,
            always: S::FIELDS,
        };
        let (tag, replaced) = (copied.tag, Some(copied.offset));
        let source = Source::Scratch(copied.value);
        self.store_anew(&Anew { header_spec, tag, source, replaced, cause: Cause::Rebuild }).is_ok()
    }
}
