//! Values that arrive in pieces, and values that lie in several chunks: an item that does not fit the largest chunk begins in one of these and goes on
//! in others ([`guira_items::Pieces`]).

use crate::core::Core;
use crate::session::FleecSession;
use guira_contract::{Room, ValueDraft};
use guira_items::{Blueprint, CONTINUATION, Chain, Fields, Shape, write_continuation};
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};
use std::sync::Arc;

/// Of memory, one part in so many is kept from values that are still arriving: who sends values slowly shall not keep everybody else
/// from storing.
const KEPT_PART: usize = 5;

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
    shape: Shape,
    total: usize,
    arrived: usize,
    /// How much of it there are chunks for.
    reserved: usize,
    /// The chunks, and how much of the value goes into each. Empty once the draft has become an item.
    chunks: Vec<(Offset, usize)>,
    /// The chunk that is being filled, and how full it is.
    filling: (usize, usize),
    /// What of it counts in [`Core::arriving`].
    counted: u64,
}

impl FleecDraft {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        Fields(self.shape.fields.0 & !Fields::CHAIN.0) == fields && self.total == value_len
    }

    /// Whether a client sends the value.
    pub(crate) fn is_the_clients(&self) -> bool {
        self.purpose == Purpose::Arriving
    }

    /// Bytes of the value from the start of chunk `index`.
    fn value_at(&self, index: usize) -> usize {
        if index == 0 { self.shape.value_at() } else { CONTINUATION }
    }

    /// The words of chunk `index` up to the end of its part of the value.
    fn words(&self, index: usize) -> &[AtomicU64] {
        let (at, length) = self.chunks[index];
        let count = (self.value_at(index) + length).div_ceil(WORD);
        self.core.region.words(at, count).expect("a chunk lies in the Region")
    }

    /// Forgets what has arrived.
    pub(crate) fn begin_anew(&mut self) {
        self.arrived = 0;
        self.filling = (0, 0);
    }

    /// Appends bytes that there are chunks for.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        assert!(self.arrived + bytes.len() <= self.reserved, "more than there is room for");
        self.arrived += bytes.len();
        while !bytes.is_empty() {
            if self.filling.1 == self.chunks[self.filling.0].1 {
                self.filling = (self.filling.0 + 1, 0);
            }
            let (index, full) = self.filling;
            let part = bytes.len().min(self.chunks[index].1 - full);
            words::copy_in(self.words(index), self.value_at(index) + full, &bytes[..part]);
            bytes = &bytes[part..];
            self.filling = (index, full + part);
        }
    }

    /// Writes everything but the value, so that the draft can be put into the table, and returns where the item is.
    pub(crate) fn write(&self, blueprint: &Blueprint<'_>, now: Seconds) -> Offset {
        debug_assert_eq!(self.arrived, self.total, "the whole value has arrived");
        let place = |index: usize| self.chunks.get(index).map(|(at, _)| *at);
        let (head, _) = self.chunks[0];
        let chain = self
            .shape
            .fields
            .has(Fields::CHAIN)
            .then(|| Chain { total: self.total, next: place(1).unwrap_or(Offset::from_bytes(0)) });
        for (index, (at, length)) in self.chunks.iter().enumerate().skip(1) {
            write_continuation(&self.core.region, *at, *length, place(index + 1), head);
        }
        blueprint.write(&self.core.region, head, self.shape, chain, now);
        head
    }

    /// It is in the table: its chunks are the item's.
    pub(crate) fn published(mut self) {
        self.chunks.clear();
    }
}

impl ValueDraft for FleecDraft {
    fn missing(&self) -> usize {
        self.total - self.arrived
    }

    fn value_len(&self) -> usize {
        self.total
    }
}

impl Drop for FleecDraft {
    fn drop(&mut self) {
        self.core.arriving.fetch_sub(self.counted, Ordering::Relaxed);
        for (at, _) in std::mem::take(&mut self.chunks) {
            self.core.memory.give(at);
        }
    }
}

impl FleecSession {
    /// A draft of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
    pub(crate) fn new_draft(&mut self, key_len: usize, room: &Room) -> Option<FleecDraft> {
        let fields = Blueprint::fields(room.flags, room.expiry, room.cas);
        let now = self.core.time_seen();
        let mut draft = self.begin_draft(key_len, fields, room.value_len, now, Purpose::Arriving)?;
        let reserved = draft.reserved;
        self.count_arriving(&mut draft, reserved)?;
        Some(draft)
    }

    /// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
    pub(crate) fn extend_draft(&mut self, draft: &mut FleecDraft, mut bytes: &[u8]) -> bool {
        assert!(bytes.len() <= draft.missing(), "more than the value has room for");
        loop {
            let part = bytes.len().min(draft.reserved - draft.arrived);
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
        while draft.reserved < draft.total {
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
        let mut shape = Shape { key_len: key_len as u8, value_len: value_len.min(largest) as u32, fields };
        if shape.size() > largest {
            shape.fields = shape.fields.with(Fields::CHAIN);
            shape.value_len = (largest - shape.value_at()) as u32;
        }
        let head = shape.value_len as usize;
        let first = self.take_chunk(shape.size(), now)?;
        Some(FleecDraft {
            core: self.core.clone(),
            purpose,
            shape,
            total: value_len,
            arrived: 0,
            reserved: head,
            chunks: vec![(first, head)],
            filling: (0, 0),
            counted: 0,
        })
    }

    /// Adds a chunk to a draft that lacks one. Returns how much of the value goes into it.
    fn add_chunk(&mut self, draft: &mut FleecDraft, now: Seconds) -> Option<usize> {
        let largest = self.core.memory.classes().largest_item();
        let part = (draft.total - draft.reserved).min(largest - CONTINUATION);
        let at = self.take_chunk(part + CONTINUATION, now)?;
        draft.chunks.push((at, part));
        draft.reserved += part;
        Some(part)
    }

    /// A chunk for `size` bytes.
    fn take_chunk(&mut self, size: usize, now: Seconds) -> Option<Offset> {
        let class = self.core.memory.classes().class_for(size)?;
        if self.caches[usize::from(class.0)].is_empty() {
            self.refill(class, now).ok()?;
        }
        let taken = self.caches[usize::from(class.0)].pop();
        // Release fence: pairs with the Acquire fence of `find`: see `crate::update`.
        fence(Ordering::Release);
        taken
    }
}
