//! What short-lived items cost a full cache (Scaling Memcache at Facebook, section 6.3; claim S18).

use super::SlabEngine;
use crate::SlabOptions;
use guira_contract::suite::{store, value_of, walk_all};
use guira_contract::{Control, Engine, Expiry, Pace, Session, Switch, Tuning};
use guira_items::EngineOptions;
use guira_sync::clock::Seconds;

/// What a run came to, over its second half.
#[derive(Debug)]
struct Outcome {
    /// The part of the items that are of the short-lived family, in percent.
    share: f64,
    /// Hits of the reads of other keys, in percent.
    hits: f64,
}

const SECONDS: u32 = 120;

/// Each second 2,000 reads of 60,000 keys, the first ones more often, whose misses are stored; and 93 items that live for a second.
fn run(short_lived: u32) -> Outcome {
    let engine = EngineOptions { memory: 32 << 20, short_lived, ..EngineOptions::default() };
    let engine = SlabEngine::open(SlabOptions { engine, ..SlabOptions::default() }).unwrap();
    engine.tune(Tuning::Crawler(Switch::Off));
    let mut session = engine.session();
    let (mut random, mut hits, mut reads, mut short, mut all) = (7u64, 0, 0, 0, 0);
    let value = [b'v'; 1000];
    for number in 0..SECONDS {
        let now = Seconds(1000 + number);
        let is_counted = number >= SECONDS / 2;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (random >> 11) as f64 / (1u64 << 53) as f64;
            let key = format!("long:{}", (uniform * uniform * 60_000.0) as u32).into_bytes();
            let is_hit = value_of(&mut session, &key, now).is_some();
            if !is_hit {
                store(&mut session, &key, &value, 0, Expiry::Never, now).unwrap();
            }
            hits += u32::from(is_hit && is_counted);
            reads += u32::from(is_counted);
        }
        for item in 0..93 {
            let key = format!("short:{number}-{item}").into_bytes();
            store(&mut session, &key, &value, 0, Expiry::At(Seconds(now.0 + 1)), now).unwrap();
        }
        session.maintain(now, Pace::Busy, 64);
        session.quiesce();
        if is_counted && number % 10 == 0 {
            // With those that have expired: what a walk shows, and what it passes over.
            let alive = walk_all(&mut session, now);
            let others = alive.keys().filter(|key| key.starts_with(b"long:")).count() as u64;
            let items = engine.stats().items;
            short += items - others;
            all += items;
        }
    }
    Outcome { share: 100.0 * short as f64 / all as f64, hits: 100.0 * f64::from(hits) / f64::from(reads) }
}

#[test]
fn a_family_that_took_a_twentieth_of_the_cache_takes_a_third_of_a_percent() {
    let (without, with) = (run(0), run(10));
    println!("without: {without:?}; with: {with:?}");
    assert!(without.share > 5.0, "{without:?}");
    assert!(with.share <= 0.3, "{with:?}");
    assert!(with.hits >= without.hits, "{without:?} {with:?}");
}
