//! The policy `auto`: what it misses beside the best of the engine's fixed policies.

use guira_sim::{Choice, Means, Measure, OnMiss, Reading, Rules, Sample, Size, Stream, Sweep, Writes};
use guira_workload::rng::Rng;
use guira_workload::trace::{Request, Trace};
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;

/// Objects that fit into the cache.
const FIT: u64 = 16_000;
const FIXED: [&str; 8] =
    ["clock", "lru", "seg-lru", "klru", "sieve", "s3-fifo", "s3-fifo:small_pct=25", "2q"];

/// Further candidates of `auto`, for what is measured. The bounds of the tests are beside the others.
const VARIANTS: [&str; 4] = [
    "s3-fifo:small_pct=2",
    "s3-fifo:skip_pct=30,promote=1",
    "s3-fifo:ghost_pct=200,skip_pct=30,promote=1",
    "s3-fifo:small_pct=25,skip_pct=50,promote=1",
];

/// What servers begin with: `clock`, and `s3-fifo` from the first fill on if items are long; `classic` its own.
const BEGINNINGS: [&str; 3] = ["clock", "seg-lru", "s3-fifo"];

fn misses(keys: &[u64], policies: &[&str], objects: u64) -> Vec<u64> {
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    let requests = keys.iter().map(|key| Ok::<_, Infallible>(Request::number(*key)));
    let Ok(stream) = Stream::read(requests, reading);
    let policies: Vec<Choice> = policies.iter().map(|name| Choice::parse(name).unwrap()).collect();
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let sizes = [Size::Objects(objects)];
    let sweep = Sweep { stream: &stream, policies: &policies, sizes: &sizes, rules };
    let points = sweep.run(Means { threads: 2, now_ns: &|| 0, progress: &|_| () }).unwrap();
    points.iter().map(|point| point.counters.reads - point.counters.hits).collect()
}

/// Misses of each policy from request `from` on.
fn late_misses(keys: &[u64], from: usize, policies: &[&str], objects: u64) -> Vec<u64> {
    let (before, all) = (misses(&keys[..from], policies, objects), misses(keys, policies, objects));
    all.iter().zip(before).map(|(all, before)| all - before).collect()
}

/// Misses of `auto` from request `from` on, for each of the best of the fixed policies.
fn regret_beside(fixed: &[&str], keys: &[u64], from: usize) -> f64 {
    let late = late_misses(keys, from, &[&["auto"], fixed].concat(), FIT);
    late[0] as f64 / *late[1..].iter().min().unwrap() as f64
}

fn regret(keys: &[u64], from: usize) -> f64 {
    regret_beside(&FIXED, keys, from)
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
fn around(_seed: u64, requests: usize) -> Vec<u64> {
    (0..requests as u64).map(|number| (1 << 42) + number % (FIT * 5 / 4)).collect()
}

/// Other keys each time, for which there is room: so many one after the other, and again.
fn other_keys(seed: u64, requests: usize, keys: u64) -> Vec<u64> {
    (0..requests as u64).map(|number| (1 << 43) + (seed << 32) + number % keys).collect()
}

const LONG: usize = 1_600_000;
/// Requests of two natures in turn.
const RHYTHM: usize = 3_200_000;

/// So many requests, by a seed.
type Nature = fn(u64, usize) -> Vec<u64>;

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
fn in_a_loop_it_misses_a_fifth_more_than_the_best_policy_and_not_all() {
    // What goes over from one order to another is not what a loop would have left there.
    let regret = regret(&around(1, LONG), LONG / 2);
    assert!(regret < 1.2, "{regret}");
}

#[test]
fn two_fills_after_requests_have_changed_their_nature_it_misses_little_more_than_the_best_policy() {
    // As many requests as are misses for two fills, or more.
    let fills = 4 * FIT as usize;
    let to_popular = |seed| [recent(seed + 10, LONG), popular_and_once(seed, LONG)].concat();
    let to_recent = |seed| [popular_and_once(seed, LONG), recent(seed + 1, LONG)].concat();
    let (popular, recent) = (mean_regret(to_popular, LONG + fills), mean_regret(to_recent, LONG + fills));
    assert!(popular < 1.04 && recent < 1.01, "{popular}, {recent}");
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
        assert!(regret < 1.03, "{fills}: {regret}");
    }
}

