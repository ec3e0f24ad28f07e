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
    /// What the chunk at `at` says; `None` if it continues no chain.
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
            if done == out.len() {
                return;
            }
            let skip = (from + done).saturating_sub(before);
            if skip < length {
                let part = (length - skip).min(out.len() - done);
                let words =
                    region.words(place, length.div_ceil(WORD)).expect("the chunk is inside the region");
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

    /// The chunks after the first of an item that is being freed. None of them says any more that it continues the item: the next item in the first chunk would
    /// be taken for the one that they belong to.
    pub fn freed(region: &'a Region, item: &Item<'_>) -> Vec<Offset> {
        let chunks = Pieces::chunks(region, item);
        chunks.iter().for_each(|at| forget_chain(region, *at));
        chunks
    }

    /// Has the part of `item` that lies in the chunk at `at` lie in the chunk at `to`, which has room for it. The one at `at` is to be freed then. `before` is the chunk
    /// before it, as [`Pieces::before`] has found it. False if `before` no longer leads there. The caller holds the item, which has no readers.
    pub fn move_part(
        region: &'a Region,
        item: &Item<'_>,
        (before, at): (Offset, Offset),
        to: Offset,
    ) -> bool {
        let link = if before == item.at { item.link() } else { Some(region.word(before.plus(WORD))) };
        // A freed chunk names no item, so what names this one is a part of it.
        let is_part =
            before == item.at || Continuation::at(region, before).is_some_and(|part| part.head == item.at);
        let Some(link) = link.filter(|link| is_part && words::load(link) == at.bytes() as u64) else {
            return false;
        };
        let length = Header(words::load(region.word(at))).shape().value_len as usize;
        let words = |at| {
            region.words(at, (CONTINUATION + length).div_ceil(WORD)).expect("the chunk is inside the region")
        };
        words(to).iter().zip(words(at)).for_each(|(to, from)| words::store(to, words::load(from)));
        // The last store: whoever goes on with the Region after this process has died finds the one part or the other.
        words::store(link, to.bytes() as u64);
        forget_chain(region, at);
        true
    }

    /// All chunks of `item`, which was copied from another place, say that they belong to it. The caller holds it, and nobody reads it.
    pub fn follow_head(region: &'a Region, item: &Item<'_>) {
        for at in Pieces::chunks(region, item) {
            words::store(region.word(at.plus(2 * WORD)), item.at.bytes() as u64);
        }
    }

    /// The item that the chunk at `at` belongs to, which begins there or has it as a later part; `item_at` finds the item that begins in a chunk. `None` if it
    /// belongs to none. A free chunk looks like the item that began there last, so the caller has to ask the table whether that is there. The item may
    /// change meanwhile: then the answer is worth nothing.
    pub fn owner_of<'i>(
        region: &Region,
        at: Offset,
        item_at: impl Fn(Offset) -> Option<Item<'i>>,
    ) -> Option<Item<'i>> {
        match Continuation::at(region, at) {
            None => item_at(at),
            // In a Region that another process has left, a free chunk may still name an item.
            Some(part) => item_at(part.head).filter(|item| Pieces::before(region, item, at).is_some()),
        }
    }

    /// The chunk of the item's chain that leads to the one at `at`; `None` if none does. If another thread changes the item, the result is only a hint.
    pub fn before(region: &Region, item: &Item<'_>, at: Offset) -> Option<Offset> {
        let chain = item.chain()?;
        let (mut before, mut next) = (item.at, chain.next);
        // A chain that changes can lead in circles, and its length be anything.
        for _ in 0..(chain.total / PART_LEAST).min(PARTS_MAX) + 2 {
            if next == at {
                return Some(before);
            }
            let part = Continuation::at(region, next).filter(|part| part.head == item.at)?;
            (before, next) = (next, part.next);
        }
        None
    }
}

