//! Which operation comes next.

use crate::rng::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Get,
    /// A get of a key that is never set.
    LoneGet,
    /// One get command with several keys.
    Multiget,
    Set,
    Delete,
    /// A delete of a key that is never set.
    LoneDelete,
}

impl Operation {
    /// Whether its key is one that is never set.
    #[must_use]
    pub const fn is_lone(self) -> bool {
        matches!(self, Self::LoneGet | Self::LoneDelete)
    }
}

/// Every operation, in the order of [`Weights`]' fields.
const OPERATIONS: [Operation; 6] = [
    Operation::Get,
    Operation::LoneGet,
    Operation::Multiget,
    Operation::Set,
    Operation::Delete,
    Operation::LoneDelete,
];

/// The weights of a mix; they need not add up to one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weights {
    /// Weight of [`Operation::Get`].
    pub get: f64,
    /// Weight of [`Operation::LoneGet`].
    pub lone_get: f64,
    /// Weight of [`Operation::Multiget`].
    pub multiget: f64,
    /// Weight of [`Operation::Set`].
    pub set: f64,
    /// Weight of [`Operation::Delete`].
    pub delete: f64,
    /// Weight of [`Operation::LoneDelete`].
    pub lone_delete: f64,
}

/// A mix of operations, drawn independently of each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Mix {
    /// One operation only: drawing costs nothing.
    Only(Operation),
    Several([f64; 6]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A weight is negative or not a number.
    #[error("a weight of the mix is negative or not a finite number")]
    Weight,
    /// There is nothing to draw.
    #[error("all weights of the mix are 0")]
    Empty,
}

impl Mix {
    /// The mix with these weights.
    ///
    /// # Errors
    /// When a weight is negative or not finite, or all are 0.
    pub fn new(weights: &Weights) -> Result<Self, MixError> {
        let list = [
            weights.get,
            weights.lone_get,
            weights.multiget,
            weights.set,
            weights.delete,
            weights.lone_delete,
        ];
        if list.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(MixError::Weight);
        }
        let total: f64 = list.iter().sum();
        if total <= 0.0 {
            return Err(MixError::Empty);
        }
        let mut present = OPERATIONS.iter().zip(list).filter(|(_, weight)| *weight > 0.0);
        if let (Some((&only, _)), None) = (present.next(), present.next()) {
            return Ok(Self::Only(only));
        }
        let mut sum = 0.0;
        Ok(Self::Several(list.map(|weight| {
            sum += weight / total;
            sum
        })))
    }

    /// Whether `operation` can be drawn.
    #[must_use]
    pub fn has(&self, operation: Operation) -> bool {
        match self {
            Self::Only(only) => *only == operation,
            Self::Several(cumulative) => {
                let lower = [0.0].into_iter().chain(cumulative.iter().copied());
                let mut bounds = OPERATIONS.iter().zip(lower.zip(cumulative));
                bounds.any(|(&known, (lower, &upper))| known == operation && upper > lower)
            }
        }
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> Operation {
        match self {
            Self::Only(operation) => *operation,
            Self::Several(cumulative) => {
                let at = rng.unit();
                let index = cumulative.iter().position(|&upper| at < upper);
                index.map_or(Operation::Get, |index| OPERATIONS[index])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mix, MixError, Operation, Weights};
    use crate::rng::Rng;

    #[test]
    fn draws_follow_the_weights() {
        let mix = Mix::new(&Weights { get: 95.0, set: 5.0, ..Weights::default() }).unwrap();
        let mut rng = Rng::new(11);
        let sets = (0..100_000).filter(|_| mix.draw(&mut rng) == Operation::Set).count();
        assert!((4_700..5_300).contains(&sets), "{sets}");
        assert!((0..1000).all(|_| matches!(mix.draw(&mut rng), Operation::Get | Operation::Set)));
    }

    #[test]
    fn one_weight_is_one_operation() {
        let mix = Mix::new(&Weights { multiget: 0.1, ..Weights::default() }).unwrap();
        assert_eq!(mix, Mix::Only(Operation::Multiget));
    }

    #[test]
    fn a_mix_has_what_has_a_weight() {
        let mix = Mix::new(&Weights { get: 1.0, delete: 0.5, ..Weights::default() }).unwrap();
        let has = |operation| mix.has(operation);
        assert!(has(Operation::Get) && has(Operation::Delete));
        assert!(!has(Operation::LoneGet) && !has(Operation::Multiget) && !has(Operation::Set));
        assert!(
            Mix::Only(Operation::Set).has(Operation::Set) && !Mix::Only(Operation::Set).has(Operation::Get)
        );
    }

    #[test]
    fn bad_weights_are_refused() {
        assert_eq!(Mix::new(&Weights::default()), Err(MixError::Empty));
        assert_eq!(Mix::new(&Weights { get: -1.0, ..Weights::default() }), Err(MixError::Weight));
        assert_eq!(Mix::new(&Weights { set: f64::NAN, ..Weights::default() }), Err(MixError::Weight));
    }
}