/// Two natures in turn, `length` requests of each.
fn in_turn(natures: [Nature; 2], length: usize) -> Vec<u64> {
    let turn = |turn: usize| natures[turn % 2](turn as u64, length);
    (0..RHYTHM / length).flat_map(turn).collect()
}

#[test]
fn requests_that_mislead_it_cost_little_beside_what_a_server_begins_with() {
    for (name, natures, fills) in [
        ("popular and recent", [popular_and_once as Nature, recent], 1),
        ("popular and loop", [popular_and_once, around], 2),
        ("popular and loop", [popular_and_once, around], 16),
    ] {
        let regret = regret_beside(&BEGINNINGS, &in_turn(natures, fills * FIT as usize), RHYTHM / 10);
        assert!(regret < 1.03, "{name}, {fills} fills of each: {regret}");
    }
}

#[test]
fn it_gives_up_a_policy_that_is_stuck_with_what_it_took_over() {
    // `2q` keeps what was there, and has no room for what is new.
    let few = |turn| other_keys(2 * turn, 6_000, 5_500);
    let all = (0..20).flat_map(|turn| [few(turn), other_keys(2 * turn + 1, 74_500, 13_800)].concat());
    let keys: Vec<u64> = all.collect();
    let regret = regret_beside(&BEGINNINGS, &keys, keys.len() / 10);
    assert!(regret < 1.2, "{regret}");
}

/// Prints what `auto` misses over the best fixed policy, and over the best that a server begins with, when requests change their nature in every rhythm, so that it learns what is over by then:
/// `cargo test --release -p guira-sim --test auto -- --ignored --nocapture rhythm`.
#[test]
#[ignore = "it measures"]
fn misses_of_requests_that_change_their_nature_in_every_rhythm() {
    let natures: [(&str, Nature); 3] = [("popular", popular_and_once), ("recent", recent), ("loop", around)];
    for (number, (one, first)) in natures.iter().enumerate() {
        for (other, second) in &natures[number + 1..] {
            for quarters in [1, 2, 4, 8, 16, 32, 64] {
                let length = quarters * FIT as usize / 4;
                let keys = in_turn([*first, *second], length);
                let [best, beginnings] =
                    [&FIXED[..], &BEGINNINGS].map(|fixed| regret_beside(fixed, &keys, RHYTHM / 10));
                println!("{one} and {other}, {length} requests of each in turn: {best:.3}, {beginnings:.3}");
            }
        }
    }
}

/// Two or three natures in turn, drawn at random: each with its keys, for a quarter of a fill to sixteen fills.
fn drawn(seed: u64, requests: usize) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let natures = 2 + rng.below(2);
    let drawn: Vec<(u64, usize, u64)> = (0..natures)
        .map(|_| {
            let (nature, length) = (rng.below(6), FIT as f64 / 4.0 * 64f64.powf(rng.unit()));
            (nature, length as usize, (FIT as f64 * 0.3 * 10f64.powf(rng.unit())) as u64)
        })
        .collect();
    let (mut all, mut turn) = (Vec::new(), 0);
    while all.len() < requests {
        let (nature, length, keys) = drawn[turn as usize % drawn.len()];
        turn += 1;
        let own = (1 << 45) + ((turn % natures) << 36);
        all.extend(match nature {
            0 => popular_and_once(turn, length),
            1 => recent(turn, length),
            2 => (0..length as u64).map(|number| own + number % keys).collect(),
            3 => other_keys(turn, length, keys),
            4 => (0..length)
                .map(|_| (1 << 44) + (turn << 32) + (4.0 * keys as f64).powf(rng.unit()) as u64)
                .collect(),
            _ => (0..length).map(|_| own + rng.below(keys)).collect::<Vec<_>>(),
        });
    }
    all
}

