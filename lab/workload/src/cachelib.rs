//! Models measured in production, read from the three JSON files of a CacheLib cachebench workload.
//!
//! | file | fields used |
//! |---|---|
//! | `config.json` | `test_config`: operation ratios, `numKeys`, `keySizeRange`, `enableLookaside` |
//! | `sizes.json` | `valSizeRange` with `valSizeRangeProbability`: equally many are single sizes, one more are bounds |
//! | `pop.json` | `popularityBuckets[i]` keys share the weight `popularityWeights[i]` |
//!
//! Key sizes beyond the memcached protocol's 250 bytes are cut to it. Only the range's ends are used for keys: the
//! piecewise probabilities between them are left out, and [`Config::key_len`] says so.

use serde::Deserialize;

use crate::keys::{KEY_LEN_MAX, KeyShapeError};
use crate::mix::{Mix, MixError, Weights};
use crate::popularity::{Buckets, BucketsError};
use crate::sizes::{SizeModel, SizeModelError};
use crate::{Expiry, KeyShape, Model, OnMiss, Popularity};

/// The contents of the three files of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files<'a> {
    pub config: &'a str,
    pub sizes: &'a str,
    /// `pop.json`.
    pub popularity: &'a str,
}

/// Meta's key-value cache, from facebook/CacheLib (Apache-2.0): `traces/kvcache_reg`.
pub const KVCACHE_REG: Files<'static> = Files {
    config: include_str!("../traces/kvcache_reg/config.json"),
    sizes: include_str!("../traces/kvcache_reg/sizes.json"),
    popularity: include_str!("../traces/kvcache_reg/pop.json"),
};

