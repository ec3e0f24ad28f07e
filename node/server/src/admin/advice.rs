//! `stats mrc`: the hit ratios of more memory, less memory, and other policies.

use super::Admin;
use super::text::Lines;
use crate::background::push_encoded;
use guira_advice::{Advice, Advisor, LongSet, Policies, PoolAdvice, SCALES, WorkingSet};
use guira_memory::MIB;
use guira_protocol::fits_in_text;

impl Admin {
    /// Answers `stats mrc`, but for its end.
    pub(super) fn advise(&self, advisor: &Advisor, out: &mut Lines<'_>) {
        self.auto.pulse(self.clock.now());
        advisor.policies().iter().for_each(|policies| show_policies(out, policies));
        out.stat("policy_changes", self.auto.describe().changes);
        let Some(advice) = advisor.advice() else { return };
        show_sample(out, &advice, advisor.dropped());
        for one in &advice.policies {
            for (scale, ratio) in SCALES.into_iter().zip(one.hit_ratios) {
                out.stat(&format!("{}:hit_ratio:{scale}", one.policy.name()), known(ratio));
            }
        }
        show_set(out, "", advice.working_set);
        show_long_sets(out, "", &advice.long_sets);
        // Prefixes are parts of keys.
        let families = if self.options.disable_dumping { &[] } else { &advice.families[..] };
        for family in families {
            let name = name_of(&family.prefix);
            out.stat(&format!("prefix:{name}:share"), format!("{:.4}", family.share));
            for (scale, ratio) in SCALES.into_iter().zip(family.hit_ratios) {
                out.stat(&format!("prefix:{name}:hit_ratio:{scale}"), known(ratio));
            }
            let prefix = format!("prefix:{name}:");
            show_set(out, &prefix, family.working_set);
            show_long_sets(out, &prefix, &family.long_sets);
            out.stat(&format!("{prefix}pool"), pool(family.pool));
        }
    }
}

fn known(ratio: Option<f64>) -> String {
    ratio.map_or("NULL".to_owned(), |ratio| format!("{ratio:.4}"))
}

/// The prefix of a family, as one word.
fn name_of(prefix: &[u8]) -> String {
    if prefix.is_empty() {
        return "*".to_owned();
    }
    let mut name = Vec::new();
    if fits_in_text(prefix) {
        name.extend_from_slice(prefix);
    } else {
        push_encoded(prefix, &mut name);
    }
    String::from_utf8_lossy(&name).into_owned()
}

/// The misses of the policies that the server may choose.
fn show_policies(out: &mut Lines<'_>, policies: &Policies) {
    out.stat("policies_rate", format!("{:.8}", policies.rate));
    out.stat("policies_objects", policies.objects);
    out.stat("policies_reads", policies.reads);
    out.stat("policies_bytes", policies.bytes);
    for (policy, misses) in &policies.misses {
        let ratio = (policies.reads > 0).then(|| *misses as f64 / policies.reads as f64);
        out.stat(&format!("{policy}:miss_ratio"), known(ratio));
    }
}

fn show_sample(out: &mut Lines<'_>, advice: &Advice, dropped: u64) {
    out.stat("seconds", advice.seconds);
    out.stat("reads", advice.reads);
    out.stat("hit_ratio", known(advice.measured));
    out.stat("sample_rate", format!("{:.8}", advice.sample.rate));
    out.stat("sample_reads", advice.sampled_reads);
    out.stat("sample_keys", advice.sample.keys);
    out.stat("sample_objects", advice.sample.objects);
    out.stat("sample_bytes", advice.sample.bytes);
    out.stat("sample_dropped", dropped);
    let served = advice.policies.iter().find(|one| one.is_served);
    out.stat("policy", served.map_or("NULL".to_owned(), |one| one.policy.to_string()));
    for (scale, error) in SCALES.into_iter().zip(advice.uncertainty) {
        out.stat(&format!("uncertainty:{scale}"), known(error));
    }
}

fn show_set(out: &mut Lines<'_>, prefix: &str, set: WorkingSet) {
    out.stat(&format!("{prefix}working_set_keys"), set.keys);
    out.stat(&format!("{prefix}working_set_bytes"), set.bytes);
    out.stat(&format!("{prefix}churn"), known(set.churn));
}

/// Sets of a day and a week, and the share of the week's keys that a day does not have: how much the keys change within it.
fn show_long_sets(out: &mut Lines<'_>, prefix: &str, sets: &[LongSet; 2]) {
    for LongSet { name, seconds, keys, bytes: [least, mean, most], churn } in sets {
        out.stat(&format!("{prefix}{name}_seconds"), seconds);
        out.stat(&format!("{prefix}{name}_keys"), keys);
        out.stat(&format!("{prefix}{name}_bytes_min"), least);
        out.stat(&format!("{prefix}{name}_bytes_mean"), mean);
        out.stat(&format!("{prefix}{name}_bytes_max"), most);
        out.stat(&format!("{prefix}{name}_churn"), known(*churn));
    }
    let [day, week] = sets;
    let beyond_a_day = 1.0 - day.keys as f64 / week.keys as f64;
    let is_known = week.seconds > day.seconds && week.keys > 0;
    out.stat(&format!("{prefix}week_beyond_day"), known(is_known.then(|| beyond_a_day.max(0.0))));
}

/// The effect of a separate pool, in one line.
fn pool(advice: PoolAdvice) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mebibytes = |bytes: f64| format!("{:.1} MiB", bytes / MIB as f64);
    match advice {
        PoolAdvice::Unknown => "not known: it takes two days, and 30 keys of it in the sample".to_owned(),
        PoolAdvice::Churns { churn, bytes } => format!(
            "a pool of its own would spare other keys its churn: {} of a day's keys are new; they take {}",
            percent(churn),
            mebibytes(bytes)
        ),
        PoolAdvice::ComesBack { churn, bytes, gain } => format!(
            "a pool of its own of {} would keep it: {} of a day's keys are new, and {} of its reads miss for want of memory",
            mebibytes(bytes),
            percent(churn),
            percent(gain)
        ),
        PoolAdvice::Stays { churn } => {
            format!("a pool of its own would gain little: {} of a day's keys are new", percent(churn))
        }
    }
}
