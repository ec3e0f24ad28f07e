//! A whole workload: which key, how it is spelled, how long its value is and lives, and what is done with it.

use crate::popularity::PageLoad;
use crate::rng::{Rng, mix64};
use crate::{KeyShape, Mix, Operation, Popularity, SizeModel};

/// What is done with a key that a get does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// It is stored, as a look-aside client does.
    Fill,
    /// Nothing: the requests themselves hold the sets that follow misses.
    Leave,
}

/// When items expire: seconds that follow from the key's number.
#[derive(Debug, Clone, PartialEq)]
pub struct Expiry(SizeModel);

impl Expiry {
    pub const NEVER: Expiry = Expiry(SizeModel::Constant(0));

    /// This many seconds after they were stored; 0 means never.
    #[must_use]
    pub const fn after(seconds: u32) -> Self {
        Self(SizeModel::Constant(seconds))
    }

    /// Seconds by weight; none if the weights make no distribution.
    #[must_use]
    pub fn weighted(seconds: &[u32], weights: &[f64]) -> Option<Self> {
        SizeModel::weighted(seconds, weights).ok().map(Self)
    }

    /// Seconds from a store of key number `id` to its expiry, 0 for never.
    #[inline]
    #[must_use]
    pub fn of(&self, id: u64) -> u32 {
        // The length of the value follows from the number too, and must not go with the expiry.
        self.0.of(mix64(id ^ 0x6578_7069_7265_7301))
    }
}

/// What a [`Generator`] draws from.
#[derive(Debug, Clone)]
pub struct Model {
    pub popularity: Popularity,
    pub keys: KeyShape,
    pub sizes: SizeModel,
    pub mix: Mix,
    /// When an item expires.
    pub expiry: Expiry,
    pub on_miss: OnMiss,
}

impl Model {
    /// The first `count` keys, equally popular, with values of one length that do not expire; misses stay misses.
    #[must_use]
    pub const fn uniform(keys: KeyShape, count: u64, value_len: u32, mix: Mix) -> Self {
        Self {
            popularity: Popularity::Uniform { count },
            keys,
            sizes: SizeModel::Constant(value_len),
            mix,
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Generator {
    model: Model,
    rng: Rng,
    /// What is left of the load of a page.
    load: Option<PageLoad>,
}

impl Generator {
    /// The stream that `model` and `rng` give.
    #[must_use]
    pub const fn new(model: Model, rng: Rng) -> Self {
        Self { model, rng, load: None }
    }

    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    #[inline]
    pub fn operation(&mut self) -> Operation {
        self.model.mix.draw(&mut self.rng)
    }

    /// The number of a key for `operation`. Those of lone ones lie beyond the set of keys, so they are never stored.
    #[inline]
    pub fn id(&mut self, operation: Operation) -> u64 {
        let id = match &self.model.popularity {
            Popularity::Pages(_) => self.id_of_page(),
            other => other.draw(&mut self.rng),
        };
        if operation.is_lone() { id + self.model.popularity.count() } else { id }
    }

    /// The next item of the page, or the first of another.
    fn id_of_page(&mut self) -> u64 {
        let Popularity::Pages(pages) = &self.model.popularity else { return 0 };
        if let Some(id) = self.load.as_mut().and_then(Iterator::next) {
            return id;
        }
        let load = self.load.insert(pages.draw_load(&mut self.rng));
        load.next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Expiry, Generator, Model, OnMiss};
    use crate::mix::Weights;
    use crate::popularity::Pages;
    use crate::{KeyShape, Mix, Operation, Popularity, Rng, SizeModel};

    fn model(popularity: Popularity, weights: &Weights) -> Model {
        Model {
            popularity,
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(8),
            mix: Mix::new(weights).unwrap(),
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Fill,
        }
    }

    #[test]
    fn lone_gets_ask_for_keys_outside_the_set() {
        let weights = Weights { lone_get: 1.0, ..Weights::default() };
        let mut lone = Generator::new(model(Popularity::Uniform { count: 10 }, &weights), Rng::new(1));
        let operation = lone.operation();
        assert_eq!(operation, Operation::LoneGet);
        assert!((0..100).all(|_| (10..20).contains(&lone.id(operation))));
    }

    #[test]
    fn a_page_asks_for_the_same_items_each_time() {
        // One page of five items.
        let pages = Pages::new(1_000_000, 1, 0.9, SizeModel::Constant(5)).unwrap();
        let weights = Weights { get: 1.0, ..Weights::default() };
        let mut generator = Generator::new(model(Popularity::Pages(pages), &weights), Rng::new(1));
        let ids: Vec<u64> = (0..10).map(|_| generator.id(Operation::Get)).collect();
        assert_eq!(ids[..5], ids[5..]);
        assert!(ids[..5].iter().all(|id| *id < 1_000_000) && ids[0] != ids[1]);
    }

    #[test]
    fn expiry_follows_from_the_key_and_its_weights() {
        let expiry = Expiry::weighted(&[60, 120], &[0.75, 0.25]).unwrap();
        let short = (0..10_000).filter(|&id| expiry.of(id) == 60).count();
        assert!((7_300..7_700).contains(&short), "{short}");
        assert_eq!((expiry.of(5), Expiry::after(7).of(5), Expiry::NEVER.of(5)), (expiry.of(5), 7, 0));
        assert_eq!(Expiry::weighted(&[1], &[0.0]), None);
    }
}
