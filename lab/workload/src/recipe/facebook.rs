//! Facebook's pools, by tables 2 and 3 of "Scaling Memcache at Facebook" (Nishtala and others, NSDI 2013), pages by its
//! figure 9 and section 3.1, and the tiny keys of MemC3's section 3.
//!
//! The papers do not tell which keys are popular: Zipf's law with exponent 0.99 is assumed. Keys of pools have 32 bytes.

use super::options::Options;
use super::{KEYS, ReadFile, Recipe, RecipeError};
use crate::mix::Weights;
use crate::popularity::Pages;
use crate::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, SizeModel};

pub(super) struct Pool {
    pub(super) name: &'static str,
    /// Gets, sets and deletes in a second (table 2).
    rates: [f64; 3],
    /// Lengths of items by percentiles (table 3). The paper tells those from 5 to 99; the ends are chosen so that mean
    /// and standard deviation come out as it tells them, too.
    sizes: &'static [(f64, u32)],
}

pub(super) const POOLS: [Pool; 4] = [
    Pool {
        name: "wildcard",
        rates: [262_000.0, 8_260.0, 21_200.0],
        sizes: &[
            (0.0, 38),
            (5.0, 77),
            (25.0, 102),
            (50.0, 169),
            (75.0, 363),
            (95.0, 3_650),
            (99.0, 18_300),
            (99.95, 27_992),
            (100.0, 921_730),
        ],
    },
    Pool {
        name: "app",
        rates: [96_500.0, 11_900.0, 6_280.0],
        sizes: &[
            (0.0, 51),
            (5.0, 103),
            (25.0, 247),
            (50.0, 269),
            (75.0, 337),
            (95.0, 1_680),
            (99.0, 10_400),
            (99.9, 28_986),
            (100.0, 574_914),
        ],
    },
    Pool {
        name: "replicated",
        rates: [710_000.0, 1_750.0, 3_220.0],
        sizes: &[(0.0, 61), (5.0, 62), (25.0, 68), (100.0, 68)],
    },
    Pool {
        name: "regional",
        rates: [9_100.0, 790.0, 35_900.0],
        sizes: &[
            (0.0, 115),
            (5.0, 231),
            (25.0, 824),
            (50.0, 5_310),
            (75.0, 24_000),
            (95.0, 158_000),
            (99.0, 381_000),
            (100.0, 400_000),
        ],
    },
];

/// The share of deletes that delete something (section 4.1); the others name keys that are in no cache.
const DELETES_THAT_MATTER: f64 = 0.04;

const ALPHA: f64 = 0.99;

fn alpha(options: &Options) -> Result<f64, RecipeError> {
    Ok(options.number("alpha", 0.0, 10.0)?.unwrap_or(ALPHA))
}

impl Pool {
    pub(super) fn recipe(&self, options: &Options) -> Result<Recipe, RecipeError> {
        let keys = options.count("keys")?.unwrap_or(KEYS);
        let alpha = alpha(options)?;
        let [get, set, deletes] = self.rates;
        let weights = Weights {
            get,
            set,
            delete: deletes * DELETES_THAT_MATTER,
            lone_delete: deletes * (1.0 - DELETES_THAT_MATTER),
            ..Weights::default()
        };
        let model = Model {
            popularity: Popularity::zipf(keys, alpha)?,
            keys: KeyShape::new(32, 32, keys)?,
            sizes: SizeModel::quantiles(self.sizes)?,
            mix: Mix::new(&weights)?,
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Fill,
        };
        let about = format!(
            "synthetic, after Facebook's {} pool (Scaling Memcache, tables 2 and 3); assumed: {keys} keys, Zipf {alpha}",
            self.name
        );
        Recipe::new(options, about, model)
    }
}

/// How many servers, and so about how many items, a page asks: 56 of 100 loads fewer than 20 (figure 9), the others as
/// the popular page, 521 items on average and 1,740 at the 95th percentile (section 3.1), by a log-normal law.
const FAN_OUT: &[(f64, u32)] = &[
    (0.0, 1),
    (56.0, 19),
    (56.44, 22),
    (58.2, 46),
    (60.4, 69),
    (67.0, 135),
    (78.0, 284),
    (89.0, 597),
    (95.6, 1_166),
    (97.8, 1_740),
    (99.56, 3_688),
    (100.0, 8_562),
];

/// The mean number of keys in a batch (section 3.1).
const BATCH: u32 = 24;

/// Keys for each page: items of pages with about 230 keys are then on five pages each.
const KEYS_A_PAGE: u64 = 50;

pub(super) fn page(options: &Options, _: &ReadFile<'_>) -> Result<Recipe, RecipeError> {
    let keys = options.count("keys")?.unwrap_or(KEYS);
    let pages = (keys / KEYS_A_PAGE).max(1);
    let alpha = alpha(options)?;
    let popularity = Pages::new(keys, pages, alpha, SizeModel::quantiles(FAN_OUT)?)?;
    let model = Model {
        popularity: Popularity::Pages(popularity),
        keys: KeyShape::new(32, 32, keys)?,
        sizes: SizeModel::quantiles(POOLS[0].sizes)?,
        mix: Mix::Only(crate::Operation::Multiget),
        expiry: Expiry::NEVER,
        on_miss: OnMiss::Fill,
    };
    let about = format!(
        "synthetic, after Facebook's pages (Scaling Memcache, figure 9): batches of {BATCH}; assumed: {keys} keys on \
         {pages} pages, Zipf {alpha}, sizes of the wildcard pool"
    );
    Ok(Recipe { multiget_keys: BATCH, ..Recipe::new(options, about, model)? })
}

/// The common type of request that has keys of 16 or 21 bytes and values of 2, with 99.8 % gets.
pub(super) fn tiny(options: &Options, _: &ReadFile<'_>) -> Result<Recipe, RecipeError> {
    let keys = options.count("keys")?.unwrap_or(KEYS);
    let alpha = alpha(options)?;
    let model = Model {
        popularity: Popularity::zipf(keys, alpha)?,
        keys: KeyShape::either(16, 21, keys)?,
        sizes: SizeModel::Constant(2),
        mix: Mix::new(&Weights { get: 99.8, set: 0.2, ..Weights::default() })?,
        expiry: Expiry::NEVER,
        on_miss: OnMiss::Fill,
    };
    let about = format!(
        "synthetic, the tiny items that MemC3 (section 3) reports of Facebook: keys of 16 or 21 bytes, values of 2, \
         99.8 % gets; assumed: {keys} keys, Zipf {alpha}"
    );
    Recipe::new(options, about, model)
}
