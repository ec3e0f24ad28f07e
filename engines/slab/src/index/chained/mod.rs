//! Chaining, as memcached does it: a bucket leads to the newest item of its chain, and the word before each item to the
//! next older one. With one and a half items to a bucket at the most, a lookup looks at little more than one.
//!
//! memcached's entries are bare pointers; here 24 bits of the key's hash stand beside the place of the item that a word
//! leads to, so that an item that is passed by costs its link alone, not the comparison of keys.

use super::scheme::{First, Neighbour, Scheme, SearchLimits};
use super::table::Table;
use guira_contract::KeyHash;
use guira_memory::{Offset, Region};
use guira_sync::atomic::AtomicU64;
use guira_sync::version::Versions;
use guira_sync::words::{self, WORD};
use std::cell::Cell;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chained;

/// The bucket of a key, and what its entry is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainedPlace {
    bucket: u32,
    tag: u32,
}

/// A word that leads to an item: a bucket, or the link before another item.
///
/// ```text
///  63      40 39                    0
/// | tag      | place, in 8 bytes     |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link(u64);

const TAG_SHIFT: u32 = 40;
const TAG_MASK: u32 = (1 << (64 - TAG_SHIFT)) - 1;

/// A search validates what it sees after this many items.
const STRIDE: u32 = 64;

impl Link {
    fn to(item: Offset, tag: u32) -> Self {
        Link(u64::from(tag) << TAG_SHIFT | item.units())
    }

    /// The item that it leads to.
    #[inline(always)]
    fn item(self) -> Option<Offset> {
        let units = self.0 & ((1 << TAG_SHIFT) - 1);
        // An item is never at the start of the Region, and neither is its link.
        (units != 0).then(|| Offset::from_units(units))
    }

    #[inline(always)]
    fn tag(self) -> u32 {
        (self.0 >> TAG_SHIFT) as u32
    }

    #[inline(always)]
    fn load(word: &AtomicU64) -> Self {
        Link(words::load(word))
    }

    /// The caller holds the version counter of the chain's bucket (F1 of docs/develop/concurrency.md).
    fn store(self, word: &AtomicU64) {
        words::store(word, self.0);
    }
}

/// Where the link of `item` is.
#[inline(always)]
fn link_at(item: Offset) -> Offset {
    Offset::from_bytes((item.bytes() - WORD) as u64)
}

/// The link of `item`, or `None` if there can be no item: its place may come from a racy read.
#[inline(always)]
fn link_of(region: &Region, item: Offset) -> Option<&AtomicU64> {
    Some(&region.window::<1>(link_at(item))?[0])
}

/// Goes along the chain of a bucket: shows `look` where each word lies and what it says, until it says stop.
#[inline(always)]
fn follow<R>(
    region: &Region,
    bucket: Offset,
    stands: impl Fn() -> bool,
    mut look: impl FnMut(Offset, Link, Offset) -> Option<R>,
) -> Option<R> {
    let mut at = bucket;
    let mut link = Link::load(region.word(bucket));
    let mut passed = 0;
    while let Some(item) = link.item() {
        let next = link_of(region, item)?;
        if let Some(result) = look(at, link, item) {
            return Some(result);
        }
        passed += 1;
        // A chain that changes under a reader can lead it in circles (case 10 of docs/develop/concurrency.md).
        if passed % STRIDE == 0 && !stands() {
            return None;
        }
        at = link_at(item);
        link = Link::load(next);
    }
    None
}

fn bucket_at(table: Table<Chained>, bucket: u32) -> Offset {
    Offset::from_bytes(table.address(bucket) as u64)
}

#[allow(private_interfaces, reason = "schemes are written in this crate only")]
impl Scheme for Chained {
    const NAME: &'static str = "chained";
    const FORMAT: [u8; 8] = *b"chained3";
    const BUCKET_BYTES: usize = WORD;
    const LINK_BYTES: usize = WORD;
    const FULL_TEN: u64 = 15;
    const CROWDED_PERCENT: u64 = 100;
    const LOAD_PERCENT: u64 = 100;
    const TELLS_WHEN_FULL: bool = false;
    const CURSORS: usize = 1;

