use super::{Summary, Top};
use std::collections::HashMap;

fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
}

/// Keys by Zipf's law with exponent 1, by inverting the sum's logarithm.
pub(crate) struct Zipf {
    state: u64,
    keys: f64,
}

impl Zipf {
    pub(crate) fn new(seed: u64, keys: u32) -> Self {
        Zipf { state: seed, keys: f64::from(keys) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        (self.keys.powf(uniform) - 1.0) as u64
    }
}

/// A summary beside what it summarizes.
struct Counted {
    summary: Summary,
    exact: HashMap<u64, u64>,
}

impl Counted {
    fn new(counters: usize) -> Self {
        Counted { summary: Summary::new(counters, 20), exact: HashMap::new() }
    }

    fn add(&mut self, key: u64, weight: u64) {
        self.summary.add(key.to_string().as_bytes(), hash(key), weight);
        *self.exact.entry(key).or_default() += weight;
    }

    #[track_caller]
    fn check_bounds(&self) {
        let weight: u64 = self.exact.values().sum();
        assert!(self.summary.floor as u128 * self.summary.most as u128 <= 2 * u128::from(weight));
        for (key, exact) in &self.exact {
            let (count, error) = self.summary.known(key.to_string().as_bytes(), hash(*key));
            assert!(count >= *exact, "{key}: {count} is less than {exact}");
            assert!(count - error <= *exact, "{key}: {count} - {error} is more than {exact}");
        }
    }
}

fn keys(top: &[Top]) -> Vec<String> {
    top.iter().map(|top| String::from_utf8(top.key.to_vec()).unwrap()).collect()
}

#[test]
fn few_keys_are_counted_exactly() {
    let mut counted = Counted::new(4);
    for (key, weight) in [(1, 5), (2, 7), (1, 5), (3, 1)] {
        counted.add(key, weight);
    }
    let top = counted.summary.top(2);
    assert_eq!(top[0], Top { key: (*b"1").into(), count: 10, error: 0 });
    assert_eq!(top[1], Top { key: (*b"2").into(), count: 7, error: 0 });
    counted.summary.clear();
    assert!(counted.summary.top(2).is_empty());
    counted.summary.add(b"2", hash(2), 1);
    assert_eq!(counted.summary.top(2)[0].count, 1);
}

#[test]
fn counts_lie_within_their_bounds_whatever_comes() {
    for seed in 1..20 {
        let mut counted = Counted::new(32);
        let mut zipf = Zipf::new(seed, 3000);
        for step in 0..20_000 {
            // A phase of Zipf's keys, one of keys that come once, and one in which all weigh differently.
            let (key, weight) = match step * 3 / 20_000 {
                0 => (zipf.next(), 1),
                1 => (10_000 + step, 1),
                _ => (zipf.next(), zipf.next() % 100),
            };
            counted.add(key, weight);
        }
        counted.check_bounds();
    }
}

#[test]
fn the_ten_most_popular_keys_of_a_zipf_law_are_found() {
    for seed in 1..6 {
        let mut counted = Counted::new(256);
        let mut zipf = Zipf::new(seed, 1_000_000);
        (0..300_000).for_each(|_| counted.add(zipf.next(), 1));
        let mut exact: Vec<(u64, u64)> = counted.exact.iter().map(|(key, count)| (*key, *count)).collect();
        exact.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        let mut found = keys(&counted.summary.top(10));
        let mut expected: Vec<String> = exact[..10].iter().map(|(key, _)| key.to_string()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "seed {seed}");
        counted.check_bounds();
    }
}

#[test]
fn summaries_of_parts_are_one_of_the_whole() {
    for seed in 1..10 {
        let mut all = Counted::new(64);
        for part in 0..4 {
            let mut counted = Counted::new(64);
            let mut zipf = Zipf::new(seed * 10 + part, 5000);
            (0..5000).for_each(|_| counted.add(zipf.next() + 100 * part, 1));
            all.summary.merge(&counted.summary);
            for (key, count) in counted.exact {
                *all.exact.entry(key).or_default() += count;
            }
        }
        all.check_bounds();
        assert!(all.summary.top(100).len() <= 64);
    }
}

#[test]
fn keys_with_the_same_hash_are_not_mixed_up() {
    let mut summary = Summary::new(8, 250);
    let longest = [b'x'; 250];
    for _ in 0..3 {
        for key in [&b"a"[..], b"", b"\0", &longest] {
            summary.add(key, 7, 1);
        }
    }
    let top = summary.top(10);
    assert_eq!(top.len(), 4);
    assert!(top.iter().all(|top| top.count == 3));
    assert!(top.iter().any(|top| *top.key == longest));
}

#[test]
fn memory_is_what_it_is_said_to_be() {
    let summary = Summary::new(256, 250);
    let bytes = summary.counters.capacity() * 24 + 256 * 251 + summary.places.len() * 2;
    assert_eq!(Summary::bytes(256, 250), bytes);
}
