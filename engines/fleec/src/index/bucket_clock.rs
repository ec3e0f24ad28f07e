//! The replacement policy: a CLOCK value for each bucket (FLeeC, "Design").
//!
//! The rules are functions of plain numbers, so that the simulator runs the same code.

pub use super::order::{bucket_of, parent_of};

/// A table grows when it has more items than this for each hundred buckets. The paper has 150 (decision 18).
const ITEMS_PER_HUNDRED: u64 = 88;

/// Whether a table of `buckets` has too many `items`.
#[inline(always)]
pub fn is_crowded(items: u64, buckets: u64) -> bool {
    items * 100 > buckets * ITEMS_PER_HUNDRED
}

/// After this many buckets without a victim the hand empties every bucket it comes to.
pub const PATIENCE: u64 = 1 << 12;

/// The value after a read of an item of the bucket: one more, up to `max`. `None` if it does not change.
#[inline(always)]
pub fn touched(value: u8, max: u8) -> Option<u8> {
    (value < max).then(|| value + 1)
}

/// The value after an insert into the bucket: at least 1, so that the hand passes once before it evicts the item. The bucket may lie just before the
/// hand. `None` if the value does not change.
#[inline(always)]
pub fn inserted(value: u8) -> Option<u8> {
    (value == 0).then_some(1)
}

/// Whether the hand evicts the items of the bucket that were never read. `value` is the value after the hand's visit: while it is not 0 other items of
/// the bucket are read, and without this rule the unread ones would stay as long as those.
#[inline(always)]
pub fn has_lodgers(value: u8) -> bool {
    value > 0
}

/// The value after the hand's visit. `None`: the hand evicts the bucket's items.
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
        assert_eq!([0, 1, 3].map(inserted), [Some(1), None, None]);
        assert_eq!([0, 1, 3].map(faded), [None, Some(0), Some(2)]);
    }
}
