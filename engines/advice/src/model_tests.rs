use super::{LEAST_BUDGET, Model};
use crate::advice::{Advice, SCALES, WINDOW};
use crate::load::PER_PULSE;
use crate::observed::{Observed, Pulse, What};
use crate::sketch::ALL_HASHES;
use guira_contract::Spec;
use guira_slab::Policy;
use guira_slab::policy::lru::Lru;
use guira_slab::policy::miniature::{InOrder, Miniature as _, NEVER, Newcomer};
use guira_sync::clock::Seconds;
use std::time::Duration;

const WEIGHT: u32 = 100;
const MIB: usize = 1 << 20;

fn hash(key: u32) -> u64 {
    let mixed = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 29
}

/// Keys by Zipf's law with exponent 1, by inverting the sum's logarithm.
struct Zipf {
    state: u64,
    keys: f64,
}

impl Zipf {
    fn next(&mut self) -> u32 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        (self.keys.powf(uniform) - 1.0) as u32
    }
}

/// A cache of strict LRU, in which all keys are, and the model that watches it.
struct Server {
    cache: InOrder<Lru>,
    model: Model,
    now: Seconds,
    reads: u64,
    hits: u64,
    busy: Duration,
    objects: u64,
}

impl Server {
    fn new(objects: u64, budget: usize) -> Self {
        let cache = InOrder::new(Lru::default(), objects);
        let mut server = Server {
            cache,
            model: Model::new(budget, b':'),
            now: Seconds(100),
            reads: 0,
            hits: 0,
            busy: Duration::ZERO,
            objects,
        };
        server.model.serve(policy("lru"));
        server.pulse(Duration::ZERO);
        server
    }

    /// A second has passed, of which the server worked for so long.
    fn pulse(&mut self, busy: Duration) {
        self.now.0 += 1;
        self.busy += busy;
        let capacity = self.objects as f64 * f64::from(WEIGHT);
        let (reads, hits) = (self.reads, self.hits);
        self.model.pulse(Pulse { now: self.now, reads, hits, busy: self.busy, capacity, ..Pulse::default() });
    }

    fn see(&mut self, key: u32, what: What) {
        let text = format!("{}:{key}", if key.is_multiple_of(2) { "even" } else { "odd" });
        let hash = hash(key);
        if hash < self.model.threshold() {
            self.model.see(Observed { key: text.as_bytes(), hash, what }, self.now);
        }
    }

    /// A read, and after a miss a store.
    fn ask(&mut self, key: u32) {
        self.reads += 1;
        let item = (WEIGHT, NEVER);
        if self.cache.read(key, 0) {
            self.hits += 1;
            self.see(key, What::Hit { weight: item.0, expires: item.1 });
        } else {
            self.see(key, What::Miss);
            self.cache.insert(key, Newcomer { weight: 1, hash: 1, expires: NEVER }, 0);
            self.see(key, What::Stored { weight: item.0, expires: item.1 });
        }
    }

    fn ask_many(&mut self, zipf: &mut Zipf, seconds: u32, each: u32) {
        for _ in 0..seconds {
            (0..each).for_each(|_| self.ask(zipf.next()));
            self.pulse(Duration::from_secs(1));
        }
    }
}

fn policy(name: &str) -> Policy {
    Policy::read(&Spec::parse(name).unwrap()).unwrap()
}

fn of<'a>(advice: &'a Advice, policy: &str) -> &'a crate::OfPolicy {
    advice.policies.iter().find(|one| one.policy.name() == policy).unwrap()
}

/// The hit ratio of strict LRU with this many objects, after as many requests to warm up.
fn exact(objects: u64, requests: u32, keys: f64) -> f64 {
    let mut cache = InOrder::new(Lru::default(), objects);
    let mut zipf = Zipf { state: 1, keys };
    let mut hits = 0;
    for _ in 0..requests {
        let key = zipf.next();
        if cache.read(key, 0) {
            hits += 1;
        } else {
            cache.insert(key, Newcomer { weight: 1, hash: 1, expires: NEVER }, 0);
        }
    }
    f64::from(hits) / f64::from(requests)
}

#[test]
fn what_more_memory_would_be_worth_is_known_within_two_points() {
    const KEYS: f64 = 400_000.0;
    let mut server = Server::new(20_000, 10 * MIB);
    let mut zipf = Zipf { state: 1, keys: KEYS };
    server.ask_many(&mut zipf, 40, 50_000);
    let advice = server.model.advice();
    let lru = of(&advice, "lru");
    assert!(lru.is_served && advice.sample.objects > 300, "{advice:?}");
    for (scale, found) in SCALES.into_iter().zip(lru.hit_ratios) {
        let exact = exact((20_000.0 * scale) as u64, 2_000_000, KEYS);
        assert!((found.unwrap() - exact).abs() < 0.02, "{scale}: {found:?} instead of {exact}");
    }
    let measured = advice.measured.unwrap();
    assert!((lru.hit_ratios[1].unwrap() - measured).abs() < 0.02, "{measured}");
    assert!(advice.uncertainty.iter().all(|error| error.is_some_and(|error| error > 0.0 && error < 0.05)));
    for (name, found) in [("even", &advice.families[0]), ("odd", &advice.families[1])] {
        let name_is_there = advice.families.iter().any(|family| *family.prefix == *name.as_bytes());
        assert!(name_is_there && (found.share - 0.5).abs() < 0.2, "{found:?}");
        assert!(found.hit_ratios[3] > found.hit_ratios[0]);
    }
}

