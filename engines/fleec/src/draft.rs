//! Values that arrive in pieces, and values that lie in several chunks: an item that does not fit the largest chunk begins in one of these and goes on
//! in others ([`guira_items::Pieces`]).

use crate::core::Core;
use crate::reclaim::Taking;
use crate::session::FleecSession;
use guira_contract::{Room, ValueDraft};
use guira_items::{Blueprint, Fields, Filling, KEPT_PART};
use guira_memory::Offset;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Who a draft was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A client, who sends the value.
    Arriving,
    /// A value that the engine puts together.
    Joining,
}

/// Room for one item whose value is not there yet.
#[derive(Debug)]
pub struct FleecDraft {
    core: Arc<Core>,
    purpose: Purpose,
    /// Without chunks once the draft has become an item.
    filling: Filling,
    /// What of it counts in [`Core::arriving`].
    counted: u64,
}

impl FleecDraft {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.filling.is_for(fields, value_len)
    }

    /// Whether a client sends the value.
    pub(crate) fn is_the_clients(&self) -> bool {
        self.purpose == Purpose::Arriving
    }

    /// Forgets what has arrived.
    pub(crate) fn begin_anew(&mut self) {
        self.filling.begin_anew();
    }

    /// Appends bytes that there are chunks for.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.filling.append(&self.core.region, bytes);
    }

    /// Writes everything but the value, so that the draft can be put into the table, and returns where the item is.
    pub(crate) fn write(&self, blueprint: &Blueprint<'_>, now: Seconds) -> Offset {
        self.filling.write(&self.core.region, blueprint, now)
    }

    /// It is in the table: its chunks are the item's.
    pub(crate) fn published(mut self) {
        drop(self.filling.take_chunks());
    }
}

impl ValueDraft for FleecDraft {
    fn missing(&self) -> usize {
        self.filling.missing()
    }

    fn value_len(&self) -> usize {
        self.filling.total()
    }
}

impl Drop for FleecDraft {
    fn drop(&mut self) {
        self.core.arriving.fetch_sub(self.counted, Ordering::Relaxed);
        self.filling.take_chunks().for_each(|at| self.core.memory.give(at));
    }
}

impl FleecSession {
    /// A draft of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
    pub(crate) fn new_draft(&mut self, key_len: usize, room: &Room) -> Option<FleecDraft> {
        let fields = self.core.fields_of(room);
        let now = self.core.time_seen();
        let mut draft = self.begin_draft(key_len, fields, room.value_len, now, Purpose::Arriving)?;
        let reserved = draft.filling.reserved();
        self.count_arriving(&mut draft, reserved)?;
        Some(draft)
    }

    /// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
    pub(crate) fn extend_draft(&mut self, draft: &mut FleecDraft, mut bytes: &[u8]) -> bool {
        assert!(bytes.len() <= draft.missing(), "more than the value has room for");
        loop {
            let part = bytes.len().min(draft.filling.room());
            draft.append(&bytes[..part]);
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return true;
            }
            let now = self.core.time_seen();
            let more = self.add_chunk(draft, now).and_then(|part| self.count_arriving(draft, part));
            if more.is_none() {
                return false;
            }
        }
    }

    /// Counts `bytes` more of the draft as arriving. None if that is too much.
    fn count_arriving(&self, draft: &mut FleecDraft, bytes: usize) -> Option<()> {
        let limit = self.core.budget.limit();
        let most = (limit - limit / KEPT_PART) as u64;
        // Relaxed: a limit that two may pass together is as good.
        let before = self.core.arriving.fetch_add(bytes as u64, Ordering::Relaxed);
        draft.counted += bytes as u64;
        (before + bytes as u64 <= most).then_some(())
    }

    /// The same with the fields given, and with memory for all of it.
    pub(crate) fn draft_with(
        &mut self,
        key_len: usize,
        fields: Fields,
        value_len: usize,
        now: Seconds,
    ) -> Option<FleecDraft> {
        let mut draft = self.begin_draft(key_len, fields, value_len, now, Purpose::Joining)?;
        while draft.filling.reserved() < draft.filling.total() {
            self.add_chunk(&mut draft, now)?;
        }
        Some(draft)
    }

    /// A draft that has its first chunk.
    fn begin_draft(
        &mut self,
        key_len: usize,
        fields: Fields,
        value_len: usize,
        now: Seconds,
        purpose: Purpose,
    ) -> Option<FleecDraft> {
        let largest = self.core.memory.classes().largest_item();
        let shape = Filling::shape_of(largest, key_len, fields, value_len);
        let first = self.take_chunk(shape.size(), now)?;
        let filling = Filling::new(shape, value_len, first);
        Some(FleecDraft { core: self.core.clone(), purpose, filling, counted: 0 })
    }

    /// Adds a chunk to a draft that lacks one. Returns how much of the value goes into it.
    fn add_chunk(&mut self, draft: &mut FleecDraft, now: Seconds) -> Option<usize> {
        let largest = self.core.memory.classes().largest_item();
        let (part, size) = draft.filling.next_part(largest);
        let at = self.take_chunk(size, now)?;
        draft.filling.add(at, part);
        Some(part)
    }

    /// A chunk for `size` bytes.
    fn take_chunk(&mut self, size: usize, now: Seconds) -> Option<Offset> {
        let class = self.core.memory.classes().class_for(size)?;
        if self.caches[usize::from(class.0)].is_empty() {
            self.refill(class, Taking::Fresh, now).ok()?;
        }
        let taken = self.caches[usize::from(class.0)].pop();
        // Release fence: pairs with the Acquire fence of `find`: see `crate::update`.
        fence(Ordering::Release);
        taken
    }
}
