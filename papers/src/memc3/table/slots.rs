//! Buckets of four slots: with a tag before each pointer, and without.

use guira_memory::Region;
use guira_sync::atomic::{DATA_LOAD, DATA_STORE};
use guira_workload::rng::mix64;

use super::items::{Huge, Integers, Items, Pages};
use super::{Found, Key, hash};
use crate::experiment::Failure;

pub(in crate::memc3) const SLOTS: u32 = 4;

/// The buckets of a key, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memc3) struct Place {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) tag: u8,
}

/// Where keys belong, in a table of a power of two of buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    mask: u32,
}

impl Geometry {
    #[inline(always)]
    pub(super) fn place(self, hash: u64) -> Place {
        // Tag 0 marks an empty slot.
        let tag = ((hash >> 56) as u8).max(1);
        let first = hash as u32 & self.mask;
        Place { first, second: self.other(first, tag), tag }
    }

    /// The other bucket of an entry with `tag`: exclusive or with a hash of the tag, its own inverse (section 3.1).
    #[inline(always)]
    pub(super) fn other(self, bucket: u32, tag: u8) -> u32 {
        (bucket ^ mix64(u64::from(tag)) as u32) & self.mask
    }
}

pub(in crate::memc3) trait Slots: Sync + Sized {
    const BYTES: usize;

    /// Empty slots in `buckets` buckets.
    fn new(buckets: u32) -> Result<Self, Failure>;

    /// Looks into both buckets of a key.
    fn find(&self, items: &Items, place: Place, key: Key) -> Found;

    /// The tag and the item in a slot, if there is one. Without tags the key has to be read for it.
    fn entry(&self, items: &Items, bucket: u32, slot: u32) -> Option<(u8, u32)>;

    /// An empty slot of a bucket.
    fn free(&self, bucket: u32) -> Option<u32>;

    fn put(&self, bucket: u32, slot: u32, entry: (u8, u32));

    fn clear(&self, bucket: u32, slot: u32);
}

pub(super) fn geometry(buckets: u32) -> Geometry {
    debug_assert!(buckets.is_power_of_two());
    Geometry { mask: buckets - 1 }
}

/// A pointer: 8 bytes.
#[derive(Debug)]
pub(in crate::memc3) struct Untagged {
    region: Region,
}

impl Untagged {
    #[inline(always)]
    fn at(bucket: u32, slot: u32) -> usize {
        (bucket * SLOTS + slot) as usize * Self::BYTES
    }

    #[inline(always)]
    fn item(&self, bucket: u32, slot: u32) -> u32 {
        self.region.half(Self::at(bucket, slot)).load(DATA_LOAD)
    }
}

impl Slots for Untagged {
    const BYTES: usize = 8;

    fn new(buckets: u32) -> Result<Self, Failure> {
        Ok(Self { region: Huge::region(buckets as usize * SLOTS as usize * Self::BYTES)? })
    }

    #[inline(always)]
    fn find(&self, items: &Items, place: Place, key: Key) -> Found {
        let mut found = Found::default();
        for bucket in [place.first, place.second] {
            for slot in 0..SLOTS {
                let number = self.item(bucket, slot);
                if number != 0 {
                    found.compared += 1;
                    if items.same::<Integers>(number, key) {
                        return Found { number, ..found };
                    }
                }
            }
        }
        found
    }

    #[inline(always)]
    fn entry(&self, items: &Items, bucket: u32, slot: u32) -> Option<(u8, u32)> {
        let number = self.item(bucket, slot);
        let tag = || ((hash(items.key(number)) >> 56) as u8).max(1);
        (number != 0).then(|| (tag(), number))
    }

    #[inline(always)]
    fn free(&self, bucket: u32) -> Option<u32> {
        (0..SLOTS).find(|&slot| self.item(bucket, slot) == 0)
    }

