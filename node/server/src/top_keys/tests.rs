use super::{HALF, List, TopKeys, TopReport, Window};
use crate::top_keys::summary::tests::Zipf;
use guira_commands::observe::Used;
use guira_contract::KeyHash;
use guira_sync::clock::Seconds;
use std::collections::HashMap;

const START: Seconds = Seconds(1000);

fn keys(workers: usize) -> TopKeys {
    let keys = TopKeys::new(64 << 20, workers, b':', START);
    (0..workers).for_each(|worker| keys.scale(worker, 1));
    keys
}

fn see(keys: &TopKeys, worker: usize, key: &str, used: Used) {
    let hash = key.bytes().fold(7_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    keys.see(worker, key.as_bytes(), KeyHash(hash), used);
}

/// The keys of a list with their counts.
fn of(window: &Window, list: List) -> Vec<(String, u64)> {
    let (_, top) = window.lists.iter().find(|(name, _)| *name == list).unwrap();
    top.iter().map(|top| (String::from_utf8(top.key.to_vec()).unwrap(), top.count)).collect()
}

fn pair(key: &str, count: u64) -> (String, u64) {
    (key.to_owned(), count)
}

#[test]
fn uses_are_counted_by_key_and_by_prefix() {
    let keys = keys(2);
    see(&keys, 0, "user:1", Used::Read(100));
    see(&keys, 1, "user:1", Used::Read(50));
    see(&keys, 1, "user:2", Used::Missed);
    see(&keys, 0, "plain", Used::Otherwise);
    see(&keys, 0, "plain", Used::Read(0));
    let TopReport { windows: [minute, total], sampling, dropped } = keys.report(&List::ALL, START);
    assert_eq!((sampling, dropped), (1, 0));
    for window in [minute, total] {
        assert_eq!(window.all, [5, 150, 1]);
        assert_eq!(of(&window, List::Requests)[2], pair("user:2", 1));
        assert_eq!(of(&window, List::Bytes), [pair("user:1", 150)]);
        assert_eq!(of(&window, List::Misses), [pair("user:2", 1)]);
        assert_eq!(of(&window, List::PrefixRequests), [pair("user", 3), pair("", 2)]);
        assert_eq!(of(&window, List::PrefixBytes), [pair("user", 150)]);
        assert_eq!(of(&window, List::PrefixMisses), [pair("user", 1)]);
    }
}

#[test]
fn a_request_of_the_sample_stands_for_several() {
    let keys = keys(1);
    keys.scale(0, 64);
    see(&keys, 0, "a:1", Used::Read(10));
    keys.scale(0, 256);
    see(&keys, 0, "a:1", Used::Missed);
    let report = keys.report(&[List::Requests, List::Bytes, List::Misses], START);
    assert_eq!(report.sampling, 160, "320 requests, of which 2 were looked at");
    let [_, total] = report.windows;
    assert_eq!(of(&total, List::Requests), [pair("a:1", 320)]);
    assert_eq!(of(&total, List::Bytes), [pair("a:1", 640)]);
    assert_eq!(of(&total, List::Misses), [pair("a:1", 256)]);
}

#[test]
fn the_last_minute_forgets_and_the_total_does_not() {
    let keys = keys(2);
    let at = |seconds| Seconds(START.0 + seconds);
    let requests = |now| {
        keys.report(&[List::Requests], now)
            .windows
            .map(|window| (of(&window, List::Requests), window.seconds))
    };
    see(&keys, 0, "old", Used::Missed);
    assert_eq!(requests(at(10)), [(vec![pair("old", 1)], 10), (vec![pair("old", 1)], 10)]);
    keys.turn(at(HALF));
    see(&keys, 1, "new", Used::Missed);
    see(&keys, 1, "new", Used::Missed);
    let both = vec![pair("new", 2), pair("old", 1)];
    assert_eq!(requests(at(HALF + 29)), [(both.clone(), 59), (both.clone(), 59)]);
    // A window has its stated length even without regular calls.
    assert_eq!(requests(at(2 * HALF + 5)), [(vec![pair("new", 2)], HALF + 5), (both.clone(), 2 * HALF + 5)]);
    assert_eq!(requests(at(10 * HALF)), [(vec![], 8 * HALF - 5), (both, 10 * HALF)]);
    keys.reset(at(1000));
    see(&keys, 0, "after", Used::Missed);
    assert_eq!(requests(at(1007)), [(vec![pair("after", 1)], 7), (vec![pair("after", 1)], 7)]);
}

#[test]
fn a_request_is_passed_over_while_somebody_reads() {
    let keys = keys(1);
    let reads = keys.workers[0].now.lock();
    see(&keys, 0, "a", Used::Missed);
    drop(reads);
    see(&keys, 0, "b", Used::Missed);
    let report = keys.report(&[List::Requests], START);
    assert_eq!((report.dropped, of(&report.windows[0], List::Requests)), (1, vec![pair("b", 1)]));
}

#[test]
fn popular_keys_are_found_over_many_windows_and_workers_and_bounds_hold() {
    let (keys, mut zipf, mut exact) = (keys(3), Zipf::new(11, 200_000), HashMap::<u64, u64>::new());
    for second in 0..200 {
        for step in 0..1000 {
            let key = zipf.next();
            *exact.entry(key).or_default() += 1;
            see(&keys, step % 3, &format!("key-{key}"), Used::Read(1));
        }
        keys.turn(Seconds(START.0 + second));
    }
    let [_, total] = keys.report(&[List::Requests], Seconds(START.0 + 200)).windows;
    let (_, top) = &total.lists[0];
    assert_eq!(total.all[0], 200_000);
    let mut expected: Vec<(u64, u64)> = exact.iter().map(|(key, count)| (*count, *key)).collect();
    expected.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut names: Vec<String> = expected[..10].iter().map(|(_, key)| format!("key-{key}")).collect();
    let mut found: Vec<String> = of(&total, List::Requests).into_iter().map(|(key, _)| key).collect();
    names.sort();
    found.sort();
    assert_eq!(found, names);
    for top in top {
        let key = std::str::from_utf8(&top.key).unwrap().strip_prefix("key-").unwrap();
        let exact = exact[&key.parse().unwrap()];
        assert!(top.count >= exact && top.count - top.error <= exact, "{top:?}: {exact}");
    }
}

#[test]
fn memory_is_within_its_budget_but_for_the_least() {
    for (budget, workers) in [(640 << 10, 2), (10 << 20, 2), (10 << 20, 64), (1 << 30, 64)] {
        let bytes = TopKeys::bytes(budget, workers);
        assert!(
            bytes <= budget && bytes > budget.min(16 << 20) / 10,
            "{bytes} of {budget}, {workers} workers"
        );
    }
    assert!(TopKeys::bytes(0, 2) < 256 << 10);
}
