//! Stand-ins for cache clusters of Twitter, by what was measured of them in March 2020: statistics of
//! github.com/twitter/cache-trace, stat/2020Mar.md (CC BY 4.0), collected by Yang, Yue and Rashmi (OSDI 2020).
//!
//! They are synthetic: keys are drawn independently, while real requests come in bursts, so a real cluster hits more in
//! a small cache. A simulation of fewer requests than the week had is a sample of the keys: there are as many as make
//! the measured share of requests the first of their key, and time runs so that the requests last a week.

use super::options::Options;
use super::{Recipe, RecipeError};
use crate::mix::Weights;
use crate::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, SizeModel};

pub(super) struct Cluster {
    pub(super) number: u32,
    key: usize,
    value: u32,
    /// Requests that are the first of their key, in percent.
    first: f64,
    /// Seconds until items expire, with their shares; those that are not listed are left out.
    ttls: &'static [(u32, f64)],
    /// Reads, writes and deletes. `gets` reads; whatever stores or changes an item writes.
    mix: [f64; 3],
    alpha: f64,
}

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// The clusters that the papers here used, and some that their collectors recommend for miss ratios and for writes.
pub(super) const CLUSTERS: [Cluster; 11] = [
    Cluster::new(12, 44, 1030, 79.45, &[(300, 0.98), (299, 0.02)], [0.20, 0.80, 0.0], 0.3048),
    Cluster::new(
        24,
        32,
        699,
        0.74,
        &[(14 * DAY, 0.71), (60, 0.19), (30 * DAY, 0.03), (DAY, 0.02), (HOUR, 0.02)],
        [0.99, 0.0, 0.0],
        1.3726,
    ),
    Cluster::new(
        26,
        122,
        1745,
        7.72,
        &[(60, 0.67), (120, 0.10), (360, 0.09), (600, 0.06), (660, 0.03), (180, 0.02)],
        [0.71, 0.29, 0.0],
        0.6299,
    ),
    Cluster::new(29, 36, 799, 4.45, &[(HOUR, 0.67), (2 * HOUR, 0.33)], [0.86, 0.13, 0.0], 1.2323),
    Cluster::new(31, 41, 15, 94.39, &[(60, 1.0)], [0.06, 0.94, 0.0], 0.0),
    Cluster::new(32, 41, 138, 97.62, &[(60, 1.0)], [0.02, 0.98, 0.0], 0.0),
    // The measured expiries of this one spread evenly over about an hour.
    Cluster::new(
        34,
        33,
        322,
        2.03,
        &[(35_280, 0.2), (36_000, 0.2), (36_720, 0.2), (37_440, 0.2), (38_160, 0.2)],
        [0.94, 0.06, 0.0],
        1.1401,
    ),
    Cluster::new(
        37,
        72,
        20_134,
        26.35,
        &[(20, 0.91), (300, 0.06), (2 * HOUR, 0.02), (600, 0.01)],
        [0.63, 0.37, 0.0],
        0.4251,
    ),
    Cluster::new(41, 44, 171, 8.5, &[(8 * HOUR, 0.95), (DAY, 0.05)], [0.50, 0.50, 0.0], 0.8542),
    Cluster::new(45, 10, 120, 35.07, &[(15 * DAY, 1.0)], [0.85, 0.15, 0.0], 0.6372),
    Cluster::new(
        52,
        20,
        273,
        3.07,
        &[(DAY, 0.65), (14 * DAY, 0.27), (12 * HOUR, 0.07)],
        [0.93, 0.06, 0.0],
        1.2117,
    ),
];

const WEEK: u32 = 7 * DAY;

impl Cluster {
    const fn new(
        number: u32,
        key: usize,
        value: u32,
        first: f64,
        ttls: &'static [(u32, f64)],
        mix: [f64; 3],
        alpha: f64,
    ) -> Self {
        Self { number, key, value, first, ttls, mix, alpha }
    }

