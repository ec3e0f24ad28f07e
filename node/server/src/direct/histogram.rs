//! How many datagrams a worker finds at once (MICA, section 5.2: the busiest cores work more efficiently, since their bursts are larger).

use guira_sync::counters::Counters;
use guira_transport::BURST_MAX;

/// Sizes that are counted apart: 1, 2, up to 4, up to 8, …
const SIZES: usize = BURST_MAX.ilog2() as usize + 1;

/// How often bursts of which size came, for one worker.
#[derive(Debug, Default)]
pub(crate) struct BurstSizes(Counters<SIZES>);

impl BurstSizes {
    pub(crate) fn note(&self, count: usize) {
        let size = count.clamp(1, BURST_MAX).next_power_of_two().ilog2();
        self.0.add(size as usize, 1);
    }

    /// The largest burst of each size, and how often it came.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..SIZES).map(|size| (1 << size, self.0.get(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_powers_of_two() {
        let sizes = BurstSizes::default();
        for count in [1, 2, 2, 3, 4, 5, 33, BURST_MAX] {
            sizes.note(count);
        }
        let counts: Vec<(usize, u64)> = sizes.counts().collect();
        assert_eq!(counts, [(1, 1), (2, 2), (4, 2), (8, 1), (16, 0), (32, 0), (64, 2)]);
    }
}
