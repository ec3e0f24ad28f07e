//! Values that lie in several chunks, and values that arrive in pieces.
//!
//! An item that does not fit the largest chunk begins in one of these and goes on in others: see [`guira_items::Pieces`].

use crate::core::Core;
use crate::index::Scheme;
use crate::session::SlabSession;
use guira_contract::{Room, ValueDraft};
use guira_items::{Blueprint, CONTINUATION, Chain, Fields, Shape, write_continuation};
use guira_memory::Offset;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};
use std::sync::Arc;

/// Room for one item whose value is not there yet.
#[derive(Debug)]
pub struct SlabDraft<X: Scheme> {
    core: Arc<Core<X>>,
    pub(crate) shape: Shape,
    pub(crate) total: usize,
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

/// Of memory, one part in so many is kept from values that are still arriving: who sends values slowly shall not keep everybody else
/// from storing.
const KEPT_PART: usize = 5;

impl<X: Scheme> SlabDraft<X> {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        Fields(self.shape.fields.0 & !Fields::CHAIN.0) == fields && self.total == value_len
    }

    /// Bytes of the value from the start of chunk `index`.
    fn value_at(&self, index: usize) -> usize {
        if index == 0 { self.shape.value_at() } else { CONTINUATION }
    }

    /// The words of chunk `index` up to the end of its part of the value.
    fn words(&self, index: usize) -> &[guira_sync::atomic::AtomicU64] {
        let (at, length) = self.chunks[index];
        let count = (self.value_at(index) + length).div_ceil(WORD);
        self.core.region.words(at, count).expect("a chunk lies in the Region")
    }

    /// Turns the draft into an item by writing everything but the value, and returns where it is.
    pub(crate) fn finish(mut self, blueprint: &Blueprint<'_>, now: Seconds) -> Offset {
        debug_assert_eq!(self.arrived, self.total, "the whole value has arrived");
        let chunks = std::mem::take(&mut self.chunks);
        let (head, _) = chunks[0];
        let chain = self.shape.fields.has(Fields::CHAIN).then(|| Chain {
            total: self.total,
            next: chunks.get(1).map_or(Offset::from_bytes(0), |(at, _)| *at),
        });
        for (index, (at, length)) in chunks.iter().enumerate().skip(1) {
            let next = chunks.get(index + 1).map(|(at, _)| *at);
            write_continuation(&self.core.region, *at, *length, next, head);
        }
        blueprint.write(&self.core.region, head, self.shape, chain, now);
        head
    }
}

impl<X: Scheme> SlabDraft<X> {
    /// Appends bytes that there are chunks for.
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
}

impl<X: Scheme> ValueDraft for SlabDraft<X> {
    fn missing(&self) -> usize {
        self.total - self.arrived
    }

    fn value_len(&self) -> usize {
        self.total
    }
}

impl<X: Scheme> Drop for SlabDraft<X> {
    fn drop(&mut self) {
        self.core.arriving.fetch_sub(self.counted, Ordering::Relaxed);
        for (at, _) in std::mem::take(&mut self.chunks) {
            self.core.give_chunk(at);
        }
    }
}

impl<X: Scheme> SlabSession<X> {
    /// A draft of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
    pub(crate) fn new_draft(&mut self, key_len: usize, room: &Room) -> Option<SlabDraft<X>> {
        let fields = Blueprint::fields(room.flags, room.expiry, room.cas);
        let now = self.core.time_seen();
        let mut draft = self.begin_draft(key_len, fields, room.value_len, now)?;
        let reserved = draft.reserved;
        self.count_arriving(&mut draft, reserved)?;
        Some(draft)
    }

    /// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
    pub(crate) fn extend_draft(&mut self, draft: &mut SlabDraft<X>, mut bytes: &[u8]) -> bool {
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
    fn count_arriving(&self, draft: &mut SlabDraft<X>, bytes: usize) -> Option<()> {
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
    ) -> Option<SlabDraft<X>> {
        let mut draft = self.begin_draft(key_len, fields, value_len, now)?;
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
    ) -> Option<SlabDraft<X>> {
        let largest = self.core.memory.classes().largest_item();
        let mut shape = Shape { key_len: key_len as u8, value_len: value_len.min(largest) as u32, fields };
        if shape.size() > largest {
            shape.fields = shape.fields.with(Fields::CHAIN);
            shape.value_len = (largest - shape.value_at()) as u32;
        }
        let head = shape.value_len as usize;
        let first = self.take_chunk(shape.size(), now)?;
        fence_after_taking();
        Some(SlabDraft {
            core: self.core.clone(),
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
    fn add_chunk(&mut self, draft: &mut SlabDraft<X>, now: Seconds) -> Option<usize> {
        let largest = self.core.memory.classes().largest_item();
        let part = (draft.total - draft.reserved).min(largest - CONTINUATION);
        let at = self.take_chunk(part + CONTINUATION, now)?;
        fence_after_taking();
        draft.chunks.push((at, part));
        draft.reserved += part;
        Some(part)
    }
}

/// Release fence: pairs with the Acquire fence of a reader's validation. Whoever sees what is written into a chunk from now on also sees the
/// version under which its last item was unlinked.
fn fence_after_taking() {
    fence(Ordering::Release);
}