#[test]
fn memory_is_bounded_whatever_is_asked_for() {
    for budget in [LEAST_BUDGET, 2 * MIB, 10 * MIB] {
        let mut server = Server::new(2_000_000, budget);
        for key in 0..3_000_000 {
            server.ask(key);
            if key % 20_000 == 0 {
                server.pulse(Duration::from_secs(60));
            }
        }
        assert!(server.model.bytes() <= budget, "{} of {budget}", server.model.bytes());
        assert!(
            server.model.sample.keys().len() > server.model.sample.keys().most() / 4,
            "and there is use of it"
        );
        let advice = server.model.advice();
        assert!(of(&advice, "lru").hit_ratios.iter().all(|ratio| ratio.unwrap() < 0.01), "{advice:?}");
    }
}

#[test]
fn a_flood_of_requests_lowers_the_rate_before_the_next_pulse() {
    let mut server = Server::new(1000, 2 * MIB);
    let mut seen = 0;
    for round in 0..2_000_000_u32 {
        let key = round % 50_000;
        if hash(key) < server.model.threshold() {
            seen += 1;
        }
        server.ask(key);
    }
    assert!(seen < 4 * PER_PULSE, "{seen}");
}

#[test]
fn whoever_asks_for_advice_all_the_time_does_not_raise_what_is_spent_on_it() {
    let mut server = Server::new(1000, 2 * MIB);
    let mut seen = 0;
    for round in 0..1_000_000_u32 {
        let key = round % 50_000;
        seen += u64::from(hash(key) < server.model.threshold());
        server.ask(key);
        if round % 1000 == 0 {
            let (reads, hits, capacity) = (server.reads, server.hits, 1e5);
            server.model.pulse(Pulse {
                now: server.now,
                reads,
                hits,
                busy: server.busy,
                capacity,
                ..Pulse::default()
            });
        }
    }
    assert!(seen < 4 * PER_PULSE, "{seen}");
}

#[test]
fn a_server_with_little_to_do_spends_little_on_advice() {
    let mut server = Server::new(1000, 2 * MIB);
    let mut zipf = Zipf { state: 5, keys: 10_000.0 };
    let before = server.model.threshold();
    for _ in 0..8 {
        (0..8_000).for_each(|_| server.ask(zipf.next()));
        server.pulse(Duration::from_millis(10));
    }
    assert!(server.model.threshold() < before / 2, "500 requests of 8,000 in 10 ms are too many");
}

#[test]
fn the_rate_rises_again_after_quiet_hours() {
    let mut server = Server::new(1000, 2 * MIB);
    (0..4).for_each(|_| server.model.sample.lower(0.5));
    let low = server.model.threshold();
    for _ in 0..2 {
        (0..50).for_each(|key| server.ask(key));
        server.now.0 += WINDOW;
        server.pulse(Duration::from_secs(10));
    }
    assert_eq!(server.model.threshold(), 4 * low);
}

#[test]
fn what_is_deleted_flushed_or_expired_is_not_there() {
    let mut model = Model::new(MIB, b':');
    model.pulse(Pulse { now: Seconds(1), capacity: 1e9, ..Pulse::default() });
    let see = |model: &mut Model, what, now| model.see(Observed { key: b"k", hash: 7, what }, Seconds(now));
    let held = |model: &Model| {
        model.sample.keys().find(7).is_some_and(|id| model.sample.sets().iter().all(|set| set.holds(id)))
    };
    let stored = What::Stored { weight: 100, expires: 50 };
    see(&mut model, stored, 10);
    assert!(held(&model));
    see(&mut model, What::Deleted, 11);
    assert!(!held(&model));
    see(&mut model, stored, 12);
    model.flush();
    assert!(!held(&model));
    see(&mut model, stored, 13);
    see(&mut model, What::Miss, 50);
    assert!(!held(&model));
    assert!(model.now.misses.iter().flatten().all(|misses| *misses == 16.0), "one stands for sixteen");
}

#[test]
fn a_key_of_which_only_the_server_knows_is_no_miss() {
    let mut model = Model::new(MIB, b':');
    model.pulse(Pulse { now: Seconds(1), capacity: 1e9, ..Pulse::default() });
    let hit = What::Hit { weight: 100, expires: NEVER };
    model.see(Observed { key: b"k", hash: 7, what: hit }, Seconds(2));
    assert!(model.now.misses.iter().flatten().all(|misses| *misses == 0.0));
    assert_eq!(model.now.seen, 1);
}

