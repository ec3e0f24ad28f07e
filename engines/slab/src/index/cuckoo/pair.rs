//! Where keys belong in a table of a given size.

use super::bucket::{Bucket, TAG_BITS};
use crate::index::table::Table;
use guira_contract::KeyHash;
use guira_memory::Region;

/// MemC3's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuckoo;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotAt {
    pub(super) table: Table<Cuckoo>,
    pub(super) bucket: u32,
    pub(super) slot: usize,
}

/// The two buckets of a key, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooPlace {
    pub(crate) first: u32,
    pub(crate) second: u32,
    pub(crate) tag: u16,
}

impl Table<Cuckoo> {
    /// Where a key with this hash belongs.
    #[inline(always)]
    pub(crate) fn place(self, hash: KeyHash) -> CuckooPlace {
        let first = self.reduce((hash.0 >> 32) as u32);
        let tag = hash.0 as u16 & ((1 << TAG_BITS) - 1);
        // A low byte of 0 marks an empty slot.
        let tag = if tag & 0xff == 0 { tag | 1 } else { tag };
        CuckooPlace { first, second: self.other(first, tag), tag }
    }

    /// The other bucket of an entry with `tag` that lies in `bucket`: `h(tag) - bucket`, modulo the size of the
    /// table. It is its own inverse, like MemC3's exclusive or (section 3.1), but for a table of any size.
    #[inline(always)]
    pub(crate) fn other(self, bucket: u32, tag: u16) -> u32 {
        let spread = (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let sum = self.reduce(spread);
        if sum >= bucket { sum - bucket } else { sum + (self.buckets - bucket) }
    }

    #[inline(always)]
    pub(crate) fn bucket(self, region: &Region, bucket: u32) -> Bucket<'_> {
        Bucket(region.line(self.place_of(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_bucket_of_the_other_bucket_is_the_first_for_any_size() {
        for buckets in [1, 2, 3, 7, 64, 1000, 32_769, u32::MAX] {
            let table = Table::<Cuckoo>::new(0, buckets);
            for tag in 1..2048 {
                for bucket in [0, buckets / 3, buckets / 2, buckets - 1] {
                    let other = table.other(bucket, tag);
                    assert!(other < buckets);
                    assert_eq!(table.other(other, tag), bucket);
                }
            }
        }
    }

    #[test]
    fn places_are_spread_over_all_buckets() {
        let table = Table::<Cuckoo>::new(0, 100);
        let mut seen = [0u32; 100];
        for i in 0..100_000u64 {
            let place = table.place(KeyHash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            assert_ne!(place.tag, 0);
            seen[place.first as usize] += 1;
            seen[place.second as usize] += 1;
        }
        assert!(seen.iter().all(|count| (1500..2500).contains(count)), "{seen:?}");
    }
}
