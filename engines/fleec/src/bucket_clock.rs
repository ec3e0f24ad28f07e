//! The rule by which items go: a CLOCK value for each bucket (FLeeC, "Design").
//!
//! It is written down apart from the table, over plain numbers, so that the simulator follows the very same.

pub use crate::order::{bucket_of, parent_of};

/// So many items for a hundred buckets make a table that needs more. The paper has 150 (decision 18).
const ITEMS_PER_HUNDRED: u64 = 88;

/// Whether a table of `buckets` needs more of them for `items`.
#[inline(always)]
pub fn is_crowded(items: u64, buckets: u64) -> bool {
    items * 100 > buckets * ITEMS_PER_HUNDRED
}

/// The hand takes what it comes to if it has found no bucket to empty among so many.
pub const PATIENCE: u64 = 1 << 12;

/// What `value` is to be now that an item of the bucket was read, if that is another: one more, up to `max`.
#[inline(always)]
pub fn touched(value: u8, max: u8) -> Option<u8> {
    (value < max).then(|| value + 1)
}

/// What `value` is to be now that an item has come into the bucket, if that is another: the hand is to pass by once before
/// it goes. The bucket may be anywhere before the hand, and without this some would go at once.
#[inline(always)]
pub fn greeted(value: u8) -> Option<u8> {
    (value == 0).then_some(1)
}

/// Whether items go that were never read, from a bucket that has `value` now that the hand has come by: others of it are read again and again, and
/// what comes to it would stay as long as they do.
#[inline(always)]
pub fn has_lodgers(value: u8) -> bool {
    value > 0
}

/// What `value` is to be now that the hand has come by. `None`: the bucket's items are to go.
#[inline(always)]
pub fn faded(value: u8) -> Option<u8> {
    value.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_reads_up_to_the_most_and_rounds_of_the_hand_down_to_none() {
        assert_eq!([0, 2, 3, 9].map(|value| touched(value, 3)), [Some(1), Some(3), None, None]);
        assert_eq!([0, 1, 3].map(greeted), [Some(1), None, None]);
        assert_eq!([0, 1, 3].map(faded), [None, Some(0), Some(2)]);
    }
}
