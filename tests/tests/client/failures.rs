//! A cache that fails costs the application nothing but time.

use crate::{caches, client, hit, read, read_with, target, value, wait_until};
use guira_client::lookaside::LookAside;
use guira_client::text::{Endpoint, Target};
use guira_sync::clock::Stopwatch;
use guira_tests::deadline::PATIENCE;
use guira_tests::scratch::Scratch;
use guira_tests::{Server, Setup, skip};
use std::time::Duration;

/// Ends a cache and starts another one in its place.
fn restart(setup: &Setup, start: impl Fn(&Setup) -> Server) {
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let start = || start(&setup.clone().unix_socket(&path));
    let server = start();
    let cache = LookAside::new(Target::new(Endpoint::Unix(path.clone()), PATIENCE)).wait(PATIENCE);
    assert_eq!(read(&cache, "k", value("old")), value("old"));
    server.stop("KILL");
    assert!((0..5).all(|_| read(&cache, "k", value("row")) == value("row")));
    assert_eq!(cache.counters().failures, 5);
    assert!(!cache.delete(&["k"]));
    assert_eq!((cache.counters().deletes, cache.counters().failed_deletes), (0, 1));
    // memcached leaves its socket behind, and a node its.
    let _ = std::fs::remove_file(&path);
    let _server = start();
    wait_until("a value in the new cache", || {
        assert_eq!(read(&cache, "k", value("row")), value("row"));
        cache.counters().stores == 2
    });
    assert_eq!(hit(&cache, "k"), value("row"));
}

#[test]
fn the_database_is_asked_while_the_cache_is_away_and_the_cache_when_it_is_back() {
    restart(&Setup::new(), Setup::start_guira);
    if Setup::new().start_peer().is_none() {
        return skip::say("memcached is not installed");
    }
    restart(&Setup::new(), |setup| setup.start_peer().expect("it is installed"));
}

#[test]
fn a_cache_that_hangs_is_given_up_in_time() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let server = Setup::new().start_guira();
    let hasty = LookAside::new(target(&server)).wait(PATIENCE);
    assert_eq!(read(&hasty, "k", value("row")), value("row"));
    let endpoint = target(&server).endpoint().clone();
    let cache = LookAside::new(Target::new(endpoint, TIMEOUT));
    assert_eq!(hit(&cache, "k"), value("row"));
    server.freeze();
    let time = Stopwatch::start();
    assert!((0..100).all(|_| read(&cache, "other", value("row")) == value("row")));
    // Without a rest it would be a hundred timeouts.
    assert!(time.elapsed() < TIMEOUT * 60, "{:?}", time.elapsed());
    assert_eq!(cache.counters().failures, 100);
    server.signal("CONT");
    wait_until("an answer", || read(&cache, "k", value("db")) == value("row"));
}

#[test]
fn a_value_that_the_cache_does_not_take_is_the_applications_all_the_same() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        let long = value("x".repeat(2 << 20));
        assert_eq!(read(&cache, "long", long.clone()), long, "{name}");
        assert_eq!(cache.counters().failed_stores, 1, "{name}");
        assert_eq!(read(&cache, "k", value("row")), value("row"), "{name}");
        assert_eq!(hit(&cache, "k"), value("row"), "{name}");
    }
}

#[test]
fn keys_that_would_be_commands_are_never_sent() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        assert_eq!(read(&cache, "k", value("row")), value("row"), "{name}");
        for key in ["k\r\ndelete k", "k k", "", &"x".repeat(251)] {
            assert_eq!(read(&cache, key, value("db")), value("db"), "{name}");
            assert!(!cache.delete(&[key]), "{name}");
        }
        assert_eq!(hit(&cache, "k"), value("row"), "{name}");
        assert_eq!(cache.counters().bad_keys, 8, "{name}");
    }
}

/// memcached counts its cas uniques from 1 on whenever it is started.
#[test]
fn a_token_of_a_memcached_that_was_started_anew_meanwhile_stores_nothing() {
    if Setup::new().start_peer().is_none() {
        return skip::say("memcached is not installed");
    }
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let start = || Setup::new().unix_socket(&path).start_peer().expect("it is installed");
    let mut server = Some(start());
    let cache = LookAside::new(Target::new(Endpoint::Unix(path.clone()), PATIENCE)).wait(PATIENCE);
    let found = read_with(&cache, "k", || {
        server.take().expect("it is started once").stop("KILL");
        let _ = std::fs::remove_file(&path);
        server = Some(start());
        // Another client, which has written and then begins to fill the key, is given the same token.
        let other = LookAside::new(Target::new(Endpoint::Unix(path.clone()), PATIENCE));
        assert!(other.delete(&["k"]));
        let mut direct = server.as_ref().expect("it is started").connect();
        assert_eq!(direct.ask("mg guira-client-asks N10\r\n"), "HD W");
        assert_eq!(direct.ask("mg k c N10\r\n"), "HD c2 W");
        value("old")
    });
    assert_eq!(found, value("old"));
    assert_eq!((cache.counters().stores, cache.counters().failed_stores), (0, 1));
    let hasty = cache.clone().wait(Duration::ZERO);
    assert_eq!(read(&hasty, "k", value("new")), value("new"));
}