    type Place = ChainedPlace;
    type At = Offset;

    #[inline(always)]
    fn place(table: Table<Self>, hash: KeyHash) -> ChainedPlace {
        ChainedPlace { bucket: table.reduce((hash.0 >> 32) as u32), tag: hash.0 as u32 & TAG_MASK }
    }

    #[inline(always)]
    fn buckets(place: ChainedPlace) -> [u32; 2] {
        [place.bucket; 2]
    }

    #[inline(always)]
    fn bucket_of(place: ChainedPlace, _at: Offset) -> u32 {
        place.bucket
    }

    #[inline(always)]
    fn first(region: &Region, table: Table<Self>, place: ChainedPlace) -> First {
        let is_long = Cell::new(false);
        // Past a stride there is a search that can tell whether it goes in circles.
        let stop = || {
            is_long.set(true);
            false
        };
        let look = |_, link: Link, item| (link.tag() == place.tag).then_some(item);
        match follow(region, bucket_at(table, place.bucket), stop, look) {
            Some(item) => First::Item(item, 0),
            None if is_long.get() => First::Unknown,
            None => First::Nothing,
        }
    }

    #[inline(always)]
    fn find<R>(
        region: &Region,
        table: Table<Self>,
        place: ChainedPlace,
        stands: impl Fn() -> bool,
        mut look: impl FnMut(Offset) -> Option<R>,
    ) -> Option<(Offset, R)> {
        follow(region, bucket_at(table, place.bucket), stands, |at, link, item| {
            if link.tag() != place.tag {
                return None;
            }
            Some((at, look(item)?))
        })
    }

    #[inline(always)]
    fn replace(region: &Region, at: Offset, old: Offset, item: Offset) {
        let tag = Link::load(region.word(at)).tag();
        Link::load(region.word(link_at(old))).store(region.word(link_at(item)));
        Link::to(item, tag).store(region.word(at));
    }

    fn remove(region: &Region, at: Offset, item: Offset) {
        Link::load(region.word(link_at(item))).store(region.word(at));
    }

    fn insert(region: &Region, table: Table<Self>, place: ChainedPlace, item: Offset) -> bool {
        let bucket = region.word(bucket_at(table, place.bucket));
        Link::load(bucket).store(region.word(link_at(item)));
        Link::to(item, place.tag).store(bucket);
        true
    }

    fn has_room(_region: &Region, _table: Table<Self>, _place: ChainedPlace) -> bool {
        true
    }

    fn make_room(
        _index: (&Region, &Versions, SearchLimits),
        _table: Table<Self>,
        _place: ChainedPlace,
    ) -> Option<u64> {
        None
    }

    fn neighbours(_region: &Region, _table: Table<Self>, _place: ChainedPlace) -> Vec<Neighbour<Offset>> {
        Vec::new()
    }

    /// The newest: there is always one before the others are gone.
    fn entry(region: &Region, table: Table<Self>, bucket: u32, _cursor: usize) -> Option<(Offset, Offset)> {
        let at = bucket_at(table, bucket);
        Some((at, Link::load(region.word(at)).item()?))
    }

    fn prefetch_all_of(region: &Region, table: Table<Self>, bucket: u32, steps: u32) {
        let mut link = Link::load(region.word(bucket_at(table, bucket)));
        for _ in 0..steps {
            let Some(next) = link.item().and_then(|item| link_of(region, item)) else {
                return;
            };
            link = Link::load(next);
        }
        if let Some(item) = link.item() {
            region.prefetch(link_at(item).bytes());
        }
    }

    fn all_of(
        region: &Region,
        table: Table<Self>,
        bucket: u32,
        mut look: impl FnMut(Offset) -> bool,
    ) -> bool {
        let mut fine = true;
        follow(
            region,
            bucket_at(table, bucket),
            || true,
            |_, _, item| {
                fine = look(item);
                (!fine).then_some(())
            },
        );
        fine
    }
}
