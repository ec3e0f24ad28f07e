//! Which key comes next.

use crate::SizeModel;
use crate::rng::Rng;
use crate::zipf::{Zipf, ZipfError};

/// A distribution over key numbers `0..count`.
#[derive(Debug, Clone, PartialEq)]
pub enum Popularity {
    /// Every key is as likely as any other.
    Uniform { count: u64 },
    /// Zipf's law: key number 0 is the most popular.
    Zipf(Zipf),
    /// Groups of equally popular keys, as CacheLib's `pop.json` gives them.
    Buckets(Buckets),
    /// Pages that ask for several keys each; a [`Generator`](crate::Generator) puts them together.
    Pages(Pages),
}

impl Popularity {
    /// A Zipf distribution.
    ///
    /// # Errors
    /// When there are no keys, or `theta` is negative or not finite.
    pub fn zipf(count: u64, theta: f64) -> Result<Self, ZipfError> {
        Zipf::new(count, theta).map(Self::Zipf)
    }

    #[must_use]
    pub const fn count(&self) -> u64 {
        match self {
            Self::Uniform { count } => *count,
            Self::Zipf(zipf) => zipf.count(),
            Self::Buckets(buckets) => buckets.count,
            Self::Pages(pages) => pages.count,
        }
    }

    /// Draws a key number by itself, whatever page it belongs to.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform { count } => rng.below(*count),
            Self::Zipf(zipf) => zipf.draw(rng),
            Self::Buckets(buckets) => buckets.draw(rng),
            Self::Pages(pages) => rng.below(pages.count),
        }
    }
}

/// Groups of keys: a group is drawn by its weight, then a key in it uniformly.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    count: u64,
    /// First key of each group; the group ends where the next begins, or at `count`.
    starts: Vec<u64>,
    cumulative: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketsError {
    /// Sizes and weights do not belong together.
    #[error("{sizes} bucket sizes but {weights} weights")]
    Lengths { sizes: usize, weights: usize },
    /// No key could ever be drawn.
    #[error("no bucket has both keys and weight")]
    Empty,
    /// A weight is negative or not a number.
    #[error("weight {0} is negative or not a finite number")]
    Weight(usize),
}

impl Buckets {
    /// Groups of `sizes[i]` keys drawn with weight `weights[i]`; empty groups are left out.
    ///
    /// # Errors
    /// When the lists differ in length, a weight is not a number, or no group can be drawn.
    pub fn new(sizes: &[u64], weights: &[f64]) -> Result<Self, BucketsError> {
        if sizes.len() != weights.len() {
            return Err(BucketsError::Lengths { sizes: sizes.len(), weights: weights.len() });
        }
        if let Some(index) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(BucketsError::Weight(index));
        }
        let mut buckets = Self { count: 0, starts: Vec::new(), cumulative: Vec::new() };
        let mut sum = 0.0;
        for (&size, &weight) in sizes.iter().zip(weights).filter(|&(&size, &weight)| size > 0 && weight > 0.0)
        {
            buckets.starts.push(buckets.count);
            buckets.count += size;
            sum += weight;
            buckets.cumulative.push(sum);
        }
        if buckets.starts.is_empty() {
            return Err(BucketsError::Empty);
        }
        buckets.cumulative.iter_mut().for_each(|upper| *upper /= sum);
        Ok(buckets)
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let at = rng.unit();
        let index = self.cumulative.partition_point(|&upper| upper <= at).min(self.starts.len() - 1);
        let start = self.starts[index];
        let end = self.starts.get(index + 1).copied().unwrap_or(self.count);
        start + rng.below(end - start)
    }
}

/// Pages, each of which asks for the first keys of a list of its own, spread over all keys: so a key is as
/// popular as the pages that it is on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pages {
    count: u64,
    pages: Zipf,
    fan_out: SizeModel,
}

impl Pages {
    /// `pages` pages, popular by Zipf's law with exponent `theta`, over `count` keys. A load of one asks for as many
    /// keys as `fan_out` tells, at least one.
    ///
    /// # Errors
    /// When there are no pages, or `theta` is negative or not finite.
    pub fn new(count: u64, pages: u64, theta: f64, fan_out: SizeModel) -> Result<Self, ZipfError> {
        Ok(Self { count, pages: Zipf::new(pages, theta)?, fan_out })
    }

    /// Draws a load of a page: the numbers of the keys that it asks for.
    pub fn draw_load(&self, rng: &mut Rng) -> PageLoad {
        let (page, left) = (self.pages.draw(rng), self.fan_out.of(rng.next_u64()).max(1));
        PageLoad { items: Rng::part(page, 0x7061_6765), left, count: self.count }
    }
}

/// The keys that a load of a page asks for, one after the other.
#[derive(Debug, Clone)]
pub struct PageLoad {
    items: Rng,
    left: u32,
    count: u64,
}

impl Iterator for PageLoad {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        Some(self.items.below(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::{Buckets, BucketsError, Popularity};
    use crate::rng::Rng;

    #[test]
    fn uniform_reaches_every_key() {
        let keys = Popularity::Uniform { count: 50 };
        let mut rng = Rng::new(1);
        let mut seen = [false; 50];
        (0..2000).for_each(|_| seen[keys.draw(&mut rng) as usize] = true);
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn buckets_are_drawn_by_weight_and_evenly_within() {
        let buckets = Buckets::new(&[10, 0, 90], &[3.0, 5.0, 1.0]).unwrap();
        let keys = Popularity::Buckets(buckets);
        assert_eq!(keys.count(), 100);
        let mut rng = Rng::new(2);
        let head = (0..40_000).filter(|_| keys.draw(&mut rng) < 10).count();
        assert!((29_500..30_500).contains(&head), "{head}");
    }

    #[test]
    fn bad_buckets_are_refused() {
        assert_eq!(Buckets::new(&[1], &[]), Err(BucketsError::Lengths { sizes: 1, weights: 0 }));
        assert_eq!(Buckets::new(&[0], &[1.0]), Err(BucketsError::Empty));
        assert_eq!(Buckets::new(&[1], &[f64::INFINITY]), Err(BucketsError::Weight(0)));
    }
}
