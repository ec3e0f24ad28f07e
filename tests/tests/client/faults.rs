//! Readers and writers while their cache is killed, stopped and started anew: nobody sees what was before an acknowledged delete, nor the value of another
//! key, and no call takes long.

use guira_client::lookaside::{Counters, LookAside, Value, Wanted};
use guira_client::text::{Endpoint, Target};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_tests::deadline::SetAtEnd;
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::Address;
use guira_tests::{Server, Setup, skip};
use std::path::PathBuf;
use std::time::Duration;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const KEYS: u64 = 3;
const TIMEOUT: Duration = Duration::from_millis(50);

/// No call takes longer: some timeouts, a wait, and a processor that others use too.
const LONGEST: Duration = Duration::from_secs(5);

/// A cache that is killed and started again in the same place.
struct Victim {
    name: &'static str,
    target: Target,
    start: Box<dyn Fn() -> Server + Send + Sync>,
    first: Option<Server>,
    _before: Option<Server>,
    _folder: Scratch,
}

fn at_socket(name: &'static str, start: fn(&Setup) -> Server) -> Victim {
    let folder = Scratch::new();
    let path: PathBuf = folder.path().join("socket");
    let target = Target::new(Endpoint::Unix(path.clone()), TIMEOUT);
    let start = Box::new(move || {
        // It was left behind, if there is one.
        let _ = std::fs::remove_file(&path);
        start(&Setup::new().unix_socket(&path))
    });
    Victim { name, target, first: Some(start()), start, _before: None, _folder: folder }
}

/// A memcached behind a router, which is not killed.
fn behind_a_router(leases: &str) -> Option<Victim> {
    let first = Setup::new().start_peer()?;
    let Address::Tcp(address) = *first.address() else { panic!("it listens on TCP") };
    let text = format!(
        r#"{{"pools": {{"all": {{"servers": ["{address}"], "leases": "{leases}"}}}}, "route": "PoolRoute|all"}}"#
    );
    let router = Setup::new()
        .guira_argument("--asynclog-disable")
        .guira_argument("--server-timeout=20")
        .guira_argument("--disable-tko-tracking")
        .start_router(&text, Vec::new());
    let target = match router.address() {
        Address::Tcp(address) => Target::new(address.to_string().parse().expect("an address"), TIMEOUT),
        Address::Unix(path) => panic!("{path:?}"),
    };
    let start = Box::new(move || {
        let port = address.port().to_string();
        Setup::new().options(&["-p", &port]).start_peer().expect("it is installed")
    });
    let name = "memcached behind a router";
    Some(Victim { name, target, first: Some(first), start, _before: Some(router), _folder: Scratch::new() })
}

/// A database of a number for each key.
#[derive(Default)]
struct Rows {
    numbers: [AtomicU64; KEYS as usize],
    /// What every later read must at least see.
    deleted: [AtomicU64; KEYS as usize],
    ends: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    longest_ms: AtomicU64,
}

impl Rows {
    fn go_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let time = Stopwatch::start();
        let done = work();
        self.longest_ms.fetch_max(time.elapsed().as_millis() as u64, Ordering::Relaxed);
        done
    }
}

/// What a row is: it says which one it is, and how long it is is drawn.
fn row(key: u64, number: u64, random: &mut Random) -> Value {
    let length = [0, 1, 100, 10_000, 300_000][random.below(5) as usize];
    Value::new(format!("key{key}:{}", "x".repeat(length))).with_version(number)
}

fn write(cache: &LookAside, rows: &Rows, mut random: Random) {
    while rows.go_on() {
        let key = random.below(KEYS);
        let number = rows.numbers[key as usize].fetch_add(1, Ordering::SeqCst) + 1;
        // As an invalidator does.
        while rows.go_on() {
            if rows.timed(|| cache.delete(&[&format!("key{key}")])) {
                rows.deleted[key as usize].fetch_max(number, Ordering::SeqCst);
                break;
            }
        }
        rows.writes.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(random.below(2000)));
    }
}

