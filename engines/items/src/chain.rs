//! Values that lie in several chunks.
//!
//! ```text
//! head:          | header | … | total length, next chunk | … | key | value … |
//! continuation:  | header with key length 0 | next chunk | head | value … |
//! ```
//!
//! A continuation knows its head, so that a hand that comes by it can evict the item.

use crate::item::{Fields, Header, Item, Shape};
use guira_contract::{ItemState, ItemView, Meta};
use guira_memory::slab::{ClassId, HandedOut};
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// Bytes before the value in a chunk that continues a chain.
pub const CONTINUATION: usize = 3 * WORD;

/// All chunks of a chain but the last hold more of the value than this …
const PART_LEAST: usize = 4096;
/// … and no item has more of them than this.
const PARTS_MAX: usize = (1 << 30) / PART_LEAST;

/// Writes what comes before the value in the chunk at `at`, which continues the item at `head` with `length` bytes and is followed
/// by `next`. The chunk belongs to the caller.
///
/// # Panics
/// If it does not lie in the Region.
pub fn write_continuation(region: &Region, at: Offset, length: usize, next: Option<Offset>, head: Offset) {
    let shape = Shape { key_len: 0, value_len: length as u32, fields: Fields::default() };
    let header = Header::new(shape, ItemState::NONE, 0, Seconds(0));
    words::store(region.word(at), header.0);
    words::store(region.word(at.plus(WORD)), next.map_or(0, |next| next.bytes() as u64));
    words::store(region.word(at.plus(2 * WORD)), head.bytes() as u64);
}

/// What the chunk says that continues a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The item that it belongs to.
    pub head: Offset,
    /// Bytes of the value in it.
    pub length: usize,
    /// The next chunk; place 0 if there is none.
    pub next: Offset,
}

impl Continuation {
    /// What the chunk at `at` says; `None` if it continues no chain, nor did so before it was freed.
    pub fn at(region: &Region, at: Offset) -> Option<Self> {
        let words = region.words(at, 3)?;
        let header = Header(words::load(&words[0]));
        let shape = header.shape();
        (shape.key_len == 0 && header != Header::NONE).then(|| Continuation {
            head: Offset::from_bytes(words::load(&words[2])),
            length: shape.value_len as usize,
            next: Offset::from_bytes(words::load(&words[1])),
        })
    }
}

/// Claims the other chunks of a long item, and appends them to `claimed`. False if they do not make up the rest of its value, or one is longer than what `room_in` says for
/// its class. The memory is not in use.
pub fn claim_chain(
    region: &Region,
    chunks: &mut HandedOut<'_>,
    item: &Item<'_>,
    room_in: impl Fn(ClassId) -> usize,
    claimed: &mut Vec<Offset>,
) -> bool {
    let Some(chain) = item.chain() else {
        return true;
    };
    let mut length = item.shape().value_len as usize;
    let mut next = chain.next;
    while next.bytes() != 0 {
        let Some(class) = chunks.claim(next) else {
            return false;
        };
        claimed.push(next);
        let part = Continuation::at(region, next).filter(|part| part.head == item.at);
        let Some(part) = part.filter(|part| CONTINUATION + part.length <= room_in(class)) else {
            return false;
        };
        length += part.length;
        next = part.next;
    }
    length == item.value_len()
}

/// The parts of an item's value: where each lies, and how long it is. The item must not change meanwhile.
#[derive(Debug)]
pub struct Pieces<'a> {
    region: &'a Region,
    first: Option<(Offset, usize)>,
    next: Offset,
}

impl<'a> Pieces<'a> {
    /// The parts of the value of `item`.
    pub fn of(region: &'a Region, item: &Item<'_>) -> Self {
        let start = item.shape().value_at();
        // Only a value that begins at a multiple of 8 is ever chained or pinned.
        let first = Some((item.at.plus(start), item.shape().value_len as usize));
        Pieces { region, first, next: item.chain().map_or(Offset::from_bytes(0), |chain| chain.next) }
    }

    /// Copies a part of the value of `item`, from byte `from` of it on, to `out`. Where the value ends, the rest of `out` stays as it was.
    pub fn copy_value(region: &'a Region, item: &Item<'_>, from: usize, out: &mut [u8]) {
        if item.chain().is_none() {
            return item.copy_value(from, out);
        }
        let (mut before, mut done) = (0, 0);
        for (place, length) in Pieces::of(region, item) {
            let skip = (from + done).saturating_sub(before);
            if skip < length && done < out.len() {
                let part = (length - skip).min(out.len() - done);
                let words = region.words(place, length.div_ceil(WORD)).expect("a chunk lies in the Region");
                words::copy_out(words, skip, &mut out[done..done + part]);
                done += part;
            }
            before += length;
        }
    }

    /// The chunks of an item after its first.
    pub fn chunks(region: &'a Region, item: &Item<'_>) -> Vec<Offset> {
        let mut chunks = Vec::new();
        let mut next = item.chain().map_or(Offset::from_bytes(0), |chain| chain.next);
        while next.bytes() != 0 {
            chunks.push(next);
            next = Offset::from_bytes(words::load(region.word(next.plus(WORD))));
        }
        chunks
    }

    /// Whether the chunk at `at` is one of the item's. It may change meanwhile: then the answer is worth nothing.
    pub fn has(region: &Region, item: &Item<'_>, at: Offset) -> bool {
        let Some(chain) = item.chain() else {
            return false;
        };
        let mut next = chain.next;
        // A chain that changes can lead in circles, and its length be anything.
        for _ in 0..(chain.total / PART_LEAST).min(PARTS_MAX) + 2 {
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
    pub fn head_of(region: &Region, at: Offset) -> Option<Offset> {
        Continuation::at(region, at).map(|part| part.head)
    }
}

/// An item that nobody changes meanwhile, with all of its value.
#[derive(Debug)]
pub struct HeldItem<'a> {
    region: &'a Region,
    item: Item<'a>,
}

impl<'a> HeldItem<'a> {
    /// The item, which lies in `region`. The caller holds its counters, or has announced it.
    pub fn new(region: &'a Region, item: Item<'a>) -> Self {
        HeldItem { region, item }
    }
}

impl ItemView for HeldItem<'_> {
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
        self.item.meta()
    }

    fn copy_value(&self, from: usize, out: &mut [u8]) {
        Pieces::copy_value(self.region, &self.item, from, out);
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
