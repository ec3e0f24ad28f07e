//! The seeded random numbers of the lab: xoshiro256++ (Blackman and Vigna, 2018), seeded through SplitMix64.
//!
//! It is spelled out here, in thirty lines, so that a recorded seed means the same requests for as long as this
//! file stands; a crate may change its stream with a version.

/// Spreads `x` over all 64 bits: the finaliser of SplitMix64, a bijection.
///
/// Distinct inputs give distinct outputs, so it also serves to make scattered, distinct keys out of numbers.
#[inline]
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded generator of uniform random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole stream follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(GOLDEN_GAMMA);
            mix64(at)
        });
        Self { state }
    }

    /// An independent generator for part `index` of a run (a thread, a connection).
    #[must_use]
    pub fn part(seed: u64, index: u64) -> Self {
        Self::new(
            mix64(seed.wrapping_add(GOLDEN_GAMMA)) ^ mix64(index.wrapping_mul(GOLDEN_GAMMA).wrapping_add(1)),
        )
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (mixed_c, mixed_d) = (c ^ a, d ^ b);
        self.state = [a ^ mixed_d, b ^ mixed_c, mixed_c ^ (b << 17), mixed_d.rotate_left(45)];
        result
    }

    /// A uniform number below `bound`; 0 when `bound` is 0.
    ///
    /// By multiplication, without rejection: the bias is at most `bound / 2^64`, far below what any run can see.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit_from(self.next_u64())
    }

    /// An exponentially distributed number with mean 1: the gap between Poisson arrivals of rate 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(-self.unit()).ln_1p()
    }
}

/// `bits` read as a number in `[0, 1)`.
#[inline]
#[must_use]
pub fn unit_from(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use super::{Rng, mix64};

    #[test]
    fn stream_is_that_of_the_reference_implementation() {
        // state {1, 2, 3, 4}; first outputs of xoshiro256plusplus.c by its authors.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut rng = Rng::new(3);
        let mean = (0..200_000).map(|_| rng.exponential()).sum::<f64>() / 200_000.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn parts_differ_and_repeat() {
        assert_ne!(Rng::part(1, 0).next_u64(), Rng::part(1, 1).next_u64());
        assert_eq!(Rng::part(1, 1).next_u64(), Rng::part(1, 1).next_u64());
        assert_ne!(mix64(1), mix64(2));
    }
}
