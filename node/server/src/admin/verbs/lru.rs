//! `lru`: memcached's words for the options of its segmented LRU, which are those of the policy `seg-lru` here. With another policy they
//! change nothing, since clients that send them do not expect to be refused.

use super::answer::{Answer, ERROR, OK, signed, unsigned};
use super::policy::PolicyVerb;
use crate::options::yes;
use guira_contract::Control;
use guira_serving::RateLimited;
use guira_sync::clock::CoarseClock;
use std::sync::Arc;

/// The policy that has these options.
const SEGMENTED: &str = "seg-lru";
/// HOT and WARM have at most this share of memory together, in percent.
const PERCENT_MAX: u32 = 80;

#[derive(Debug)]
pub(in crate::admin) struct Lru {
    control: Arc<dyn Control>,
    policy: Arc<PolicyVerb>,
    clock: CoarseClock,
    log_limit: RateLimited,
}

impl Lru {
    pub(super) fn new(control: Arc<dyn Control>, policy: Arc<PolicyVerb>, clock: CoarseClock) -> Self {
        Lru { control, policy, clock, log_limit: RateLimited::once() }
    }

    pub(super) fn run(&self, words: &[&str]) -> Answer {
        let options = match options(words) {
            Ok(options) => options,
            Err(line) => return line.into(),
        };
        let (policy, _) = self.control.policy();
        if policy.name != SEGMENTED {
            if self.log_limit.is_due(self.clock.now()) {
                // Operator: Set `policy = "seg-lru"` if you want to tune its segments.
                tracing::warn!("the lru command has no effect: the policy is not {SEGMENTED} (logged once)");
            }
            return OK.into();
        }
        let policy = options.into_iter().fold(policy, |policy, (key, value)| policy.with(key, value));
        self.policy.switch(&policy)
    }

    /// The lines of `stats settings` about memcached's segmented LRU: all off with another policy.
    pub(in crate::admin) fn settings(&self) -> [(&'static str, String); 8] {
        let (policy, _) = self.control.policy();
        let is_segmented = policy.name == SEGMENTED && policy.value("mode") != Some("flat");
        let number = |key: &str| policy.value(key).filter(|_| is_segmented).unwrap_or("0").to_owned();
        let factor = |key: &str| number(key).parse::<f64>().unwrap_or(0.0);
        [
            ("lru_maintainer_thread", yes(false)),
            ("lru_segmented", yes(is_segmented)),
            ("hot_lru_pct", number("hot_pct")),
            ("warm_lru_pct", number("warm_pct")),
            ("hot_max_factor", format!("{:.2}", factor("hot_factor"))),
            ("warm_max_factor", format!("{:.2}", factor("warm_factor"))),
            ("temp_lru", yes(is_segmented && policy.value("temp_ttl").is_some())),
            ("temporary_ttl", number("temp_ttl")),
        ]
    }
}

/// Options of the policy, each with a value or none.
type Options = Vec<(&'static str, Option<String>)>;

/// The options that the words behind `lru` mean; or memcached's answer to what means none.
fn options(words: &[&str]) -> Result<Options, &'static str> {
    let factor = |word: &str| word.parse::<f64>().map_err(|_| ERROR);
    match words {
        ["tune", hot, warm, hot_factor, warm_factor, ..] => {
            let (hot, warm) = (unsigned(hot).ok_or(ERROR)?, unsigned(warm).ok_or(ERROR)?);
            let (hot_factor, warm_factor) = (factor(hot_factor)?, factor(warm_factor)?);
            if hot.saturating_add(warm) > PERCENT_MAX {
                return Err("ERROR hot and warm pcts must not exceed 80");
            }
            if hot_factor <= 0.0 || warm_factor <= 0.0 {
                return Err("ERROR hot/warm age factors must be greater than 0");
            }
            Ok(vec![
                ("hot_pct", Some(hot.to_string())),
                ("warm_pct", Some(warm.to_string())),
                ("hot_factor", Some(hot_factor.to_string())),
                ("warm_factor", Some(warm_factor.to_string())),
            ])
        }
        ["mode", mode @ ("flat" | "segmented"), ..] => Ok(vec![("mode", Some((*mode).to_owned()))]),
        ["temp_ttl", seconds, ..] => {
            let seconds = signed(seconds).ok_or(ERROR)?;
            // A negative one turns the list off.
            Ok(vec![("temp_ttl", u32::try_from(seconds).ok().map(|seconds| seconds.to_string()))])
        }
        _ => Err(ERROR),
    }
}
