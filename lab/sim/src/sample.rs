//! SHARDS: a simulation of a share of the keys, in a cache made smaller by as much (Waldspurger, Park, Garthwaite and
//! Ahmad, "Efficient MRC construction with SHARDS", FAST 2015; for policies that are no stack algorithms, Waldspurger,
//! Saemundsson, Ahmad and Park, "Cache modeling and optimization using miniature simulations", USENIX ATC 2017).
//!
//! Keys are chosen by their hash, so all requests of a key are taken or none. With a fixed rate the share is given; with
//! a fixed size it falls whenever there are more keys than allowed, so that memory is bounded whatever the trace.

use std::collections::BinaryHeap;
use std::str::FromStr;

use guira_workload::rng::mix64;
use guira_workload::units::{factor, split};

use crate::policy::Id;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// Every key.
    All,
    Rate(f64),
    /// The share that contains this many keys.
    Keys(u32),
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a sample: use 1% (of the keys) or 8k (keys)");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            return if percent > 0.0 && percent <= 100.0 {
                Ok(Self::Rate(percent / 100.0))
            } else {
                Err(wrong())
            };
        }
        let count = match split(text) {
            Some((number, unit @ ("" | "k" | "K"))) => factor(unit, 1000.0).map(|factor| number * factor),
            _ => None,
        };
        let is_count = |count: &f64| count.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(count);
        count.filter(is_count).map(|count| Self::Keys(count as u32)).ok_or_else(wrong)
    }
}

/// The hash by which keys are sampled: of all their bits, none of which is used elsewhere to place a key.
#[inline]
pub(crate) fn sample_hash(key: u64) -> u64 {
    mix64(key.wrapping_add(0x7368_6172_6473_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// All of 2^64.
const ALL_HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Decides which keys are taken while requests are read.
#[derive(Debug)]
pub(crate) struct Sampler {
    threshold: u64,
    keys_max: usize,
    /// Keys that are taken, the highest hash on top; empty while their number is not limited.
    taken: BinaryHeap<(u64, Id)>,
}

impl Sampler {
    pub(crate) fn new(sample: Sample) -> Self {
        let (rate, keys_max) = match sample {
            Sample::All => (1.0, usize::MAX),
            Sample::Rate(rate) => (rate, usize::MAX),
            Sample::Keys(count) => (1.0, count as usize),
        };
        // At a rate of 1 the product saturates: all hashes but the very last.
        Self { threshold: (rate * ALL_HASHES) as u64, keys_max, taken: BinaryHeap::new() }
    }

    #[inline]
    pub(crate) fn takes(&self, hash: u64) -> bool {
        hash < self.threshold || self.threshold == u64::MAX
    }

    /// A new key is taken; another one may have to go for it, or the key itself.
    pub(crate) fn add(&mut self, hash: u64, id: Id) -> Option<Id> {
        if self.keys_max == usize::MAX {
            return None;
        }
        self.taken.push((hash, id));
        if self.taken.len() <= self.keys_max {
            return None;
        }
        let (highest, gone) = self.taken.pop()?;
        self.threshold = highest;
        Some(gone)
    }

    /// The share of keys that is taken.
    pub(crate) fn rate(&self) -> f64 {
        if self.threshold == u64::MAX { 1.0 } else { self.threshold as f64 / ALL_HASHES }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, Sampler, sample_hash};

    #[test]
    fn samples_are_a_share_or_a_number() {
        assert_eq!("1%".parse(), Ok(Sample::Rate(0.01)));
        assert_eq!("0.1%".parse(), Ok(Sample::Rate(0.001)));
        assert_eq!("8k".parse(), Ok(Sample::Keys(8000)));
        assert_eq!("500".parse(), Ok(Sample::Keys(500)));
        for wrong in ["", "0%", "101%", "0", "k", "-3", "5m"] {
            assert!(wrong.parse::<Sample>().unwrap_err().contains("1%"), "{wrong}");
        }
    }

    #[test]
    fn a_fixed_rate_takes_its_share() {
        let sampler = Sampler::new(Sample::Rate(0.1));
        let taken = (0..100_000).filter(|&key| sampler.takes(sample_hash(key))).count();
        assert!((9_700..10_300).contains(&taken), "{taken}");
        assert!(Sampler::new(Sample::All).takes(u64::MAX));
    }

    #[test]
    fn a_fixed_size_lowers_its_rate_and_keeps_the_lowest_hashes() {
        let mut sampler = Sampler::new(Sample::Keys(100));
        let mut held = std::collections::BTreeSet::new();
        for key in 0..10_000_u32 {
            let hash = sample_hash(key.into());
            if sampler.takes(hash) {
                held.insert(key);
                if let Some(gone) = sampler.add(hash, key) {
                    held.remove(&gone);
                }
            }
        }
        let mut all: Vec<(u64, u32)> = (0..10_000).map(|key| (sample_hash(u64::from(key)), key)).collect();
        all.sort_unstable();
        let lowest: std::collections::BTreeSet<u32> = all[..100].iter().map(|&(_, key)| key).collect();
        assert_eq!(held, lowest);
        assert!((0.007..0.013).contains(&sampler.rate()), "{}", sampler.rate());
    }
}
