//! Servers that are killed, frozen or mad while clients ask: no call waits for long, and nobody is told another key's value.

use crate::futures::block_on;
use crate::name;
use guira_client::pools::{AsyncClient, Builder, Client, Error, ErrorKind, Store};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_tests::deadline::{PATIENCE, SetAtEnd};
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Server, Setup};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

const SEED: u64 = 1;
const TIMEOUT: Duration = Duration::from_millis(50);
/// No call takes longer: some timeouts, and a processor that others use too.
const LONGEST: Duration = Duration::from_secs(5);

fn at(path: &Path) -> Server {
    // It was left behind, if there is one.
    let _ = std::fs::remove_file(path);
    Setup::new().unix_socket(path).start_guira()
}

fn address(path: &Path) -> String {
    format!("unix:{}", path.display())
}

/// What clients of all threads see.
#[derive(Default)]
struct Seen {
    ends: AtomicBool,
    found: AtomicU64,
    failed: AtomicU64,
    longest_ms: AtomicU64,
}

/// Stores and reads values that say whose they are.
fn use_it(client: &Client, seen: &Seen, mut random: Random) {
    while !seen.ends.load(Ordering::Relaxed) {
        let time = Stopwatch::start();
        let keys: Vec<String> = (0..24).map(|_| format!("key{}", random.below(200))).collect();
        let (key, padding) = (&keys[0], [1, 100, 30_000][random.below(3) as usize]);
        let value = format!("{key}:{}", "x".repeat(padding));
        let _ = client.set(&Store::new(key.as_bytes(), value.as_bytes()));
        for (key, found) in keys.iter().zip(client.get_many(&keys)) {
            match found {
                Ok(Some(item)) => {
                    assert!(
                        item.value.starts_with(format!("{key}:").as_bytes()),
                        "{key} has another's value"
                    );
                    seen.found.fetch_add(1, Ordering::Relaxed);
                }
                Ok(None) => {}
                Err(_) => drop(seen.failed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        seen.longest_ms.fetch_max(time.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

#[test]
fn clients_go_on_while_a_server_is_killed_and_frozen() {
    let scratch = Scratch::new();
    let paths = [scratch.path().join("a"), scratch.path().join("b")];
    let (_steady, mut victim) = (at(&paths[0]), Some(at(&paths[1])));
    let names = [address(&paths[0]), address(&paths[1])];
    let client = Client::new(&Builder::servers(&names).timeout(TIMEOUT).connections(3)).unwrap();
    let seen = Seen::default();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (client, seen) = (&client, &seen);
            scope.spawn(move || use_it(client, seen, Random::new(SEED + number)));
        }
        let grows = |what: &str, count: &AtomicU64| {
            let before = count.load(Ordering::Relaxed);
            wait_for(what, || (count.load(Ordering::Relaxed) > before + 100).then_some(()));
        };
        let _end = SetAtEnd(&seen.ends);
        for _ in 0..2 {
            grows("hits", &seen.found);
            if let Some(victim) = &victim {
                victim.freeze();
                grows("failures while it is frozen", &seen.failed);
                victim.signal("CONT");
            }
            let is_back = || client.get_many(&all_keys()).iter().all(Result::is_ok).then_some(());
            wait_for("the end of failures", is_back);
            if let Some(victim) = victim.take() {
                victim.stop("KILL");
            }
            grows("failures while it is dead", &seen.failed);
            victim = Some(at(&paths[1]));
            wait_for("the end of failures", is_back);
        }
    });
    let longest = Duration::from_millis(seen.longest_ms.load(Ordering::Relaxed));
    assert!(longest < LONGEST, "a call took {longest:?}");
    let counters = client.counters();
    assert!(counters.timeouts > 0 && counters.down > 0 && counters.probes > 0, "{counters:?}");
}

fn all_keys() -> Vec<String> {
    (0..200).map(|number| format!("key{number}")).collect()
}

#[test]
fn a_gutter_takes_over_for_a_server_that_hangs() {
    let setup = Setup::new();
    let (normal, gutter) = (setup.start_guira(), setup.start_guira());
    let text = format!(
        r#"{{"pools": {{"a": {{"servers": ["{}"]}}, "g": {{"servers": ["{}"]}}}},
            "route": {{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|a", "failover": ["PoolRoute|g"], "failover_exptime": 10}}}}"#,
        name(&normal),
        name(&gutter)
    );
    let client = Client::new(&Builder::config(&text).timeout(TIMEOUT)).unwrap();
    client.set(&Store::new(b"k", b"old")).unwrap();
    normal.freeze();
    let store = Store::new(b"k", b"new");
    wait_for("the gutter", || (client.set(&store) == Ok(true)).then_some(()));
    wait_for("its value", || (client.get(b"k").ok()??.value == b"new").then_some(()));
    normal.signal("CONT");
    // It carries out what it was sent meanwhile, and is asked again.
    let direct = Client::new(&Builder::servers(&[name(&normal)])).unwrap();
    wait_for("the server", || {
        client.set(&Store::new(b"l", b"v")).ok()?;
        direct.get(b"l").ok()?
    });
}

#[test]
fn answers_that_come_late_are_nobodys() {
    let server = Setup::new().start_guira();
    let clients = (
        Client::new(&Builder::servers(&[name(&server)]).timeout(TIMEOUT)).unwrap(),
        AsyncClient::new(&Builder::servers(&[name(&server)]).timeout(TIMEOUT)).unwrap(),
    );
    for key in ["one", "two"] {
        wait_for("a store", || {
            (clients.0.set(&Store::new(key.as_bytes(), key.as_bytes())) == Ok(true)).then_some(())
        });
    }
    for round in 0..10 {
        server.freeze();
        assert!(clients.0.get(b"one").is_err(), "round {round}");
        assert!(block_on(clients.1.get(b"one")).is_err(), "round {round}");
        server.signal("CONT");
        let is_two = |found: Result<Option<_>, Error>| match found {
            Ok(Some(guira_client::pools::Item { value, .. })) => {
                assert_eq!(value, b"two", "round {round}");
                Some(())
            }
            other => {
                assert!(other.is_err(), "round {round}: {other:?}");
                None
            }
        };
        wait_for("an answer", || is_two(clients.0.get(b"two")));
        wait_for("an answer", || is_two(block_on(clients.1.get(b"two"))));
    }
    assert!(clients.0.counters().late_answers + clients.1.counters().late_answers > 0);
}

#[test]
fn a_server_that_talks_nonsense_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut random = Random::new(SEED);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 1000];
            let _ = stream.read(&mut request);
            let length = 1 + random.below(3000);
            let noise: Vec<u8> =
                (0..length).map(|_| b"VA 9\r\nENDHO01fk\0\xff"[random.below(17) as usize]).collect();
            let _ = stream.write_all(&noise);
        }
    });
    let client = Client::new(&Builder::servers(&[address]).timeout(TIMEOUT)).unwrap();
    let time = Stopwatch::start();
    let mut failed = 0;
    for _ in 0..50 {
        // A miss may be what the noise begins with.
        failed += client.get_many(&["a", "b", "c"]).iter().filter(|found| found.is_err()).count();
    }
    assert!(failed > 100, "{failed} of 150");
    assert!(time.elapsed() < PATIENCE);
    let counters = client.counters();
    assert!(counters.hits == 0 && counters.nonsense > 0, "{counters:?}");
}

