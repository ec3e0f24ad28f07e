//! The policy `auto`: what it misses beside the best of the engine's fixed policies.

use guira_sim::{Choice, Means, Measure, OnMiss, Reading, Rules, Sample, Size, Stream, Sweep, Writes};
use guira_workload::rng::Rng;
use guira_workload::trace::Request;
use std::convert::Infallible;

/// Objects that fit into the cache.
const FIT: u64 = 16_000;
const FIXED: [&str; 8] =
    ["clock", "lru", "seg-lru", "klru", "sieve", "s3-fifo", "s3-fifo:small_pct=25", "2q"];

/// Misses of each policy.
fn misses(keys: &[u64], policies: &[&str]) -> Vec<u64> {
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    let requests = keys.iter().map(|key| Ok::<_, Infallible>(Request::number(*key)));
    let Ok(stream) = Stream::read(requests, reading);
    let policies: Vec<Choice> = policies.iter().map(|name| Choice::parse(name).unwrap()).collect();
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let sizes = [Size::Objects(FIT)];
    let sweep = Sweep { stream: &stream, policies: &policies, sizes: &sizes, rules };
    let points = sweep.run(Means { threads: 2, now_ns: &|| 0, progress: &|_| () }).unwrap();
    points.iter().map(|point| point.counters.reads - point.counters.hits).collect()
}

/// Misses of `auto` from request `from` on, for each of the best fixed policy's.
fn regret(keys: &[u64], from: usize) -> f64 {
    let policies = [&["auto"], &FIXED[..]].concat();
    let (before, all) = (misses(&keys[..from], &policies), misses(keys, &policies));
    let late: Vec<u64> = all.iter().zip(before).map(|(all, before)| all - before).collect();
    let best = late[1..].iter().min().unwrap();
    late[0] as f64 / *best as f64
}

/// Popular keys by Zipf's law, and others that are asked for once.
fn popular_and_once(seed: u64, requests: usize) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let next = |number| match rng.below(4) {
        0 => (1 << 40) + seed * (1 << 30) + number as u64,
        _ => 80_000f64.powf(rng.unit()) as u64,
    };
    (0..requests).map(next).collect()
}

/// Keys that are asked for some times soon after each other, and then no more.
fn recent(seed: u64, requests: usize) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let next = |number: usize| {
        let back = rng.unit().powi(2) * 2.0 * FIT as f64;
        (1 << 41) + seed * (1 << 30) + (number as u64 / 3 + 80_000).saturating_sub(back as u64)
    };
    (0..requests).map(next).collect()
}

/// More keys than there is room for, one after the other and again.
fn around(requests: usize) -> Vec<u64> {
    (0..requests as u64).map(|number| (1 << 42) + number % (FIT * 5 / 4)).collect()
}

const LONG: usize = 1_600_000;

/// The mean over some seeds: which keys are in the sample is chance.
fn mean_regret(keys: impl Fn(u64) -> Vec<u64>, from: usize) -> f64 {
    const SEEDS: u64 = 3;
    (1..=SEEDS).map(|seed| regret(&keys(seed), from)).sum::<f64>() / SEEDS as f64
}

#[test]
fn in_the_steady_state_it_misses_as_much_as_the_best_policy() {
    let popular = mean_regret(|seed| popular_and_once(seed, LONG), LONG / 2);
    let recent = regret(&recent(2, LONG), LONG / 2);
    assert!(popular < 1.01 && recent < 1.01, "{popular}, {recent}");
}

#[test]
fn in_a_loop_it_misses_a_seventh_more_than_the_best_policy_and_not_all() {
    // What goes over from one order to another is not what a loop would have left there.
    let regret = regret(&around(LONG), LONG / 2);
    assert!(regret < 1.15, "{regret}");
}

#[test]
fn two_fills_after_requests_have_changed_their_nature_it_misses_little_more_than_the_best_policy() {
    // As many requests as are misses for two fills, or more.
    let fills = 4 * FIT as usize;
    let to_popular = |seed| [recent(seed + 10, LONG), popular_and_once(seed, LONG)].concat();
    let to_recent = [popular_and_once(1, LONG), recent(2, LONG)].concat();
    let (popular, recent) = (mean_regret(to_popular, LONG + fills), regret(&to_recent, LONG + fills));
    assert!(popular < 1.03 && recent < 1.01, "{popular}, {recent}");
}

#[test]
fn requests_that_change_their_nature_all_the_time_cost_little() {
    for fills in [2, 8] {
        let length = fills * FIT as usize;
        let turn = |number: usize| match number % 2 {
            0 => popular_and_once(number as u64, length),
            _ => recent(number as u64, length),
        };
        let keys: Vec<u64> = (0..100 / fills).flat_map(turn).collect();
        let regret = regret(&keys, 2 * length);
        assert!(regret < 1.02, "{fills}: {regret}");
    }
}
