//! Workloads by name: `zipf:keys=1m,alpha=0.99`, `twitter-034`, `fb-wildcard`.
//!
//! What the sources tell is used as they tell it; what they leave open is assumed, and [`Recipe::about`] says so.

mod facebook;
mod options;
mod requests;
mod twitter;

use std::path::PathBuf;

pub use options::OptionError;
pub use requests::Requests;

use crate::cachelib::{self, CacheLibError, Files};
use crate::keys::KeyShapeError;
use crate::mix::{MixError, Weights};
use crate::sizes::SizeModelError;
use crate::zipf::ZipfError;
use crate::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, SizeModel};
use options::Options;

/// Requests of a workload by default.
const REQUESTS: u64 = 10_000_000;
/// Keys of a workload by default.
const KEYS: u64 = 1_000_000;

/// A workload that was asked for.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub name: String,
    /// What it is, by whom it was measured, and what is assumed.
    pub about: String,
    pub model: Model,
    pub multiget_keys: u32,
    /// How many requests a simulation makes.
    pub requests: u64,
    /// Seconds over which they are spread; 0 where time does not matter.
    pub seconds: u32,
    /// Where all random numbers come from.
    pub seed: u64,
}

/// Why there is no such workload.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The name is not known.
    #[error("unknown workload '{name}'; use one of: {known}")]
    Unknown { name: String, known: String },
    /// An option is not known, or has a wrong value.
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Zipf(#[from] ZipfError),
    /// The mix of operations is impossible.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// The lengths of keys are impossible.
    #[error(transparent)]
    Keys(#[from] KeyShapeError),
    /// The lengths of values are impossible.
    #[error(transparent)]
    Sizes(#[from] SizeModelError),
    /// A file of CacheLib's cannot be used.
    #[error(transparent)]
    CacheLib(#[from] CacheLibError),
    #[error("cannot read {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
}

/// What makes a workload of the options given.
type Make = fn(&Options, &ReadFile<'_>) -> Result<Recipe, RecipeError>;

/// Who reads files for a workload that lies in some.
type ReadFile<'a> = dyn Fn(&std::path::Path) -> std::io::Result<String> + 'a;

/// Names of workloads, their own options beside those that all have, and what they are; a row of
/// [`twitter::CLUSTERS`] or [`facebook::POOLS`] is one more.
const KINDS: [(&str, &[&str], &str, Make); 5] = [
    ("zipf", &["alpha", "get", "set", "delete", "value", "key", "ttl"], "Zipf's law, alpha 0.99", zipf),
    ("uniform", &["get", "set", "delete", "value", "key", "ttl"], "all keys equally popular", uniform),
    ("cachelib", &["dir"], "CacheLib's distributions; dir=PATH, or Meta's kvcache_reg", from_cachelib),
    ("fb-page", &["alpha"], "pages of Facebook with many keys (figure 9)", facebook::page),
    (
        "fb-tiny",
        &["alpha"],
        "tiny items of Facebook: keys of 16 or 21 bytes, values of 2 (MemC3, section 3)",
        facebook::tiny,
    ),
];

/// Options that every workload has.
const COMMON: [&str; 4] = ["keys", "requests", "seconds", "seed"];

/// Every workload: its name, its options, and what it is.
#[must_use]
pub fn list() -> Vec<(String, String, String)> {
    let options = |own: &[&str]| [own, &COMMON].concat().join(", ");
    let kinds =
        KINDS.iter().map(|(name, own, about, _)| ((*name).to_owned(), options(own), (*about).to_owned()));
    let pools = facebook::POOLS.iter().map(|pool| {
        (
            format!("fb-{}", pool.name),
            options(&["alpha"]),
            format!("Facebook's {} pool (tables 2 and 3)", pool.name),
        )
    });
    let clusters = twitter::CLUSTERS.iter().map(|cluster| {
        let about = format!("synthetic, parameterised from Twitter cluster {}", cluster.number);
        (cluster.name(), options(&["alpha"]), about)
    });
    kinds.chain(pools).chain(clusters).collect()
}

impl Recipe {
    /// The workload written as `NAME[:key=value,…]`. `read` reads the files of one that lies in some.
    ///
    /// # Errors
    /// If there is no such workload or option (the error lists what there is), or a value is impossible.
    pub fn parse(text: &str, read: &ReadFile<'_>) -> Result<Self, RecipeError> {
        let options = Options::parse(text)?;
        if let Some((_, own, _, make)) = KINDS.iter().find(|(name, ..)| *name == options.name) {
            options.allow(&[own, &COMMON[..]].concat())?;
            return make(&options, read);
        }
        let with_alpha = [&["alpha"], &COMMON[..]].concat();
        if let Some(cluster) = twitter::CLUSTERS.iter().find(|cluster| cluster.name() == options.name) {
            options.allow(&with_alpha)?;
            return cluster.recipe(&options);
        }
        let pool = options.name.strip_prefix("fb-");
        if let Some(pool) = facebook::POOLS.iter().find(|known| Some(known.name) == pool) {
            options.allow(&with_alpha)?;
            return pool.recipe(&options);
        }
        let known: Vec<String> = list().into_iter().map(|(name, ..)| name).collect();
        Err(RecipeError::Unknown { name: options.name, known: known.join(", ") })
    }

    /// The workload of a model, with the options of every workload.
    fn new(options: &Options, about: String, model: Model) -> Result<Self, RecipeError> {
        Ok(Self {
            name: options.text.clone(),
            about,
            model,
            multiget_keys: 1,
            requests: options.count("requests")?.unwrap_or(REQUESTS),
            seconds: options.seconds("seconds")?.unwrap_or(0),
            seed: options.count("seed")?.unwrap_or(1),
        })
    }

    #[must_use]
    pub fn requests(&self) -> Requests {
        Requests::new(self)
    }
}

fn zipf(options: &Options, _: &ReadFile<'_>) -> Result<Recipe, RecipeError> {
    let alpha = options.number("alpha", 0.0, 10.0)?.unwrap_or(0.99);
    let keys = options.count("keys")?.unwrap_or(KEYS);
    let about = format!("{keys} keys by Zipf's law with exponent {alpha}");
    simple(options, about, Popularity::zipf(keys, alpha)?)
}

fn uniform(options: &Options, _: &ReadFile<'_>) -> Result<Recipe, RecipeError> {
    let keys = options.count("keys")?.unwrap_or(KEYS).max(1);
    simple(options, format!("{keys} keys, all equally popular"), Popularity::Uniform { count: keys })
}

fn simple(options: &Options, about: String, popularity: Popularity) -> Result<Recipe, RecipeError> {
    let weight = |name, usual| Ok::<f64, OptionError>(options.number(name, 0.0, 1e9)?.unwrap_or(usual));
    let weights = Weights {
        get: weight("get", 1.0)?,
        set: weight("set", 0.0)?,
        delete: weight("delete", 0.0)?,
        ..Weights::default()
    };
    let (key_min, key_max) = options.lengths("key")?.unwrap_or((16, 16));
    let (value_min, value_max) = options.lengths("value")?.unwrap_or((32, 32));
    let keys = popularity.count();
    let model = Model {
        popularity,
        keys: KeyShape::new(key_min as usize, key_max as usize, keys)?,
        sizes: SizeModel::range(value_min, value_max)?,
        mix: Mix::new(&weights)?,
        expiry: options.seconds("ttl")?.map_or(Expiry::NEVER, Expiry::after),
        on_miss: OnMiss::Fill,
    };
    Recipe::new(options, about, model)
}

fn from_cachelib(options: &Options, read: &ReadFile<'_>) -> Result<Recipe, RecipeError> {
    let keys = options.count("keys")?.unwrap_or(KEYS);
    let dir = options.text_of("dir").map(PathBuf::from);
    let text = |name: &str| match &dir {
        None => Ok(String::new()),
        Some(dir) => {
            let path = dir.join(name);
            read(&path).map_err(|source| RecipeError::File { path, source })
        }
    };
    let (config, sizes, popularity) = (text("config.json")?, text("sizes.json")?, text("pop.json")?);
    let files = match dir {
        None => cachelib::KVCACHE_REG,
        Some(_) => Files { config: &config, sizes: &sizes, popularity: &popularity },
    };
    let model = cachelib::model(&files, keys)?;
    let source = dir.as_ref().map_or("kvcache_reg".to_owned(), |dir| dir.display().to_string());
    let about = format!("CacheLib's {source} (facebook/CacheLib, Apache-2.0), scaled to {keys} keys");
    Recipe::new(options, about, model)
}

#[cfg(test)]
mod tests;