fn look(cache: &LookAside, rows: &Rows, mut random: Random, what: &str) {
    while rows.go_on() {
        let keys: Vec<u64> = (0..=random.below(4)).map(|_| random.below(KEYS)).collect();
        let names: Vec<String> = keys.iter().map(|key| format!("key{key}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let least: Vec<u64> =
            keys.iter().map(|key| rows.deleted[*key as usize].load(Ordering::SeqCst)).collect();
        let fill = |wanted: &[Wanted<'_>]| {
            if random.once_in(50) {
                return Err("the database is busy");
            }
            let mut rows_of = Vec::new();
            for wanted in wanted {
                let key: u64 = wanted.key[3..].parse().expect("a key");
                let number = rows.numbers[key as usize].load(Ordering::SeqCst);
                rows_of.push(Some(row(key, number, &mut random)));
            }
            if random.once_in(3) {
                std::thread::sleep(Duration::from_millis(random.below(40)));
            }
            Ok(rows_of)
        };
        let Ok(found) = rows.timed(|| cache.get_many(&names, fill)) else { continue };
        rows.reads.fetch_add(1, Ordering::Relaxed);
        assert_eq!(found.len(), keys.len(), "{what}");
        for ((key, least), found) in keys.iter().zip(least).zip(found) {
            let found = found.expect("each row is there");
            assert!(found.data().starts_with(format!("key{key}:").as_bytes()), "{what}: another one's row");
            let seen = found.version().expect("each has a version");
            assert!(seen >= least, "{what}: key{key} is {seen}, which is older than {least}");
        }
    }
}

/// Kills and stops the cache for so long; returns how often.
fn harm(victim: &mut Victim, rows: &Rows, mut random: Random, length: Duration) -> (u64, u64) {
    let mut server = victim.first.take().expect("it is started");
    let (time, mut kills, mut stops) = (Stopwatch::start(), 0, 0);
    while time.elapsed() < length && rows.go_on() {
        std::thread::sleep(Duration::from_millis(random.below(300)));
        if random.once_in(2) {
            server.stop("KILL");
            std::thread::sleep(Duration::from_millis(random.below(30)));
            server = (victim.start)();
            kills += 1;
        } else {
            server.freeze();
            std::thread::sleep(Duration::from_millis(random.below(200)));
            server.signal("CONT");
            stops += 1;
        }
    }
    (kills, stops)
}

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn live(mut victim: Victim, seed: u64, length: Duration) {
    let what = format!("{}, seed {seed}", victim.name);
    let cache = LookAside::new(victim.target.clone()).wait(Duration::from_millis(20));
    let rows = Rows::default();
    let harmed = std::thread::scope(|scope| {
        for number in 0..6 {
            let (cache, rows, what) = (cache.clone(), &rows, &what);
            let random = Random::new(seed * 100 + number);
            scope.spawn(move || {
                let _end = SetAtEnd(&rows.ends);
                if number < 2 { write(&cache, rows, random) } else { look(&cache, rows, random, what) }
            });
        }
        let _end = SetAtEnd(&rows.ends);
        harm(&mut victim, &rows, Random::new(seed * 100 + 99), length)
    });
    let Counters { hits, stores, failures, .. } = cache.counters();
    let longest = Duration::from_millis(rows.longest_ms.into_inner());
    println!(
        "{what}: {} reads, {} writes, {harmed:?} kills and stops, longest call {longest:?}, {:?}",
        rows.reads.into_inner(),
        rows.writes.into_inner(),
        cache.counters()
    );
    assert!(hits > 0 && stores > 0 && failures > 0, "{what}: {:?}", cache.counters());
    assert!(longest < LONGEST, "{what}: a call took {longest:?}");
}

/// Each for 20 s, or `GUIRA_CLIENT_SECONDS`.
fn live_with(start: impl Fn() -> Option<Victim>) {
    let Some(victim) = start() else { return skip::say("memcached is not installed") };
    let length = Duration::from_secs(number_of("GUIRA_CLIENT_SECONDS", 20));
    live(victim, number_of("GUIRA_CLIENT_SEED", SEED), length);
}

#[test]
#[ignore = "takes 20 s"]
fn a_node_that_is_killed_and_stopped_leaves_no_older_row() {
    live_with(|| Some(at_socket("a node", Setup::start_guira)));
}

#[test]
#[ignore = "takes 20 s"]
fn a_memcached_that_is_killed_and_stopped_leaves_no_older_row() {
    live_with(|| {
        Setup::new().start_peer()?;
        Some(at_socket("memcached", |setup| setup.start_peer().expect("it is installed")))
    });
}

#[test]
#[ignore = "takes 20 s"]
fn a_memcached_behind_a_router_that_is_killed_and_stopped_leaves_no_older_row() {
    live_with(|| behind_a_router("meta"));
}
