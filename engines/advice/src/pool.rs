//! Whether a family of keys deserves a pool of its own (Nishtala and others, "Scaling Memcache at Facebook", NSDI 2013, section 3.2.2): in one
//! pool, keys of low churn that are still valuable are evicted before keys of high churn that nobody asks for any more.

use crate::sketch::Extent;

/// With fewer keys in the sample nothing is said.
const KEYS_LEAST: u64 = 30;
/// From this share of new keys a day on, churn is high; up to the other it is low.
const HIGH: f64 = 0.5;
const LOW: f64 = 0.2;
/// A family that churns is in the way of others if a day of it takes this part of the memory.
const ROOM_LEAST: f64 = 0.1;
/// Misses are worth a pool if more memory would save this share of the reads.
const GAIN_LEAST: f64 = 0.05;

/// What a pool of its own would do for a family of keys, or for the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolAdvice {
    /// Too little is known: two days have to be over, and some keys of the family in the sample.
    Unknown,
    /// Its churn takes room from others: they would be spared that, and it could be given as much as its misses cost.
    Churns {
        /// The share of a day's keys that are new.
        churn: f64,
        /// What the keys of a day take of memory.
        bytes: f64,
    },
    /// Its keys come back, and are evicted meanwhile: a pool would keep them.
    ComesBack {
        /// The share of a day's keys that are new.
        churn: f64,
        /// What the keys of a week take of memory.
        bytes: f64,
        /// The share of its reads that miss for want of memory.
        gain: f64,
    },
    /// It can stay with the others.
    Stays {
        /// The share of a day's keys that are new.
        churn: f64,
    },
}

impl PoolAdvice {
    /// What follows from the keys of a day and of a week; `gain` is the share of reads that miss now and would not with more memory, if that is
    /// known, and `capacity` the memory that there is.
    pub(crate) fn of(day: &Extent, week: &Extent, gain: Option<f64>, capacity: f64) -> Self {
        let Some(churn) = day.churn.filter(|_| day.sampled >= KEYS_LEAST) else {
            return PoolAdvice::Unknown;
        };
        let gain = gain.unwrap_or(0.0);
        if churn >= HIGH && day.mean_bytes >= ROOM_LEAST * capacity {
            PoolAdvice::Churns { churn, bytes: day.mean_bytes }
        } else if churn <= LOW && gain >= GAIN_LEAST {
            PoolAdvice::ComesBack { churn, bytes: week.mean_bytes.max(day.mean_bytes), gain }
        } else {
            PoolAdvice::Stays { churn }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, PoolAdvice};

    fn advice(churn: f64, gain: f64, day_bytes: f64) -> PoolAdvice {
        let day = Extent { sampled: 100, churn: Some(churn), mean_bytes: day_bytes, ..Extent::default() };
        let week = Extent { mean_bytes: 3.0 * day_bytes, ..day };
        PoolAdvice::of(&day, &week, Some(gain), 1000.0)
    }

    #[test]
    fn churn_and_what_misses_cost_decide() {
        assert_eq!(advice(0.7, 0.3, 100.0), PoolAdvice::Churns { churn: 0.7, bytes: 100.0 });
        assert_eq!(advice(0.7, 0.3, 99.0), PoolAdvice::Stays { churn: 0.7 }, "it is in nobody's way");
        assert_eq!(advice(0.1, 0.3, 100.0), PoolAdvice::ComesBack { churn: 0.1, bytes: 300.0, gain: 0.3 });
        assert_eq!(advice(0.1, 0.04, 100.0), PoolAdvice::Stays { churn: 0.1 }, "it is found as it is");
        assert_eq!(advice(0.3, 0.3, 500.0), PoolAdvice::Stays { churn: 0.3 });
    }

    #[test]
    fn without_two_days_or_enough_keys_nothing_is_said() {
        let day = Extent { sampled: 100, churn: None, ..Extent::default() };
        assert_eq!(PoolAdvice::of(&day, &day, None, 1.0), PoolAdvice::Unknown);
        let day = Extent { sampled: 29, churn: Some(0.0), ..Extent::default() };
        assert_eq!(PoolAdvice::of(&day, &day, None, 1.0), PoolAdvice::Unknown);
    }
}
