//! Values that lie in several chunks, and values that arrive in pieces.
//!
//! An item that does not fit the largest chunk begins in one of these and goes on in others:
//!
//! ```text
//! head:          | header | … | total length, next chunk | … | key | value … |
//! continuation:  | header with key length 0 | next chunk | head | value … |
//! ```
//!
//! A continuation knows its head, so that a hand that comes by it can evict the item.

use crate::core::Core;
use crate::index::Scheme;
use crate::item::{Blueprint, Chain, Fields, Header, Item, Shape};
use crate::session::SlabSession;
use guira_contract::{Room, ValueDraft};
use guira_memory::{Offset, Region};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};
use std::sync::Arc;

/// Bytes before the value in a chunk that continues a chain.
const CONTINUATION: usize = 3 * WORD;

/// Room for one item whose value is not there yet.
#[derive(Debug)]
pub struct SlabDraft<X: Scheme> {
    core: Arc<Core<X>>,
    pub(crate) shape: Shape,
    pub(crate) total: usize,
    arrived: usize,
    /// The chunks, and how much of the value goes into each. Empty once the draft has become an item.
    chunks: Vec<(Offset, usize)>,
    /// The chunk that is being filled, and how full it is.
    filling: (usize, usize),
    /// What of it counts in [`Core::arriving`].
    counted: u64,
}

/// Values that are still arriving may take one part in so many of memory: who announces values and does not send them shall
/// not keep everybody else from storing.
const ARRIVING_PART: usize = 2;

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
            let next = chunks.get(index + 1).map_or(0, |(at, _)| at.bytes() as u64);
            let shape = Shape { key_len: 0, value_len: *length as u32, fields: Fields::default() };
            words::store(self.core.region.word(*at), Header::continuation(shape).0);
            words::store(self.core.region.word(at.plus(WORD)), next);
            words::store(self.core.region.word(at.plus(2 * WORD)), head.bytes() as u64);
        }
        blueprint.write(&self.core.region, head, self.shape, chain, now);
        head
    }
}

impl<X: Scheme> ValueDraft for SlabDraft<X> {
    fn append(&mut self, mut bytes: &[u8]) {
        assert!(bytes.len() <= self.missing(), "more than the value has room for");
        self.arrived += bytes.len();
        while !bytes.is_empty() {
            let (index, full) = self.filling;
            let part = bytes.len().min(self.chunks[index].1 - full);
            words::copy_in(self.words(index), self.value_at(index) + full, &bytes[..part]);
            bytes = &bytes[part..];
            self.filling = if full + part == self.chunks[index].1 && index + 1 < self.chunks.len() {
                (index + 1, 0)
            } else {
                (index, full + part)
            };
        }
    }

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
    /// Room for an item with a key of `key_len` bytes, in one chunk if it fits. None if there is no memory.
    pub(crate) fn new_draft(&mut self, key_len: usize, room: &Room) -> Option<SlabDraft<X>> {
        let fields = Blueprint::fields(room.flags, room.expiry, room.cas);
        let counted = room.value_len as u64;
        let limit = (self.core.budget.limit() / ARRIVING_PART) as u64;
        // Relaxed: a limit that two may pass together is as good.
        if self.core.arriving.load(Ordering::Relaxed) + counted > limit {
            return None;
        }
        let now = self.core.time_seen();
        let mut draft = self.draft_with(key_len, fields, room.value_len, now)?;
        self.core.arriving.fetch_add(counted, Ordering::Relaxed);
        draft.counted = counted;
        Some(draft)
    }

    /// The same with the fields given.
    pub(crate) fn draft_with(
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
        let mut draft = SlabDraft {
            core: self.core.clone(),
            shape,
            total: value_len,
            arrived: 0,
            chunks: Vec::new(),
            filling: (0, 0),
            counted: 0,
        };
        let head = shape.value_len as usize;
        draft.chunks.push((self.take_chunk(shape.size(), now)?, head));
        let mut rest = value_len - head;
        while rest > 0 {
            let part = rest.min(largest - CONTINUATION);
            draft.chunks.push((self.take_chunk(part + CONTINUATION, now)?, part));
            rest -= part;
        }
        // Release fence: pairs with the Acquire fence of a reader's validation. Whoever sees what is written into
        // these chunks from now on also sees the version under which their last items were unlinked.
        fence(Ordering::Release);
        Some(draft)
    }
}

impl Header {
    /// The header of a chunk that continues a chain.
    fn continuation(shape: Shape) -> Self {
        Header::new(shape, guira_contract::ItemState::NONE, 0, Seconds(0))
    }
}

/// The parts of an item's value: where each lies, and how long it is. The item must not change meanwhile.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    region: &'a Region,
    first: Option<(Offset, usize)>,
    next: Offset,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(region: &'a Region, item: &Item<'_>) -> Self {
        let start = item.shape().value_at();
        // Only a value that begins at a multiple of 8 is ever chained or pinned.
        let first = Some((item.at.plus(start), item.shape().value_len as usize));
        Pieces { region, first, next: item.chain().map_or(Offset::from_bytes(0), |chain| chain.next) }
    }

    /// The chunks of an item after its first.
    pub(crate) fn chunks(region: &'a Region, item: &Item<'_>) -> Vec<Offset> {
        let mut chunks = Vec::new();
        let mut next = item.chain().map_or(Offset::from_bytes(0), |chain| chain.next);
        while next.bytes() != 0 {
            chunks.push(next);
            next = Offset::from_bytes(words::load(region.word(next.plus(WORD))));
        }
        chunks
    }

    /// Whether the chunk at `at` is one of the item's. It may change meanwhile: then the answer is worth nothing.
    pub(crate) fn has(region: &Region, item: &Item<'_>, at: Offset) -> bool {
        let Some(chain) = item.chain() else {
            return false;
        };
        let mut next = chain.next;
        // A chain that changes can lead in circles.
        for _ in 0..chain.total / WORD {
            if next == at || next.bytes() == 0 {
                break;
            }
            let Some(words) = region.words(next, 2) else {
                return false;
            };
            next = Offset::from_bytes(words::load(&words[1]));
        }
        next == at
    }

    /// If the chunk at `at` continues a chain, or did so before it was freed, the item that it belongs to.
    pub(crate) fn head_of(region: &Region, at: Offset) -> Option<Offset> {
        let words = region.words(at, 3)?;
        let header = Header(words::load(&words[0]));
        (header.shape().key_len == 0 && header != Header::NONE)
            .then(|| Offset::from_bytes(words::load(&words[2])))
    }
}

impl Iterator for Pieces<'_> {
    type Item = (Offset, usize);

    fn next(&mut self) -> Option<(Offset, usize)> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.next.bytes() == 0 {
            return None;
        }
        let at = self.next;
        let header = Header(words::load(self.region.word(at)));
        self.next = Offset::from_bytes(words::load(self.region.word(at.plus(WORD))));
        Some((at.plus(CONTINUATION), header.shape().value_len as usize))
    }
}