#[test]
fn no_more_connections_are_open_than_there_may_be() {
    let server = Setup::new().start_guira();
    let client = Client::new(&Builder::servers(&[name(&server)]).timeout(PATIENCE).connections(2)).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..50 {
                    client.set(&Store::new(format!("k{number}").as_bytes(), b"v")).unwrap();
                }
            });
        }
    });
    assert!(client.counters().opened <= 2, "{:?}", client.counters());
}

#[test]
fn more_keys_than_the_window_has_places_are_asked_for_after_each_other() {
    let server = Setup::new().start_guira();
    let client = Client::new(&Builder::servers(&[name(&server)]).timeout(PATIENCE)).unwrap();
    let keys: Vec<String> = (0..5000).map(|number| format!("key{number}")).collect();
    let before = client.window();
    for key in keys.iter().step_by(7) {
        client.set(&Store::new(key.as_bytes(), key.as_bytes())).unwrap();
    }
    let found = client.get_many(&keys);
    for (number, (key, found)) in keys.iter().zip(found).enumerate() {
        let value = found.unwrap().map(|item| item.value);
        assert_eq!(value, (number % 7 == 0).then(|| key.as_bytes().to_vec()), "{key}");
    }
    assert!((before as usize) < keys.len() && client.window() > before, "{before} and {}", client.window());
}

#[test]
fn a_client_that_calls_rarely_finds_a_server_that_is_back() {
    let scratch = Scratch::new();
    let path = scratch.path().join("node");
    let victim = at(&path);
    let client = Client::new(&Builder::servers(&[address(&path)]).timeout(TIMEOUT)).unwrap();
    client.set(&Store::new(b"key", b"value")).unwrap();
    victim.stop("KILL");
    wait_for("the server to be out", || {
        matches!(client.get(b"other"), Err(error) if error.kind() == &ErrorKind::Down).then_some(())
    });
    let _back = at(&path);
    // Each call comes when all that was asked by the one before has had its time.
    let call = || {
        std::thread::sleep(3 * TIMEOUT);
        client.get(b"other").ok()
    };
    assert_eq!(wait_for("the server to be found", call).map(|item| item.value), None);
}