/// Why a file of a CacheLib workload cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheLibError {
    /// It is not the JSON that was expected.
    #[error("{file} does not have the format of CacheLib")]
    Json { file: &'static str, source: serde_json::Error },
    /// The value sizes do not make a distribution.
    #[error("sizes.json")]
    Sizes(#[from] SizeModelError),
    /// The popularities do not make a distribution.
    #[error("pop.json")]
    Popularity(#[from] BucketsError),
    /// The operation ratios do not make a mix.
    #[error("config.json")]
    Mix(#[from] MixError),
    /// The keys are too short, or there are too many.
    #[error(transparent)]
    Keys(#[from] KeyShapeError),
    /// There is no range of key sizes.
    #[error("config.json has no keySizeRange")]
    NoKeySizes,
}

/// What `config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Which operations. `getRatio` includes the lone gets, so the mix takes them apart.
    pub mix: Mix,
    /// The number of keys in production.
    pub keys: u64,
    /// Shortest and longest key, cut to what the protocol allows; lengths between are taken as equally likely.
    pub key_len: (usize, usize),
    /// Whether a miss is followed by a set.
    pub on_miss: OnMiss,
}

#[derive(Deserialize)]
struct ConfigFile {
    test_config: TestConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestConfig {
    num_keys: u64,
    #[serde(default)]
    key_size_range: Vec<f64>,
    #[serde(default)]
    get_ratio: f64,
    #[serde(default)]
    lone_get_ratio: f64,
    #[serde(default)]
    set_ratio: f64,
    #[serde(default)]
    del_ratio: f64,
    #[serde(default)]
    enable_lookaside: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SizesFile {
    val_size_range: Vec<u32>,
    val_size_range_probability: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PopularityFile {
    popularity_buckets: Vec<u64>,
    popularity_weights: Vec<f64>,
}

fn parse<'a, T: Deserialize<'a>>(file: &'static str, text: &'a str) -> Result<T, CacheLibError> {
    serde_json::from_str(text).map_err(|source| CacheLibError::Json { file, source })
}

/// Reads `config.json`.
///
/// # Errors
/// When it is not CacheLib's JSON, or has no operations or key sizes.
pub fn config(text: &str) -> Result<Config, CacheLibError> {
    let ConfigFile { test_config: test } = parse("config.json", text)?;
    let cut = |len: f64| (len.max(1.0) as usize).min(KEY_LEN_MAX);
    let (Some(&first), Some(&last)) = (test.key_size_range.first(), test.key_size_range.last()) else {
        return Err(CacheLibError::NoKeySizes);
    };
    // In most of the files the two ratios add up to one; kvcache_reg's getRatio counts the lone gets in.
    let found = if test.get_ratio + test.lone_get_ratio > 1.0 + 1e-9 {
        test.get_ratio - test.lone_get_ratio
    } else {
        test.get_ratio
    };
    let weights = Weights {
        get: found,
        lone_get: test.lone_get_ratio,
        set: test.set_ratio,
        delete: test.del_ratio,
        ..Weights::default()
    };
    Ok(Config {
        mix: Mix::new(&weights)?,
        keys: test.num_keys,
        key_len: (cut(first), cut(last)),
        on_miss: if test.enable_lookaside { OnMiss::Fill } else { OnMiss::Leave },
    })
}

/// Reads `sizes.json`.
///
/// # Errors
/// When it is not CacheLib's JSON or makes no distribution.
pub fn sizes(text: &str) -> Result<SizeModel, CacheLibError> {
    let file: SizesFile = parse("sizes.json", text)?;
    Ok(SizeModel::weighted(&file.val_size_range, &file.val_size_range_probability)?)
}

/// Reads `pop.json`, with every bucket made larger or smaller so that there are about `keys` keys in all.
///
/// # Errors
/// When it is not CacheLib's JSON or makes no distribution.
pub fn popularity(text: &str, keys: u64) -> Result<Buckets, CacheLibError> {
    let file: PopularityFile = parse("pop.json", text)?;
    let total: u64 = file.popularity_buckets.iter().sum();
    let scale = keys as f64 / total.max(1) as f64;
    let scaled: Vec<u64> = file
        .popularity_buckets
        .iter()
        .map(|&size| if size == 0 { 0 } else { ((size as f64 * scale).round() as u64).max(1) })
        .collect();
    Ok(Buckets::new(&scaled, &file.popularity_weights)?)
}

/// What all three files describe, with about `keys` keys.
///
/// # Errors
/// When one of them cannot be used.
pub fn model(files: &Files<'_>, keys: u64) -> Result<Model, CacheLibError> {
    let config = config(files.config)?;
    let popularity = Popularity::Buckets(popularity(files.popularity, keys)?);
    // Production keys shorter than their numbers are written longer, so that all stay distinct.
    let named = popularity.count().saturating_mul(2);
    let (min, max) = config.key_len;
    let min = min.max(KeyShape::len_needed(named));
    Ok(Model {
        keys: KeyShape::new(min, max.max(min), named)?,
        popularity,
        sizes: sizes(files.sizes)?,
        mix: config.mix,
        expiry: Expiry::NEVER,
        on_miss: config.on_miss,
    })
}

#[cfg(test)]
mod tests {
    use super::{CacheLibError, KVCACHE_REG, config, model, popularity, sizes};
    use crate::{OnMiss, Operation, Popularity, Rng};

    #[test]
    fn kvcache_reg_has_the_sizes_that_its_readme_tells() {
        let sizes = sizes(KVCACHE_REG.sizes).unwrap();
        let mut drawn: Vec<u32> = (0..200_000).map(|id| sizes.of(id)).collect();
        drawn.sort_unstable();
        let at = |share: f64| drawn[(share * drawn.len() as f64) as usize];
        assert_eq!((at(0.1), at(0.5), at(0.9), at(0.99)), (95, 159, 191, 959));
        assert!((sizes.mean() - 335.0).abs() < 1.0, "{}", sizes.mean());
    }

    #[test]
    fn kvcache_reg_has_its_operations_and_keys() {
        let config = config(KVCACHE_REG.config).unwrap();
        assert_eq!(config.keys, 14_463_466_000);
        assert_eq!(config.key_len, (16, 250));
        assert_eq!(config.on_miss, OnMiss::Fill);
        let mut rng = Rng::new(1);
        let lone = (0..100_000).filter(|_| config.mix.draw(&mut rng) == Operation::LoneGet).count();
        // 0.1347 of 0.9845 requests.
        assert!((13_300..14_100).contains(&lone), "{lone}");
    }

    #[test]
    fn the_files_make_a_model() {
        let model = model(&KVCACHE_REG, 100_000).unwrap();
        assert!((99_000..101_000).contains(&model.popularity.count()));
        assert!((0..1000).all(|id| (16..=250).contains(&model.keys.len_of(id))));
    }

    #[test]
    fn popularity_is_scaled_to_the_keys_asked_for() {
        let buckets = Popularity::Buckets(popularity(KVCACHE_REG.popularity, 1_000_000).unwrap());
        let count = buckets.count();
        assert!((995_000..1_005_000).contains(&count), "{count}");
        let mut rng = Rng::new(1);
        assert!((0..10_000).all(|_| buckets.draw(&mut rng) < count));
    }

    #[test]
    fn what_is_not_cachelibs_json_is_refused_by_name() {
        assert!(matches!(sizes("{}"), Err(CacheLibError::Json { file: "sizes.json", .. })));
        assert!(matches!(config("[1]"), Err(CacheLibError::Json { file: "config.json", .. })));
        let no_sizes = r#"{"test_config": {"numKeys": 1, "getRatio": 1.0}}"#;
        assert!(matches!(config(no_sizes), Err(CacheLibError::NoKeySizes)));
        let reversed = r#"{"valSizeRange": [9, 1], "valSizeRangeProbability": [1.0]}"#;
        assert!(matches!(sizes(reversed), Err(CacheLibError::Sizes(_))));
    }
}