/// Prints what `auto` misses over the best fixed policy, and over each that a server begins with, of natures that are drawn at random:
/// `cargo test --release -p guira-sim --test auto -- --ignored --nocapture drawn`.
#[test]
#[ignore = "it measures"]
fn misses_of_natures_that_are_drawn_at_random() {
    const SEEDS: u64 = 180;
    let policies = [&["auto"], &FIXED[..], &VARIANTS[..]].concat();
    let beside = |name: &str| policies.iter().position(|policy| *policy == name).unwrap();
    let beginnings = BEGINNINGS.map(beside);
    let mut all: Vec<[f64; 4]> = Vec::new();
    for seed in 1..=SEEDS {
        let keys = drawn(seed, LONG);
        let late = late_misses(&keys, LONG / 10, &policies, FIT);
        let best = *late[1..].iter().min().unwrap();
        let [a, b, c] = beginnings.map(|number| late[number]);
        let over = [best, a, b, c].map(|misses| late[0] as f64 / misses as f64);
        println!("seed {seed}: {over:.3?}");
        all.push(over);
    }
    for (number, name) in [&["the best"], &BEGINNINGS[..]].concat().iter().enumerate() {
        let mut over: Vec<f64> = all.iter().map(|over| over[number]).collect();
        over.sort_by(f64::total_cmp);
        let mean = (over.iter().map(|ratio| ratio.ln()).sum::<f64>() / over.len() as f64).exp();
        println!("over {name}: {mean:.3} on average, at most {:.3?}", &over[over.len() - 5..]);
    }
}

/// Traces, below the folder that `GUIRA_TRACES` names.
const TRACES: [&str; 9] = [
    "caffeine/cache2k-orm-busy.trace.zst",
    "arc/OLTP.lis.zst",
    "arc/P3.lis.zst",
    "caffeine/cache2k-web12.trace.zst",
    "caffeine/cache2k-web07.trace.zst",
    "caffeine/lirs-sprite.trace.zst",
    "caffeine/lirs-multi3.trace.zst",
    "libcachesim/cloudPhysicsIO.csv.zst",
    "caffeine/adapt_size-request.trace.zst",
];

/// Prints what policies miss of traces, the first time and the last of four times in a row, beside the best fixed one of the engine (decision 53):
/// `GUIRA_TRACES=DIR cargo test --release -p guira-sim --test auto -- --ignored --nocapture traces`.
#[test]
#[ignore = "it measures"]
fn misses_of_traces_and_of_traces_that_begin_again() {
    for times in [1, 4] {
        print_misses(times);
    }
}

/// Prints misses of the last of so many times.
fn print_misses(times: usize) {
    const BESIDE: [&str; 3] = ["auto", "lirs", "w-tinylfu"];
    let folder =
        PathBuf::from(std::env::var_os("GUIRA_TRACES").expect("GUIRA_TRACES names the folder of traces"));
    let policies = [&BESIDE[..], &FIXED[..], &VARIANTS[..]].concat();
    let clock = policies.iter().position(|name| *name == "clock").unwrap();
    // Of each case and policy: misses over those of the best fixed policy, and over those of clock.
    let mut cases: Vec<Vec<[f64; 2]>> = Vec::new();
    for trace in TRACES {
        let reading = Reading { writes: Writes::Ask, sample: Sample::All, limit: 700_000 };
        let trace_file = Trace::new(File::open(folder.join(trace)).unwrap(), None).unwrap();
        let once = Stream::read(trace_file, reading).unwrap();
        let ids: Vec<u64> = once.ids().iter().map(|id| u64::from(*id)).collect();
        for percent in [5, 10, 25, 50] {
            let objects = once.keys() as u64 * percent / 100;
            let late = late_misses(&ids.repeat(times), ids.len() * (times - 1), &policies, objects);
            let fixed = late.iter().zip(&policies).skip(BESIDE.len());
            let (best, name) = fixed.min().unwrap();
            let over = |misses: u64| [*best, late[clock]].map(|other| misses as f64 / other as f64);
            let case: Vec<[f64; 2]> = late.iter().map(|misses| over(*misses)).collect();
            let beside: Vec<f64> = case.iter().take(BESIDE.len()).map(|[ratio, _]| *ratio).collect();
            println!("{trace} {percent} %: {name} {best}; auto, lirs, w-tinylfu: {beside:.3?}");
            cases.push(case);
        }
    }
    for (number, name) in policies.iter().enumerate() {
        let [of_best, of_clock] = [0, 1].map(|which| cases.iter().map(move |case| case[number][which]));
        let mean = of_best.clone().sum::<f64>() / cases.len() as f64;
        let (most, near) =
            (of_best.clone().fold(0.0, f64::max), of_best.filter(|ratio| *ratio <= 1.01).count());
        let geometric = (of_clock.map(f64::ln).sum::<f64>() / cases.len() as f64).exp();
        println!(
            "{times} times, {name}: mean {mean:.3} of the best, most {most:.3}, {near} of {} within 1.01; {geometric:.3} of clock",
            cases.len()
        );
    }
}
