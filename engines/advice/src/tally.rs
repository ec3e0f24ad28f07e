//! Counts of sampled reads.

use crate::advice::SCALES;

/// Parts of the sample that are counted by themselves, to learn how uncertain it is: by the lowest bits of the hash.
pub(crate) const PARTS: usize = 4;

/// Reads that were sampled, and what they stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) seen: u64,
    /// All reads of the server, and those that found their key. Misses are related to these, not to the reads that were sampled: that a
    /// popular key is in the sample or not is chance (section 4.3 of SHARDS).
    pub(crate) reads: u64,
    pub(crate) hits: u64,
    /// Misses of each policy at each size; each sampled one stands for as many as there are keys for one that is sampled.
    pub(crate) misses: Vec<[f64; SCALES.len()]>,
    /// Misses of the served policy by part of the sample.
    pub(crate) by_part: [[f64; SCALES.len()]; PARTS],
    /// How long this was counted, in seconds.
    pub(crate) seconds: u32,
}

impl Tally {
    pub(crate) fn new(policies: usize) -> Self {
        Tally { misses: vec![[0.0; SCALES.len()]; policies], ..Tally::default() }
    }

    /// This and `other`.
    pub(crate) fn with(&self, other: &Tally) -> Tally {
        let mut sum = self.clone();
        sum.seen += other.seen;
        sum.reads += other.reads;
        sum.hits += other.hits;
        sum.seconds += other.seconds;
        let (into, from) = (sum.misses.iter_mut().flatten(), other.misses.iter().flatten());
        into.zip(from).for_each(|(into, from)| *into += from);
        let (into, from) = (sum.by_part.iter_mut().flatten(), other.by_part.iter().flatten());
        into.zip(from).for_each(|(into, from)| *into += from);
        sum
    }

    /// The hit ratio that follows from this many misses; `None` before anything was read and sampled.
    pub(crate) fn hit_ratio(&self, misses: f64) -> Option<f64> {
        (self.reads > 0 && self.seen > 0).then(|| (1.0 - misses / self.reads as f64).clamp(0.0, 1.0))
    }

    /// The standard error of the served policy's hit ratio at size `scale`, from what the parts differ; 1 if that is no knowledge at all.
    pub(crate) fn uncertainty(&self, scale: usize) -> Option<f64> {
        if self.reads == 0 || self.seen == 0 {
            return None;
        }
        let expected = self.reads as f64 / PARTS as f64;
        let ratios = self.by_part.map(|part| part[scale] / expected);
        let mean = ratios.iter().sum::<f64>() / PARTS as f64;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        Some(((squares / (PARTS as f64 - 1.0)).sqrt() / (PARTS as f64).sqrt()).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{PARTS, Tally};

    #[test]
    fn misses_are_related_to_all_reads() {
        let mut tally = Tally { seen: 9, reads: 100, ..Tally::new(1) };
        tally.misses[0] = [50.0, 20.0, 10.0, 200.0];
        let ratios = tally.misses[0].map(|misses| tally.hit_ratio(misses).unwrap());
        assert_eq!(ratios, [0.5, 0.8, 0.9, 0.0]);
        assert_eq!(Tally::new(1).hit_ratio(0.0), None);
    }

    #[test]
    fn parts_that_agree_leave_no_doubt() {
        let mut tally = Tally { seen: 40, reads: 400, by_part: [[10.0; 4]; PARTS], ..Tally::new(1) };
        assert_eq!(tally.uncertainty(0), Some(0.0));
        tally.by_part = [[10.0; 4], [20.0; 4], [30.0; 4], [40.0; 4]];
        // Ratios .1 .2 .3 .4: a deviation of .129, and half of it for the mean of four.
        assert!((tally.uncertainty(1).unwrap() - 0.0645).abs() < 0.001);
        tally.by_part[0] = [9e5; 4];
        assert_eq!(tally.uncertainty(0), Some(1.0));
        tally.seen = 0;
        assert_eq!((tally.uncertainty(0), tally.hit_ratio(0.0)), (None, None), "nothing is known");
    }

    #[test]
    fn sums_are_of_everything() {
        let one = Tally { seen: 1, reads: 3, hits: 2, seconds: 4, ..Tally::new(2) };
        let mut other = one.clone();
        other.misses[1][3] = 5.0;
        let sum = one.with(&other);
        assert_eq!((sum.seen, sum.reads, sum.hits, sum.seconds), (2, 6, 4, 8));
        assert_eq!(sum.misses[1][3], 5.0);
    }
}
