//! How many different keys there were, in 64 KiB whatever their number: HyperLogLog (Flajolet, Fusy, Gandouet and
//! Meunier, AofA 2007), with the estimate of Ertl ("New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017), which has no range in which it is biased. The standard error is 0.4 %.

use std::f64::consts::LN_2;

use guira_workload::rng::mix64;

const BITS: u32 = 16;
const COUNT: usize = 1 << BITS;
/// Ranks that a register may have, and 0.
const RANKS: usize = 64 - BITS as usize + 2;

/// The highest rank of a hash seen by each register.
#[derive(Debug)]
pub(crate) struct Distinct {
    registers: Vec<u8>,
}

impl Distinct {
    pub(crate) fn new() -> Self {
        Self { registers: vec![0; COUNT] }
    }

    /// Sees a key, by its hash. The hash is mixed once more: by its own bits keys are sampled, and the two must not have
    /// the same luck.
    #[inline]
    pub(crate) fn see(&mut self, hash: u64) {
        let bits = mix64(hash ^ 0x6469_7374_696e_6374);
        let rank = ((bits << BITS) | (1 << (BITS - 1))).leading_zeros() as u8 + 1;
        let register = &mut self.registers[(bits >> (64 - BITS)) as usize];
        *register = (*register).max(rank);
    }

    /// About how many different keys were seen.
    pub(crate) fn estimate(&self) -> f64 {
        let count = COUNT as f64;
        let mut of_rank = [0.0; RANKS];
        self.registers.iter().for_each(|&rank| of_rank[rank as usize] += 1.0);
        // From the highest rank down, so that each is halved as often as it has to be. No register has the last one.
        let sum = of_rank[1..].iter().rev().fold(0.0, |sum, registers| 0.5 * (sum + registers));
        count * count / (2.0 * LN_2 * (sum + count * empty(of_rank[0] / count)))
    }
}

/// What a share of empty registers stands for: σ of Ertl's algorithm 6.
fn empty(share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut factor, mut sum) = (share, 1.0, share);
    // A share below 1 that is squared so often is 0.
    for _ in 0..64 {
        power *= power;
        sum += power * factor;
        factor *= 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::Distinct;
    use crate::sample::sample_hash;

    #[test]
    fn few_and_many_keys_are_counted_within_a_hundredth() {
        for count in [1_u64, 100, 10_000, 100_000, 165_000, 181_000, 200_000, 300_000, 1_000_000, 3_000_000] {
            let mut distinct = Distinct::new();
            (0..count).chain(0..count / 2).for_each(|key| distinct.see(sample_hash(key)));
            let ratio = distinct.estimate() / count as f64;
            assert!((0.99..1.01).contains(&ratio), "{count}: {ratio}");
        }
        assert_eq!(Distinct::new().estimate(), 0.0);
    }
}
