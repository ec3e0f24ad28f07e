use guira_routing::hash::HashKind;
use guira_workload::OnMiss;
use guira_workload::trace::{Action, Request};

use super::{Found, Pool, PoolError, Way, simulate};
use crate::registry::Choice;
use crate::run::{Measure, Rules};
use crate::sample::Sample;
use crate::stream::{Reading, Stream, Writes};

const RULES: Rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
const KEYS: u64 = 8000;

fn stream(requests: impl Iterator<Item = Request>) -> Stream {
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    Stream::read(requests.map(Ok::<_, ()>), reading).unwrap()
}

/// All keys in turn, so often.
fn rounds(times: u64) -> Stream {
    stream((0..KEYS * times).map(|number| Request::number(number % KEYS)))
}

/// A pool of four nodes with room for all keys each, changed by `change`.
fn found_in(stream: &Stream, change: impl FnOnce(&mut Pool<'_>)) -> Result<Found, PoolError> {
    let policy = Choice::parse("clock").unwrap();
    let mut pool = Pool {
        nodes: 4,
        copies: 1,
        room: KEYS,
        policy: &policy,
        hash: HashKind::Ch3,
        gutter: 1,
        keys_at_once: 1,
        value_size: 100,
    };
    change(&mut pool);
    simulate(&pool, stream, RULES, &|_| ())
}

fn found(stream: &Stream, change: impl FnOnce(&mut Pool<'_>)) -> Found {
    found_in(stream, change).unwrap()
}

#[test]
fn nodes_share_keys_requests_and_bytes() {
    let found = found(&rounds(16), |_| ());
    let sum = |part: fn(&super::Load) -> f64| found.loads.iter().map(part).sum::<f64>();
    assert!((sum(|load| load.keys) - 1.0).abs() < 1e-9, "{found:?}");
    assert!((sum(|load| load.requests) - 1.0).abs() < 1e-9);
    assert!((sum(|load| load.bytes) - 100.0).abs() < 1e-9, "every read is a hit of 100 bytes");
    assert!(found.loads.iter().all(|load| (0.22..0.28).contains(&load.keys)), "{found:?}");
    assert_eq!((found.hit_ratio, found.misses), (1.0, 0.0));
}

#[test]
fn an_empty_pool_is_warm_after_a_round_and_has_missed_all_keys() {
    let found = found(&rounds(16), |_| ());
    // A window is a quarter of a round.
    assert_eq!((found.cold_keys, found.cold_misses), (Some(KEYS + KEYS / 4), KEYS as f64));
    let short = self::found(&rounds(1), |_| ());
    assert_eq!(
        short.cold_keys,
        Some(KEYS / 64),
        "with no hits at all the first window is as good as the last"
    );
}

#[test]
fn a_get_of_many_keys_comes_to_all_parts_but_to_one_copy() {
    let stream = rounds(16);
    let requests = |change: fn(&mut Pool<'_>)| {
        let found = found(&stream, change);
        let sum = |part: fn(&super::Load) -> f64| found.loads.iter().map(part).sum::<f64>();
        assert!((sum(|load| load.keys) - 1.0).abs() < 1e-9);
        sum(|load| load.requests)
    };
    let split = requests(|pool| pool.keys_at_once = 100);
    assert!((3.99..=4.0).contains(&split), "{split}");
    let copies = requests(|pool| (pool.keys_at_once, pool.copies) = (100, 4));
    assert!((copies - 1.0).abs() < 1e-9, "{copies}");
    let both = requests(|pool| (pool.keys_at_once, pool.copies) = (100, 2));
    assert!((1.99..=2.0).contains(&both), "{both}");
}

#[test]
fn a_lost_node_is_rehashed_or_has_a_gutter() {
    let found = found(&rounds(16), |_| ());
    let [rehash, gutter] = &found.losses[..] else { panic!("{found:?}") };
    assert_eq!((rehash.way, gutter.way), (Way::Rehash, Way::Gutter));
    assert!((0.25..0.28).contains(&rehash.share), "the busiest: {rehash:?}");
    for loss in [rehash, gutter] {
        assert!(
            (loss.more_misses - loss.share).abs() < 0.02,
            "its keys are missing in the first window: {loss:?}"
        );
        assert!((loss.hit_ratios[0] - (1.0 - loss.share)).abs() < 0.02, "{loss:?}");
        assert_eq!(loss.hit_ratios[1], 1.0, "and filled later");
    }
    assert!((1.25..1.5).contains(&rehash.most), "{rehash:?}");
    assert_eq!(gutter.most, 1.0, "nothing of theirs moves");
    assert!((gutter.gutter[0].keys - gutter.share).abs() < 1e-9);
    assert_eq!(rehash.gutter[0].keys, 0.0);
}

#[test]
fn a_lost_copy_costs_nothing_where_the_others_have_all() {
    let found = found(&rounds(32), |pool| pool.copies = 2);
    let [loss] = &found.losses[..] else { panic!("{found:?}") };
    assert_eq!((loss.way, loss.more_misses), (Way::Copies, 0.0));
    assert!((1.8..2.2).contains(&loss.most), "the other copy has twice as much: {loss:?}");
}

#[test]
fn a_small_node_evicts_and_a_change_goes_to_all_copies() {
    let small = found(&rounds(16), |pool| pool.room = KEYS / 8);
    assert!(small.hit_ratio < 0.5, "{small:?}");
    let is_delete = |number: u64| number % 2 == 1;
    let deleted = stream((0..KEYS * 32).map(|number| Request {
        action: if is_delete(number) { Action::Delete } else { Action::Get },
        ..Request::number(number / 2 % KEYS)
    }));
    let found = found(&deleted, |pool| pool.copies = 2);
    assert_eq!(found.hit_ratio, 0.0, "what was read is deleted from whichever copy has it");
    let keys: f64 = found.loads.iter().map(|load| load.keys).sum();
    assert!((keys - 1.5).abs() < 1e-9, "{keys}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let stream = rounds(1);
    let odd = found_in(&stream, |pool| pool.copies = 3);
    assert_eq!(
        odd.unwrap_err().to_string(),
        "4 nodes cannot hold 3 copies of every key: use a multiple of the copies"
    );
    let belady = Choice::parse("belady").unwrap();
    let pool = Pool {
        nodes: 1,
        copies: 1,
        room: 1,
        policy: &belady,
        hash: HashKind::Ch3,
        gutter: 0,
        keys_at_once: 1,
        value_size: 1,
    };
    let error = simulate(&pool, &stream, RULES, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("policy of an engine") && error.contains("clock"), "{error}");
}

#[test]
fn nodes_can_choose_their_policy_themselves() {
    // A loop of 4/3 of their memory, of which clock keeps nothing.
    let stream = rounds(200);
    let hits = |name| {
        let policy = Choice::parse(name).unwrap();
        let pool = |policy| Pool {
            nodes: 2,
            copies: 1,
            room: KEYS * 3 / 8,
            policy,
            hash: HashKind::Ch3,
            gutter: 0,
            keys_at_once: 1,
            value_size: 100,
        };
        simulate(&pool(&policy), &stream, RULES, &|_| ()).unwrap().hit_ratio
    };
    assert_eq!(hits("clock"), 0.0);
    assert!(hits("auto") > 0.2, "{}", hits("auto"));
}