    pub(super) fn name(&self) -> String {
        format!("twitter-{:03}", self.number)
    }

    pub(super) fn recipe(&self, options: &Options) -> Result<Recipe, RecipeError> {
        let alpha = options.number("alpha", 0.0, 10.0)?.unwrap_or(self.alpha);
        let requests = options.count("requests")?.unwrap_or(super::REQUESTS);
        let keys = match options.count("keys")? {
            Some(keys) => keys,
            None => keys_needed(alpha, requests, self.first / 100.0),
        };
        let [get, set, delete] = self.mix;
        let (seconds, shares): (Vec<u32>, Vec<f64>) = self.ttls.iter().copied().unzip();
        let key_len = self.key.max(KeyShape::len_needed(keys));
        let model = Model {
            popularity: Popularity::zipf(keys, alpha)?,
            keys: KeyShape::new(key_len, key_len, keys)?,
            sizes: SizeModel::Constant(self.value),
            mix: Mix::new(&Weights { get, set, delete, ..Weights::default() })?,
            expiry: Expiry::weighted(&seconds, &shares).unwrap_or(Expiry::NEVER),
            on_miss: OnMiss::Fill,
        };
        let about = format!(
            "synthetic, parameterised from Twitter cluster {} (twitter/cache-trace, CC BY 4.0): {keys} keys, Zipf {alpha}",
            self.number
        );
        let recipe = Recipe::new(options, about, model)?;
        let seconds = options.seconds("seconds")?.unwrap_or(WEEK);
        Ok(Recipe { seconds, ..recipe })
    }
}

/// How many keys make about `first` of all requests the first of their key.
fn keys_needed(alpha: f64, requests: u64, first: f64) -> u64 {
    let wanted = first * requests as f64;
    let (mut low, mut high) = (1_u64, 1_u64 << 44);
    // The number of keys that are drawn at all rises with the number there are.
    while high - low > 1 + low / 1000 {
        let middle = ((low as f64) * (high as f64)).sqrt() as u64;
        let middle = middle.clamp(low + 1, high - 1);
        if distinct(middle, alpha, requests as f64) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// How many of `keys` keys are drawn at least once by Zipf's law, on average. Beyond the first thousand, keys are taken
/// together that differ by at most a hundredth.
fn distinct(keys: u64, alpha: f64, requests: f64) -> f64 {
    let mut groups = Vec::new();
    let (mut rank, mut total) = (1, 0.0);
    while rank <= keys {
        let count = if rank < 1000 { 1 } else { (rank / 100).min(keys - rank + 1) };
        let weight = (rank as f64 + (count - 1) as f64 / 2.0).powf(-alpha);
        total += count as f64 * weight;
        groups.push((count as f64, weight));
        rank += count;
    }
    groups.iter().map(|(count, weight)| -count * (-requests * weight / total).exp_m1()).sum()
}

#[cfg(test)]
mod tests {
    use super::{CLUSTERS, distinct, keys_needed};

    #[test]
    fn all_keys_are_drawn_in_the_end_and_few_at_first() {
        assert!((distinct(1000, 0.99, 1e9) - 1000.0).abs() < 1e-6);
        assert!((distinct(1_000_000, 0.0, 10.0) - 10.0).abs() < 1e-3);
        // Half of the keys, each drawn as often as any other: ln 2 requests a key.
        assert!((distinct(1_000_000, 0.0, 693_147.2) - 500_000.0).abs() < 100.0);
    }

    #[test]
    fn every_cluster_can_have_its_measured_share_of_first_requests() {
        for cluster in &CLUSTERS {
            let keys = keys_needed(cluster.alpha, 10_000_000, cluster.first / 100.0);
            let share = distinct(keys, cluster.alpha, 1e7) / 1e5;
            assert!((share / cluster.first - 1.0).abs() < 0.01, "{}: {keys} keys, {share}", cluster.number);
        }
    }
}
