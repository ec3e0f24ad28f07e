//! Readers and writers at once: no reader sees a row that is older than a delete that was answered before it asked.

use crate::{caches, client, read_with};
use guira_client::lookaside::{Counters, LookAside, Value};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_tests::random::Random;
use std::convert::Infallible;
use std::time::Duration;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const KEYS: usize = 4;
const WRITES: u64 = 2000;

/// A database of one number for each key.
#[derive(Default)]
struct Rows {
    numbers: [AtomicU64; KEYS],
    /// The number that every later read must at least see.
    deleted: [AtomicU64; KEYS],
    writes: AtomicU64,
}

impl Rows {
    fn go_on(&self) -> bool {
        self.writes.load(Ordering::Relaxed) < WRITES
    }
}

/// Gives others time to come in between, in one case of four.
fn dawdle(random: &mut Random) {
    if random.once_in(4) {
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
}

fn write(cache: &LookAside, rows: &Rows, seed: u64) {
    let mut random = Random::new(seed);
    while rows.go_on() {
        let key = random.below(KEYS as u64) as usize;
        let written = cache.write_through_delete(&[&format!("key{key}")], |_| {
            Ok::<_, Infallible>(rows.numbers[key].fetch_add(1, Ordering::SeqCst) + 1)
        });
        rows.deleted[key].fetch_max(written.expect("no write fails"), Ordering::SeqCst);
        rows.writes.fetch_add(1, Ordering::Relaxed);
        dawdle(&mut random);
    }
}

fn look(cache: &LookAside, rows: &Rows, seed: u64, name: &str) {
    let mut random = Random::new(seed);
    while rows.go_on() {
        let key = random.below(KEYS as u64) as usize;
        let least = rows.deleted[key].load(Ordering::SeqCst);
        let found = read_with(cache, &format!("key{key}"), || {
            let number = rows.numbers[key].load(Ordering::SeqCst);
            dawdle(&mut random);
            Some(Value::new(number.to_string()).with_version(number))
        });
        let seen = found.and_then(|found| found.version()).expect("each has a version");
        assert!(seen >= least, "{name}, seed {seed}: key{key} is {seen}, which is older than {least}");
    }
}

#[test]
fn nobody_sees_what_was_before_a_delete() {
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    for (name, server) in caches::all() {
        let cache = client(&server).wait(Duration::from_millis(5));
        let rows = Rows::default();
        std::thread::scope(|scope| {
            let (cache, rows) = (&cache, &rows);
            for number in 0..2 {
                scope.spawn(move || write(cache, rows, seed * 100 + number));
                scope.spawn(move || look(cache, rows, seed * 100 + 10 + number, name));
                scope.spawn(move || look(&cache.clone(), rows, seed * 100 + 20 + number, name));
            }
        });
        let Counters { hits, stores, refusals, failures, failed_deletes, .. } = cache.counters();
        println!("{name}, seed {seed}: {:?}", cache.counters());
        assert!(hits > 0 && stores > 0 && refusals > 0, "{name}, seed {seed}: {:?}", cache.counters());
        assert_eq!((failures, failed_deletes), (0, 0), "{name}, seed {seed}");
    }
}