/// The chunk at `at`, which is about to be freed, continues no chain any more.
pub(crate) fn forget_chain(region: &Region, at: Offset) {
    words::store(region.word(at), Header::NONE.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{BEHIND_CHUNKS, Chain, ItemHeaderSpec};
    use guira_contract::Expiry;
    use guira_memory::HugePages;

    const NOW: Seconds = Seconds(1000);

    fn region() -> Region {
        Region::anonymous(BEHIND_CHUNKS + (1 << 20), HugePages::No).unwrap()
    }

    fn place(number: u64) -> Offset {
        Offset::from_bytes(number * 8192)
    }

    fn item_at<'r>(region: &'r Region) -> impl Fn(Offset) -> Option<Item<'r>> {
        move |at| Item::at(region, at, NOW)
    }

    /// An item that begins in the chunk `head`, with `parts` after it, of 8000 bytes each.
    fn write(region: &Region, key: &[u8], head: u64, parts: &[u64]) {
        let fields = if parts.is_empty() { Fields::default() } else { Fields::CHAIN };
        let shape = Shape { key_len: key.len() as u8, value_len: 8000, fields };
        for (index, part) in parts.iter().enumerate() {
            let next = parts.get(index + 1).map(|next| place(*next));
            write_continuation(region, place(*part), 8000, next, place(head));
        }
        let next = parts.first().map_or(Offset::from_bytes(0), |next| place(*next));
        let chain = (!parts.is_empty()).then_some(Chain { total: 8000 * (1 + parts.len()), next });
        let header_spec = ItemHeaderSpec {
            key,
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            state: ItemState::NONE,
            generation: 0,
            accessed: NOW,
        };
        header_spec.write(region, place(head), shape, chain, NOW);
    }

    fn owner(region: &Region, number: u64) -> Option<Offset> {
        Pieces::owner_of(region, place(number), item_at(region)).map(|item| item.at)
    }

    #[test]
    fn every_chunk_of_an_item_belongs_to_it_until_it_is_freed() {
        let region = region();
        write(&region, b"long", 1, &[2, 3, 4]);
        write(&region, b"short", 5, &[]);
        assert_eq!([1, 2, 3, 4].map(|number| owner(&region, number)), [Some(place(1)); 4]);
        assert_eq!((owner(&region, 5), owner(&region, 6)), (Some(place(5)), None));
        let item = Item::at(&region, place(1), NOW).unwrap();
        assert_eq!(Pieces::freed(&region, &item), [2, 3, 4].map(place));
        write(&region, b"other", 1, &[7, 8]);
        assert_eq!([2, 3, 4].map(|number| owner(&region, number)), [None; 3]);
        assert_eq!([7, 8].map(|number| owner(&region, number)), [Some(place(1)); 2]);
    }

    #[test]
    fn every_part_of_an_item_can_be_moved_and_so_can_its_first_chunk() {
        let region = region();
        write(&region, b"long", 1, &[2, 3, 4]);
        for (place_of, number) in [2, 3, 4].into_iter().zip(0_u8..) {
            let word = region.word(place(place_of).plus(CONTINUATION + 80));
            words::store(word, u64::from_le_bytes([number; 8]));
        }
        let item = Item::at(&region, place(1), NOW).unwrap();
        for (from, to) in [(3, 7), (2, 6), (4, 8)] {
            let before = Pieces::before(&region, &item, place(from)).unwrap();
            assert!(Pieces::move_part(&region, &item, (before, place(from)), place(to)));
            assert!(!Pieces::move_part(&region, &item, (before, place(from)), place(9)));
            assert_eq!((owner(&region, from), owner(&region, to)), (None, Some(place(1))));
            assert_eq!(Pieces::before(&region, &item, place(from)), None);
        }
        let item = Item::at(&region, place(1), NOW).unwrap();
        assert_eq!(Pieces::chunks(&region, &item), [6, 7, 8].map(place));
        write_continuation(&region, place(10), 8, Some(place(7)), place(5));
        assert!(!Pieces::move_part(&region, &item, (place(10), place(7)), place(9)), "another item's part");
        for (part, number) in [1, 2, 3].into_iter().zip(0..) {
            let mut byte = [0];
            Pieces::copy_value(&region, &item, 8000 * part + 80, &mut byte);
            assert_eq!(byte, [number]);
        }
        // The bytes end in the second part, so the link behind it, which leads nowhere, is not followed.
        let link = region.word(place(7).plus(WORD));
        let next = words::load(link);
        words::store(link, u64::MAX << 3);
        let mut bytes = [0; 200];
        Pieces::copy_value(&region, &item, 7900, &mut bytes);
        assert_eq!(bytes[180], 0, "byte 80 of the first part");
        words::store(link, next);
        write(&region, b"long", 9, &[6, 7, 8]);
        [6, 7, 8]
            .map(place)
            .iter()
            .for_each(|at| words::store(region.word(at.plus(16)), place(1).bytes() as u64));
        Pieces::follow_head(&region, &Item::at(&region, place(9), NOW).unwrap());
        assert_eq!([6, 7, 8].map(|number| owner(&region, number)), [Some(place(9)); 3]);
    }

    /// A process that ended, or an older version, may have left chunks that still name an item.
    #[test]
    fn a_chunk_that_names_an_item_which_does_not_lead_to_it_belongs_to_none() {
        let region = region();
        write(&region, b"old", 1, &[2, 3]);
        for parts in [&[][..], &[4, 5], &[3]] {
            write(&region, b"new", 1, parts);
            assert_eq!(owner(&region, 2), None, "{parts:?}");
        }
        assert_eq!(owner(&region, 3), Some(place(1)));
        // Chunks that lead in a circle.
        write_continuation(&region, place(3), 8000, Some(place(4)), place(1));
        write_continuation(&region, place(4), 8000, Some(place(3)), place(1));
        assert_eq!(owner(&region, 2), None);
    }
}
