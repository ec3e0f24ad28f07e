//! Offsets that have only few bits, so that they begin again from 0 many times.

use super::ACCESSES;
use super::tools::{NOW, Random, check, get, put};
use crate::ItemStore;
use crate::entry::Anchor;
use crate::store::{Log, Passed};
use crate::{LogPolicy, MicaEngine, MicaOptions};
use guira_contract::suite::remove;
use guira_contract::{Access, Control, Engine, Session};
use guira_items::EngineOptions;
use guira_memory::{HugePages, Region};
use std::collections::HashMap;
use std::sync::Arc;

const POLICIES: [LogPolicy; 3] = [LogPolicy::Fifo, LogPolicy::ApproxLru, LogPolicy::Lru];

/// All words that were ever gone by, in a partition's log.
struct Odometer {
    tail: u64,
    gone: u64,
}

impl Odometer {
    fn look(&mut self, engine: &MicaEngine) {
        let partition = &engine.core.partitions[0];
        let [tail, ..] = partition.saved().store;
        self.gone += partition.store().age(self.tail);
        self.tail = tail;
    }
}

/// Random operations against a map, until the offsets have gone around `turns` times.
fn go_around(options: MicaOptions, turns: u64, seed: u64) {
    let name = format!("{:?} {:?} {} bits", options.access, options.policy, options.offset_bits);
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    let (mut random, mut map) = (Random(seed), HashMap::new());
    let mut odometer = Odometer { tail: 0, gone: 0 };
    let (mut hits, mut reads) = (0, 0);
    while odometer.gone < turns << options.offset_bits {
        let key = format!("key{}", random.below(4000));
        match random.below(10) {
            0..5 => {
                let length = if random.below(100) == 0 { 12_000 } else { random.below(300) };
                let value = vec![random.below(256) as u8; length];
                put(&mut session, &key, &value).unwrap();
                map.insert(key, value);
            }
            5 => {
                remove(&mut session, key.as_bytes(), NOW);
                map.remove(&key);
            }
            _ => {
                reads += 1;
                if let Some(value) = get(&mut session, &key) {
                    hits += 1;
                    assert_eq!(Some(&value), map.get(&key), "{name}: {key}");
                }
            }
        }
        session.quiesce();
        odometer.look(&engine);
    }
    for (key, value) in &map {
        assert!(get(&mut session, key).is_none_or(|found| found == *value), "{name}: {key}");
    }
    assert!(hits > reads / 20, "{name}: {hits} hits of {reads} reads");
    drop(session);
    check(&engine);
    let stats = engine.stats();
    assert!(stats.evictions > 1000 && stats.index_evictions < stats.evictions / 20, "{name}: {stats:?}");
}

#[test]
fn a_read_gives_the_latest_value_or_none_however_often_offsets_have_begun_anew() {
    for (seed, access) in (1..).zip(ACCESSES) {
        for policy in POLICIES {
            let small = MicaOptions {
                engine: EngineOptions {
                    memory: 2 << 20,
                    max_item_size: 64 << 10,
                    ..EngineOptions::default()
                },
                partitions: 1,
                access,
                policy,
                offset_bits: 18,
            };
            go_around(small, 5, seed);
            go_around(MicaOptions { partitions: 2, offset_bits: 20, ..small }, 3, seed);
        }
    }
}

/// The rest of the slots of a key that is never stored again, while all the offsets go by: it must not come back when its offset does.
#[test]
fn what_was_evicted_does_not_come_back_when_its_offset_does() {
    let options = MicaOptions {
        engine: EngineOptions { memory: 2 << 20, max_item_size: 64 << 10, ..EngineOptions::default() },
        partitions: 1,
        policy: LogPolicy::Fifo,
        access: Access::Crew,
        offset_bits: 18,
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    for number in 0..200 {
        put(&mut session, &format!("old{number}"), &[1; 40]).unwrap();
    }
    let mut odometer = Odometer { tail: 0, gone: 0 };
    let mut number = 0u32;
    while odometer.gone < 4 << 18 {
        put(&mut session, &format!("new{}", number % 700), &[2; 500]).unwrap();
        remove(&mut session, format!("new{}", (number + 350) % 700).as_bytes(), NOW);
        number += 1;
        odometer.look(&engine);
        if odometer.gone > 1 << 17 && number.is_multiple_of(64) {
            let back = (0..200).find(|number| get(&mut session, &format!("old{number}")).is_some());
            assert_eq!(back, None);
        }
    }
    drop(session);
    check(&engine);
}

/// Without anybody who looks for them, what lies behind the head would be taken as being ahead of it when half of all offsets have gone by; the stride between
/// two buckets that are looked at is short enough for all of them to have been looked at twice by then.
#[test]
fn an_offset_left_in_the_index_would_be_live_again() {
    const BITS: u32 = 16;
    let region = Arc::new(Region::anonymous(4 << 20, HugePages::No).unwrap());
    let ring = 1 << (BITS - 4);
    let log = Log::new(region.clone(), 1 << 20, ring, BITS);
    log.set_end(ring - 1024);
    let append = || {
        let pass = |head| Passed::Free(Anchor::load(&region, log.at(head)).units() as u64);
        log.make_room(8, pass).unwrap();
        let offset = log.take(8).0;
        Anchor::hole(8).store(&region, log.at(offset));
        offset
    };
    let first = append();
    assert!(log.is_live(first));
    let (mut gone, mut dead_until) = (0, None);
    let mut before = first;
    while dead_until.is_none() {
        let offset = append();
        gone += offset.wrapping_sub(before) & ((1 << BITS) - 1);
        before = offset;
        if gone > 2 * ring && log.is_live(first) {
            dead_until = Some(gone);
        }
    }
    let all = 1 << BITS;
    let dead_until = dead_until.unwrap();
    assert!(dead_until > all / 2 && dead_until < all / 2 + 2 * ring, "{dead_until}");
    for buckets in [16, 100, 1000] {
        assert!(2 * buckets * log.stride(buckets) + 4 * ring <= all / 2, "{buckets}");
    }
}
