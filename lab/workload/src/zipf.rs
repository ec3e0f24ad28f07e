//! Zipf's law by rejection-inversion: exact for every exponent, with no table and no approximation.
//!
//! W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! ACM TOMACS 6(3), 1996. The area under `h(x) = x^-theta` between `k - 1/2` and `k + 1/2` covers the bar of rank
//! `k`; a uniform point of the area is turned into `x` by inverting the integral of `h`, `k` is `x` rounded, and
//! the point is accepted when it lies in the bar. Fewer than 1.1 points are needed on average, whatever `theta`.
//!
//! The closed form that YCSB uses instead (Gray et al., 1994) needs `theta < 1` and is only approximate.

use crate::rng::Rng;

/// A Zipf distribution over ranks `0..count`: rank `k` has a probability proportional to `(k + 1)^-theta`.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    count: u64,
    theta: f64,
    /// Integral at 3/2, less the whole bar of rank one.
    integral_first: f64,
    /// Integral at `count + 1/2`.
    integral_last: f64,
    /// Points within this of their rank are accepted without a look at the integral.
    shortcut: f64,
}

/// Why a Zipf distribution cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ZipfError {
    /// There is no rank to draw.
    #[error("a Zipf distribution needs at least one key")]
    NoKeys,
    /// The exponent is negative, infinite or not a number.
    #[error("the Zipf exponent must be a finite number of at least 0, not {0}")]
    Theta(f64),
}

impl Zipf {
    /// The distribution over `count` ranks with exponent `theta` (0 is uniform).
    ///
    /// # Errors
    /// When `count` is 0, or `theta` is negative or not finite.
    pub fn new(count: u64, theta: f64) -> Result<Self, ZipfError> {
        if count == 0 {
            return Err(ZipfError::NoKeys);
        }
        if !theta.is_finite() || theta < 0.0 {
            return Err(ZipfError::Theta(theta));
        }
        Ok(Self {
            count,
            theta,
            integral_first: integral(1.5, theta) - 1.0,
            integral_last: integral(count as f64 + 0.5, theta),
            shortcut: 2.0 - integral_inverse(integral(2.5, theta) - density(2.0, theta), theta),
        })
    }

    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Draws a rank; 0 is the most popular.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = integral_inverse(u, self.theta);
            let k = (x + 0.5).floor().clamp(1.0, self.count as f64);
            if k - x <= self.shortcut || u >= integral(k + 0.5, self.theta) - density(k, self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

fn density(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// `(x^(1 - theta) - 1) / (1 - theta)`, which is `ln x` when `theta` is 1, without cancellation near it.
fn integral(x: f64, theta: f64) -> f64 {
    let log_x = x.ln();
    expm1_ratio((1.0 - theta) * log_x) * log_x
}

fn integral_inverse(y: f64, theta: f64) -> f64 {
    let t = (y * (1.0 - theta)).max(-1.0);
    (ln1p_ratio(t) * y).exp()
}

/// `ln(1 + x) / x`, continued through 0.
fn ln1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x)) }
}

/// `(e^x - 1) / x`, continued through 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0 * (1.0 + 0.25 * x)) }
}

#[cfg(test)]
mod tests {
    use super::{Zipf, ZipfError};
    use crate::rng::Rng;

    /// Chi-squared of `draws` draws over `count` ranks against the exact probabilities.
    fn chi_squared(count: u64, theta: f64, draws: u32) -> f64 {
        let zipf = Zipf::new(count, theta).unwrap();
        let mut rng = Rng::new(42);
        let mut seen = vec![0_u32; count as usize];
        for _ in 0..draws {
            seen[zipf.draw(&mut rng) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=count).map(|k| (k as f64).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        seen.iter()
            .zip(&weights)
            .map(|(&observed, weight)| {
                let expected = f64::from(draws) * weight / total;
                (f64::from(observed) - expected).powi(2) / expected
            })
            .sum()
    }

    #[test]
    fn draws_follow_the_law_for_every_exponent() {
        // 99 degrees of freedom: the 99.9 % quantile of chi-squared is 148.2.
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0] {
            let statistic = chi_squared(100, theta, 1_000_000);
            assert!(statistic < 148.2, "theta {theta}: chi-squared {statistic}");
        }
    }

    #[test]
    fn head_of_a_large_set_has_its_share() {
        // With theta 0.99 over a million keys the first key draws 1/H of the requests, H = sum of k^-0.99.
        let harmonic: f64 = (1..=1_000_000).map(|k| f64::from(k).powf(-0.99)).sum();
        let zipf = Zipf::new(1_000_000, 0.99).unwrap();
        let mut rng = Rng::new(1);
        let hits = (0..1_000_000).filter(|_| zipf.draw(&mut rng) == 0).count() as f64;
        let expected = 1_000_000.0 / harmonic;
        assert!((hits - expected).abs() < 4.0 * expected.sqrt(), "{hits} beside {expected}");
    }

    #[test]
    fn one_key_and_bad_parameters() {
        let one = Zipf::new(1, 1.5).unwrap();
        assert_eq!(one.draw(&mut Rng::new(9)), 0);
        assert_eq!(Zipf::new(0, 1.0), Err(ZipfError::NoKeys));
        assert!(matches!(Zipf::new(5, f64::NAN), Err(ZipfError::Theta(_))));
        assert_eq!(Zipf::new(5, -0.5), Err(ZipfError::Theta(-0.5)));
    }

    #[test]
    fn same_seed_gives_the_same_ranks() {
        let zipf = Zipf::new(1000, 0.99).unwrap();
        let draw = || {
            let mut rng = Rng::new(5);
            (0..100).map(|_| zipf.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }
}
