//! The order of the one list that all items and buckets are on (Shalev and Shavit, "Split-ordered lists: lock-free extensible
//! hash tables", JACM 53(3), 2006).
//!
//! Hashes are compared from the lowest bit up. The lowest bits of a hash name its bucket, so that the items of a bucket lie next to each other whatever
//! the number of buckets. Inserting a bucket into the middle of another's part of the list divides that one in two: nothing moves.

use std::cmp::Ordering;

/// Buckets of an empty table, at the least.
pub(crate) const BUCKETS_FIRST: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    #[inline(always)]
    pub(crate) fn of_item(hash: u64) -> Self {
        Order(hash)
    }

    /// A bucket comes before all its items.
    #[inline(always)]
    pub(crate) fn of_bucket(bucket: u64) -> Self {
        Order(bucket)
    }

    #[inline(always)]
    pub(crate) fn compare(self, other: Self) -> Ordering {
        self.0.reverse_bits().cmp(&other.0.reverse_bits())
    }
}

/// The bucket of a hash among `buckets`, at least 2: as many of its lowest bits as `buckets` needs, or one less if that bucket is not
/// there yet (linear hashing; Litwin, VLDB 1980).
#[inline(always)]
pub fn bucket_of(hash: u64, buckets: u64) -> u64 {
    let mask = u64::MAX >> (buckets - 1).leading_zeros();
    let bucket = hash & mask;
    if bucket < buckets { bucket } else { hash & (mask >> 1) }
}

/// The bucket that `bucket` was split from. `bucket` is not 0.
pub fn parent_of(bucket: u64) -> u64 {
    bucket & !(1 << bucket.ilog2())
}

/// The bucket after `bucket` in the order; none after the last.
pub(crate) fn bucket_after(bucket: u64, buckets: u64) -> Option<u64> {
    // As counting up, from the highest bit down.
    let top = if buckets <= 1 { return None } else { (buckets - 1).ilog2() };
    let mut next = bucket;
    loop {
        let mut bit = 1 << top;
        while next & bit != 0 {
            next &= !bit;
            if bit == 1 {
                return None;
            }
            bit >>= 1;
        }
        next |= bit;
        if next < buckets {
            return Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_has_a_bucket_that_keeps_its_items_when_others_are_divided() {
        for buckets in 2..200 {
            for hash in (0..4_000u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
                let (now, then) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(now < buckets);
                assert!(then == now || (then == buckets && parent_of(then) == now), "{buckets}, {hash:x}");
            }
        }
    }

    #[test]
    fn buckets_come_in_the_order_of_their_items() {
        for buckets in 2..300 {
            let all: Vec<u64> =
                std::iter::successors(Some(0), |bucket| bucket_after(*bucket, buckets)).collect();
            assert_eq!(all.len() as u64, buckets);
            assert!(all.is_sorted_by(|a, b| Order::of_bucket(*a).compare(Order::of_bucket(*b)).is_lt()));
            for hash in (0..500u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
                let at = all
                    .iter()
                    .rposition(|bucket| Order::of_bucket(*bucket).compare(Order::of_item(hash)).is_le());
                assert_eq!(at.map(|at| all[at]), Some(bucket_of(hash, buckets)));
            }
        }
    }
}
