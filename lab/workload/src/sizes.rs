//! How long the value of a key is.
//!
//! A length follows from the key's number, so the same key always has a value of the same length and a reply can be
//! judged without a table of what was stored.

use crate::rng::{mix64, unit_from};

#[derive(Debug, Clone, PartialEq)]
pub enum SizeModel {
    /// Every value has this length.
    Constant(u32),
    /// Lengths are spread evenly over a range, both ends included.
    Range {
        min: u32,
        max: u32,
    },
    Weighted(WeightedSizes),
}

/// Lengths with weights: single lengths, or ranges within which lengths are spread evenly.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedSizes {
    /// Smallest and largest length of each entry.
    ranges: Vec<(u32, u32)>,
    cumulative: Vec<f64>,
    mean: f64,
}

/// Why a size model is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeModelError {
    #[error("value sizes must be given smaller first, not {min}-{max}")]
    Reversed { min: u32, max: u32 },
    /// Neither as many weights as sizes, nor one less.
    #[error(
        "{sizes} sizes need {sizes} weights, or one weight less for ranges between the sizes, not {weights}"
    )]
    Lengths { sizes: usize, weights: usize },
    /// A weight is negative or not a number.
    #[error("weight {0} of the sizes is negative or not a finite number")]
    Weight(usize),
    /// Nothing can be drawn.
    #[error("all weights of the sizes are 0")]
    Empty,
}

impl SizeModel {
    /// Lengths spread evenly from `min` to `max`.
    ///
    /// # Errors
    /// When `min` is above `max`.
    pub const fn range(min: u32, max: u32) -> Result<Self, SizeModelError> {
        if min > max { Err(SizeModelError::Reversed { min, max }) } else { Ok(Self::Range { min, max }) }
    }

    /// Lengths by weight: as many weights as sizes makes them single lengths, one weight less makes them the bounds
    /// of ranges.
    ///
    /// # Errors
    /// When the lists do not fit each other, a weight is no number, all are 0, or bounds are not rising.
    pub fn weighted(sizes: &[u32], weights: &[f64]) -> Result<Self, SizeModelError> {
        WeightedSizes::new(sizes, weights).map(Self::Weighted)
    }

    /// A cumulative distribution of lengths, in percent: `points` begins at 0 and ends at 100 percent. Between two of
    /// them lengths are spread evenly on a logarithmic scale.
    ///
    /// # Errors
    /// When percentages or lengths are not rising.
    pub fn quantiles(points: &[(f64, u32)]) -> Result<Self, SizeModelError> {
        /// Steps of the scale between two points.
        const STEPS: u32 = 16;
        let mut bounds: Vec<u32> = points.first().map(|point| point.1).into_iter().collect();
        let mut weights = Vec::new();
        for pair in points.windows(2) {
            let [(from_percent, from), (to_percent, to)] = [pair[0], pair[1]];
            if from > to {
                return Err(SizeModelError::Reversed { min: from, max: to });
            }
            let ratio = f64::from(to.max(1)) / f64::from(from.max(1));
            for step in 1..=STEPS {
                let at = f64::from(from.max(1)) * ratio.powf(f64::from(step) / f64::from(STEPS));
                bounds.push((at.round() as u32).clamp(from, to));
                weights.push((to_percent - from_percent) / f64::from(STEPS));
            }
        }
        Self::weighted(&bounds, &weights)
    }

    /// The length of the value of key number `id`.
    #[inline]
    #[must_use]
    pub fn of(&self, id: u64) -> u32 {
        match self {
            Self::Constant(len) => *len,
            Self::Range { min, max } => {
                let spread = u64::from(max - min) + 1;
                min + (scatter(id) % spread) as u32
            }
            Self::Weighted(sizes) => sizes.of(id),
        }
    }

    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::Constant(len) => *len,
            Self::Range { max, .. } => *max,
            Self::Weighted(sizes) => sizes.ranges.iter().map(|range| range.1).max().unwrap_or(0),
        }
    }

    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(len) => f64::from(*len),
            Self::Range { min, max } => (f64::from(*min) + f64::from(*max)) / 2.0,
            Self::Weighted(sizes) => sizes.mean,
        }
    }

    /// The same model with no value longer than `limit`, which a server's largest item may ask for.
    #[must_use]
    pub fn capped(&self, limit: u32) -> Self {
        match self {
            Self::Constant(len) => Self::Constant((*len).min(limit)),
            Self::Range { min, max } => Self::Range { min: (*min).min(limit), max: (*max).min(limit) },
            Self::Weighted(sizes) => Self::Weighted(sizes.capped(limit)),
        }
    }
}

