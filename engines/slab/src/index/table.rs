//! Where keys belong in a table of a given size.

use super::bucket::{BUCKET_BYTES, Bucket, TAG_BITS};
use guira_contract::KeyHash;
use guira_memory::Region;

/// A table: a run of buckets in the Region. Any number of them will do; a table bound to powers of two would waste
/// up to half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Where bucket 0 is, in cache lines from the start of the Region.
    pub(crate) base: usize,
    /// How many there are.
    pub(crate) buckets: u32,
}

/// The two buckets of a key, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) first: u32,
    pub(crate) second: u32,
    pub(crate) tag: u16,
}

impl Table {
    /// Bytes that a table of `buckets` buckets takes.
    pub(crate) const fn bytes(buckets: u32) -> usize {
        buckets as usize * BUCKET_BYTES
    }

    #[inline(always)]
    fn reduce(self, hash: u32) -> u32 {
        ((u64::from(hash) * u64::from(self.buckets)) >> 32) as u32
    }

    /// Where a key with this hash belongs.
    #[inline(always)]
    pub(crate) fn place(self, hash: KeyHash) -> Place {
        let first = self.reduce((hash.0 >> 32) as u32);
        let tag = hash.0 as u16 & ((1 << TAG_BITS) - 1);
        // A low byte of 0 marks an empty slot.
        let tag = if tag & 0xff == 0 { tag | 1 } else { tag };
        Place { first, second: self.other(first, tag), tag }
    }

    /// The other bucket of an entry with `tag` that lies in `bucket`: `h(tag) - bucket`, modulo the size of the
    /// table. It is its own inverse, like MemC3's exclusive or (section 3.1), but for a table of any size.
    #[inline(always)]
    pub(crate) fn other(self, bucket: u32, tag: u16) -> u32 {
        let spread = (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let sum = self.reduce(spread);
        if sum >= bucket { sum - bucket } else { sum + (self.buckets - bucket) }
    }

    /// Where bucket `bucket` is, in cache lines from the start of the Region.
    #[inline(always)]
    fn line(self, bucket: u32) -> usize {
        self.base + bucket as usize
    }

    /// Where bucket `bucket` begins, in bytes from the start of the Region.
    #[inline(always)]
    pub(crate) fn address(self, bucket: u32) -> usize {
        self.line(bucket) * BUCKET_BYTES
    }

    /// The words of a bucket.
    #[inline(always)]
    pub(crate) fn bucket(self, region: &Region, bucket: u32) -> Bucket<'_> {
        Bucket(region.line(self.line(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_bucket_of_the_other_bucket_is_the_first_for_any_size() {
        for buckets in [1, 2, 3, 7, 64, 1000, 32_769, u32::MAX] {
            let table = Table { base: 0, buckets };
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
        let table = Table { base: 0, buckets: 100 };
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