    #[inline(always)]
    fn put(&self, bucket: u32, slot: u32, (_, number): (u8, u32)) {
        self.region.half(Self::at(bucket, slot)).store(number, DATA_STORE);
    }

    #[inline(always)]
    fn clear(&self, bucket: u32, slot: u32) {
        self.region.half(Self::at(bucket, slot)).store(0, DATA_STORE);
    }
}

/// A tag of a byte and a pointer of 8: the four tags of a bucket, then its four pointers, 36 bytes in all.
#[derive(Debug)]
pub(in crate::memc3) struct Tagged {
    region: Region,
}

impl Tagged {
    const BUCKET_BYTES: usize = SLOTS as usize * Self::BYTES;

    #[inline(always)]
    fn tags(&self, bucket: u32) -> u32 {
        self.region.half(bucket as usize * Self::BUCKET_BYTES).load(DATA_LOAD)
    }

    #[inline(always)]
    fn pointer_at(bucket: u32, slot: u32) -> usize {
        bucket as usize * Self::BUCKET_BYTES + 4 + slot as usize * 8
    }

    #[inline(always)]
    fn item(&self, bucket: u32, slot: u32) -> u32 {
        self.region.half(Self::pointer_at(bucket, slot)).load(DATA_LOAD)
    }

    fn set_tag(&self, bucket: u32, slot: u32, tag: u8) {
        let half = self.region.half(bucket as usize * Self::BUCKET_BYTES);
        let kept = half.load(DATA_LOAD) & !(0xff << (slot * 8));
        half.store(kept | u32::from(tag) << (slot * 8), DATA_STORE);
    }
}

/// Of four bytes, those that are 0: the top bit of each. A byte above one that is 0 may be taken for one if it is 1, so that only
/// the lowest is to be believed without a look.
#[inline(always)]
fn zero_bytes(bytes: u32) -> u32 {
    bytes.wrapping_sub(0x0101_0101) & !bytes & 0x8080_8080
}

impl Slots for Tagged {
    const BYTES: usize = 9;

    fn new(buckets: u32) -> Result<Self, Failure> {
        Ok(Self { region: Huge::region(buckets as usize * Self::BUCKET_BYTES)? })
    }

    #[inline(always)]
    fn find(&self, items: &Items, place: Place, key: Key) -> Found {
        let wanted = u32::from(place.tag) * 0x0101_0101;
        let mut found = Found::default();
        // Both buckets are asked for before anything depends on either.
        let tags = [self.tags(place.first), self.tags(place.second)];
        for (bucket, tags) in [place.first, place.second].into_iter().zip(tags) {
            let mut same = zero_bytes(tags ^ wanted);
            while same != 0 {
                let slot = same.trailing_zeros() / 8;
                same &= same - 1;
                if (tags >> (slot * 8)) as u8 != place.tag {
                    continue;
                }
                let number = self.item(bucket, slot);
                found.compared += 1;
                if number != 0 && items.same::<Integers>(number, key) {
                    return Found { number, ..found };
                }
            }
        }
        found
    }

    #[inline(always)]
    fn entry(&self, _items: &Items, bucket: u32, slot: u32) -> Option<(u8, u32)> {
        let tag = (self.tags(bucket) >> (slot * 8)) as u8;
        (tag != 0).then(|| (tag, self.item(bucket, slot)))
    }

    #[inline(always)]
    fn free(&self, bucket: u32) -> Option<u32> {
        let empty = zero_bytes(self.tags(bucket));
        (empty != 0).then(|| empty.trailing_zeros() / 8)
    }

    #[inline(always)]
    fn put(&self, bucket: u32, slot: u32, (tag, number): (u8, u32)) {
        self.region.half(Self::pointer_at(bucket, slot)).store(number, DATA_STORE);
        self.set_tag(bucket, slot, tag);
    }

    #[inline(always)]
    fn clear(&self, bucket: u32, slot: u32) {
        self.set_tag(bucket, slot, 0);
    }
}