/// Bits of `id` that are independent of those that spell its key and place its value.
const fn scatter(id: u64) -> u64 {
    mix64(id.wrapping_add(0x7369_7a65_0000_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl WeightedSizes {
    fn new(sizes: &[u32], weights: &[f64]) -> Result<Self, SizeModelError> {
        let ranges: Vec<(u32, u32)> = if sizes.len() == weights.len() {
            sizes.iter().map(|&size| (size, size)).collect()
        } else if sizes.len() == weights.len() + 1 {
            sizes.windows(2).map(|pair| (pair[0], pair[1])).collect()
        } else {
            return Err(SizeModelError::Lengths { sizes: sizes.len(), weights: weights.len() });
        };
        if let Some(&(min, max)) = ranges.iter().find(|(min, max)| min > max) {
            return Err(SizeModelError::Reversed { min, max });
        }
        if let Some(index) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(SizeModelError::Weight(index));
        }
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return Err(SizeModelError::Empty);
        }
        let mut sum = 0.0;
        let cumulative = weights
            .iter()
            .map(|weight| {
                sum += weight / total;
                sum
            })
            .collect();
        let mut model = Self { ranges, cumulative, mean: 0.0 };
        model.mean = model.mean_of_ranges();
        Ok(model)
    }

    fn mean_of_ranges(&self) -> f64 {
        let mut previous = 0.0;
        let mut mean = 0.0;
        for (&(min, max), &upper) in self.ranges.iter().zip(&self.cumulative) {
            mean += (upper - previous) * (f64::from(min) + f64::from(max)) / 2.0;
            previous = upper;
        }
        mean
    }

    fn capped(&self, limit: u32) -> Self {
        let ranges = self.ranges.iter().map(|&(min, max)| (min.min(limit), max.min(limit))).collect();
        let mut model = Self { ranges, cumulative: self.cumulative.clone(), mean: 0.0 };
        model.mean = model.mean_of_ranges();
        model
    }

    fn of(&self, id: u64) -> u32 {
        let bits = scatter(id);
        let at = unit_from(bits);
        let index = self.cumulative.partition_point(|&upper| upper <= at).min(self.ranges.len() - 1);
        let (min, max) = self.ranges[index];
        if min == max {
            return min;
        }
        min + (mix64(bits) % (u64::from(max - min) + 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{SizeModel, SizeModelError};

    fn mean_drawn(model: &SizeModel) -> f64 {
        (0..200_000).map(|id| f64::from(model.of(id))).sum::<f64>() / 200_000.0
    }

    #[test]
    fn a_key_keeps_its_size_and_sizes_keep_their_range() {
        let model = SizeModel::range(10, 20).unwrap();
        assert_eq!(model.of(3), model.of(3));
        assert!((0..1000).all(|id| (10..=20).contains(&model.of(id))));
        assert!((mean_drawn(&model) - model.mean()).abs() < 0.05);
        assert_eq!(SizeModel::Constant(32).of(9), 32);
    }

    #[test]
    fn weights_are_kept_for_single_sizes_and_for_ranges() {
        let single = SizeModel::weighted(&[100, 1000], &[3.0, 1.0]).unwrap();
        let small = (0..100_000).filter(|&id| single.of(id) == 100).count();
        assert!((74_300..75_700).contains(&small), "{small}");
        let ranges = SizeModel::weighted(&[0, 100, 1000], &[1.0, 1.0]).unwrap();
        assert!((ranges.mean() - 300.0).abs() < 1e-9);
        assert!((mean_drawn(&ranges) - 300.0).abs() < 3.0);
    }

    #[test]
    fn a_cap_shortens_only_what_is_longer() {
        let model = SizeModel::weighted(&[100, 1000], &[1.0, 1.0]).unwrap().capped(500);
        assert_eq!(model.max(), 500);
        assert!((model.mean() - 300.0).abs() < 1e-9);
    }

    #[test]
    fn bad_models_are_refused() {
        assert_eq!(SizeModel::range(2, 1), Err(SizeModelError::Reversed { min: 2, max: 1 }));
        assert_eq!(SizeModel::weighted(&[1], &[]), Err(SizeModelError::Empty));
        assert_eq!(
            SizeModel::weighted(&[1, 2, 3], &[1.0]),
            Err(SizeModelError::Lengths { sizes: 3, weights: 1 })
        );
        assert_eq!(SizeModel::weighted(&[1], &[-1.0]), Err(SizeModelError::Weight(0)));
    }
}