#[test]
fn a_change_of_policy_keeps_what_is_known() {
    let mut server = Server::new(1000, 2 * MIB);
    (0..800).for_each(|key| server.ask(key));
    let objects = server.model.advice().sample.objects;
    assert!(objects > 10);
    server.model.serve(policy("klru:samples=4"));
    let advice = server.model.advice();
    assert!(of(&advice, "klru").is_served && of(&advice, "klru").policy == policy("klru:samples=4"));
    assert_eq!(advice.sample.objects, objects);
}

#[test]
fn the_working_set_is_that_of_an_hour() {
    let mut server = Server::new(1_000_000, 10 * MIB);
    for hour in 0..2 {
        // Half of the keys are those of the hour before.
        for key in hour * 10_000..(hour + 2) * 10_000 {
            server.ask(key);
        }
        server.now.0 += WINDOW;
        server.pulse(Duration::from_secs(60));
    }
    let set = server.model.advice().working_set;
    assert!((set.keys as f64 / 20_000.0 - 1.0).abs() < 0.15, "{set:?}");
    assert!((set.bytes as f64 / 2_000_000.0 - 1.0).abs() < 0.15, "{set:?}");
    assert!((set.churn.unwrap() - 0.5).abs() < 0.1, "{set:?}");
}

/// Two families, read every hour for three weeks. Of `low` the same 2,000 keys each time, of `high` 100 that nobody reads again.
fn weeks_of_two_families() -> Server {
    let mut server = Server::new(1_000_000, 10 * MIB);
    for hour in 0..3 * 7 * 24 {
        for key in 0..2100 {
            let (name, number) = if key < 2000 { ("low", key) } else { ("high", key + 100 * hour) };
            let hash = hash(number);
            if hash < server.model.threshold() {
                let what = What::Hit { weight: WEIGHT, expires: NEVER };
                server
                    .model
                    .see(Observed { key: format!("{name}:{number}").as_bytes(), hash, what }, server.now);
            }
        }
        server.now.0 += WINDOW;
        server.pulse(Duration::from_secs(60));
    }
    server
}

#[test]
fn the_sets_of_days_and_weeks_tell_families_of_low_churn_from_those_of_high_churn() {
    let server = weeks_of_two_families();
    let advice = server.model.advice();
    let family = |name: &str| advice.families.iter().find(|one| *one.prefix == *name.as_bytes()).unwrap();
    let (low, high) = (family("low"), family("high"));
    for (family, day, week, churn) in [(low, 2000.0, 2000.0, 0.0), (high, 2400.0, 16_800.0, 1.0)] {
        for (set, keys, seconds) in
            [(family.long_sets[0], day, 86_400), (family.long_sets[1], week, 7 * 86_400)]
        {
            assert!((set.keys as f64 / keys - 1.0).abs() < 0.25, "{set:?} instead of {keys}");
            assert_eq!((set.churn, set.seconds), (Some(churn), seconds), "{set:?}");
            let [least, mean, most] = set.bytes;
            let expected = set.keys * u64::from(WEIGHT);
            assert!(least == most && mean == most && most.abs_diff(expected) < u64::from(WEIGHT), "{set:?}");
        }
    }
    let all = advice.long_sets[1];
    assert!((all.keys as f64 / 18_800.0 - 1.0).abs() < 0.15, "{all:?}");
    assert_eq!(low.pool, crate::PoolAdvice::Stays { churn: 0.0 });
    assert_eq!(high.pool, crate::PoolAdvice::Stays { churn: 1.0 }, "it takes little of so much memory");
    assert!(server.model.bytes() <= 10 * MIB);
}

#[test]
fn a_family_that_is_read_once_a_day_keeps_its_sets_until_others_need_its_place() {
    let mut server = Server::new(1_000_000, 10 * MIB);
    let ask = |server: &mut Server, prefix: &str| {
        for number in 0..2000 {
            let (hash, what) = (hash(number), What::Hit { weight: WEIGHT, expires: NEVER });
            if hash < server.model.threshold() {
                server
                    .model
                    .see(Observed { key: format!("{prefix}:{number}").as_bytes(), hash, what }, server.now);
            }
        }
    };
    ask(&mut server, "nightly");
    for _ in 0..26 {
        server.now.0 += WINDOW;
        server.pulse(Duration::from_secs(60));
    }
    let nightly =
        |server: &Server| server.model.advice().families.into_iter().find(|one| *one.prefix == *b"nightly");
    let found = nightly(&server).unwrap();
    assert!(
        found.share == 0.0 && found.hit_ratios == [None; 4] && found.long_sets[0].keys > 1000,
        "{found:?}"
    );
    (0..crate::families::FAMILIES_MAX).for_each(|number| ask(&mut server, &format!("p{number}")));
    assert_eq!(nightly(&server), None);
    let others = server.model.advice().families.into_iter().find(|one| one.prefix.is_empty()).unwrap();
    assert_eq!(others.long_sets[0].keys, found.long_sets[0].keys, "its keys are counted to the others");
}

#[test]
fn all_hashes_are_two_to_the_64() {
    assert_eq!(ALL_HASHES, 2_f64.powi(64));
}
