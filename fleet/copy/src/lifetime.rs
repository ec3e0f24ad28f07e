//! How long copies live.

use std::num::NonZeroU64;

use guira_routing::exptime_of;

/// How long copies live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as the item of the source.
    Kept,
    /// The same, but at most this many seconds.
    AtMost(NonZeroU64),
}

impl Lifetime {
    /// The expiration time of the copy of an item that has this many seconds left, or never expires.
    pub(crate) fn exptime(self, left: Option<u64>, now_s: u64) -> i32 {
        let left = match (self, left) {
            (Lifetime::Kept, left) => left,
            (Lifetime::AtMost(most), None) => Some(most.get()),
            (Lifetime::AtMost(most), Some(left)) => Some(left.min(most.get())),
        };
        left.map_or(0, |seconds| exptime_of(seconds, now_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_never_lives_longer_than_the_item() {
        const NOW_S: u64 = 1_800_000_000;
        let at_most = Lifetime::AtMost(NonZeroU64::new(60).unwrap());
        for (lifetime, left, exptime) in [
            (Lifetime::Kept, None, 0),
            (Lifetime::Kept, Some(100), 100),
            (Lifetime::Kept, Some(0), 1),
            (Lifetime::Kept, Some(2_592_001), 1_802_592_001),
            (at_most, None, 60),
            (at_most, Some(100), 60),
            (at_most, Some(10), 10),
        ] {
            assert_eq!(lifetime.exptime(left, NOW_S), exptime, "{lifetime:?} {left:?}");
        }
    }
}
