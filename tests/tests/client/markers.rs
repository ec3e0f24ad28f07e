//! Remote markers in real pools.

use crate::{document, read, target, value, wait_until};
use guira_client::lookaside::{Changed, Database, LookAside, Markers};
use guira_client::text::{Endpoint, Target};
use guira_harness::socket::Address;
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_tests::deadline::PATIENCE;
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::{Client, Server, Setup, skip};
use std::convert::Infallible;
use std::time::Duration;

/// Pools that do not evict: a node, a memcached, and the router of the document before one.
fn pools() -> Vec<(&'static str, Server)> {
    let node = || Setup::new().guira_argument("--disable-evictions").start_guira();
    let cache = || Setup::new().start_guira();
    let mut pools = vec![
        ("a node", node()),
        ("a router", Setup::new().start_router(&document::router(), vec![cache(), node()])),
    ];
    match Setup::new().options(&["-M"]).start_peer() {
        Some(memcached) => pools.push(("memcached", memcached)),
        None => skip::say("memcached is not installed"),
    }
    pools
}

/// A client of a replica region whose markers settle as soon as they can.
fn client(server: &Server) -> LookAside {
    client_with(server, markers(server))
}

fn markers(server: &Server) -> Markers {
    Markers::at(target(server)).settling(Duration::from_secs(1))
}

fn client_with(server: &Server, markers: Markers) -> LookAside {
    LookAside::new(target(server)).wait(Duration::ZERO).in_replica_region(markers)
}

/// Where a key is to be read.
fn database(cache: &LookAside, key: &str) -> Database {
    cache.get_or_fill(key, Err).expect_err("nothing is ever stored")
}

/// Writes a key; returns the marker that its statement has named.
#[track_caller]
fn write(cache: &LookAside, key: &str) -> String {
    let message = |changed: &Changed| Ok::<_, Infallible>(changed.message().to_owned());
    let message = cache.write_through_delete(&[key], message).expect("no write fails");
    message.strip_prefix(&format!("{key} ")).expect("the key, and a marker").to_owned()
}

/// What the invalidator does once a change has come back, and what an eviction does too.
#[track_caller]
fn remove(server: &Server, key: &str) {
    assert_eq!(server.connect().ask(format!("delete {key}\r\n")), "DELETED", "{key}");
}

#[track_caller]
fn wait_until_nearest(cache: &LookAside, key: &str) {
    wait_until("the nearest database", || database(cache, key) == Database::Nearest);
}

#[test]
fn the_master_is_read_until_a_write_has_come_back_and_settled() {
    for (name, server) in pools() {
        let cache = client(&server);
        assert_eq!(database(&cache, "k"), Database::Nearest, "{name}");
        let marker = write(&cache, "k");
        assert!(server.connect().ask(format!("mg {marker} t\r\n")).starts_with("HD t"), "{name}");
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
        assert_eq!(database(&cache, "other"), Database::Nearest, "{name}");
        remove(&server, &marker);
        // Readers of the replica may not see yet what its log says.
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
        wait_until_nearest(&cache, "k");
        assert_eq!(cache.counters().unmarked_writes, 0, "{name}");
        assert_eq!(server.connect().ask("mg r::k v\r\n"), "EN", "{name}");
    }
}

#[test]
fn writers_do_not_remove_each_others_markers_in_whatever_order_they_come_back() {
    for (name, server) in pools() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let cache = client(&server);
            let written = [(); 3].map(|()| write(&cache, "k"));
            let (last, first) = order.split_last().expect("there are three");
            for number in first {
                remove(&server, &written[*number]);
                assert_eq!(database(&cache, "k"), Database::Master, "{name}, {order:?}");
            }
            let list = server.connect().value("r::k").expect("it is there").data;
            let id = written[*last].strip_prefix("r:").expect("a marker");
            assert!(String::from_utf8_lossy(&list).contains(id), "{name}, {order:?}");
            // One that comes while the others settle is marked as well.
            remove(&server, &written[*last]);
            assert_eq!(database(&cache, "k"), Database::Master, "{name}, {order:?}");
            let late = write(&cache, "k");
            let line = server.connect().ask("mg r::k t\r\n");
            let left = line.strip_prefix("HD t").and_then(|left| left.parse().ok());
            assert!((590..=600).contains(&left.unwrap_or(0)), "{name}, {order:?}: {line}");
            remove(&server, &late);
            wait_until_nearest(&cache, "k");
        }
    }
}

#[test]
fn ids_that_have_arrived_are_taken_out_of_a_list_that_stays() {
    for (name, server) in pools() {
        let cache = client(&server);
        let written: Vec<String> = (0..100).map(|_| write(&cache, "k")).collect();
        written[..60].iter().for_each(|marker| remove(&server, marker));
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
        let list = server.connect().value("r::k").expect("it is there").data;
        let left: String = written[60..].iter().map(|marker| format!("{},", &marker[2..])).collect();
        assert_eq!(String::from_utf8_lossy(&list), left, "{name}");
    }
}

#[test]
fn several_keys_are_marked_by_one_write_and_read_in_one_look() {
    for (name, server) in pools() {
        let cache = client(&server);
        let keys: Vec<String> = (0..150).map(|number| format!("key:{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let half = &keys[..75];
        cache.write_through_delete(half, |_| Ok::<_, Infallible>(())).expect("no write fails");
        let mut told = Vec::new();
        let outcome = cache.get_many(&keys, |wanted| {
            told.extend(wanted.iter().map(|wanted| wanted.database));
            Err(())
        });
        assert_eq!(outcome, Err(()));
        let expected = [Database::Master, Database::Nearest].iter().flat_map(|one| [*one; 75]);
        assert!(told.into_iter().eq(expected), "{name}");
        let counters = cache.counters();
        assert_eq!((counters.marked_reads, counters.unmarked_writes), (75, 0), "{name}");
    }
}

/// What no pool should do: the writer may read the old row.
#[test]
fn a_marker_that_is_evicted_leaves_the_nearest_database() {
    for (name, server) in pools() {
        let cache = client(&server);
        let marker = write(&cache, "k");
        remove(&server, &marker);
        assert_eq!(
            database(&cache, "k"),
            Database::Master,
            "{name}: a moment longer, as if it had come back"
        );
        wait_until_nearest(&cache, "k");
        write(&cache, "l");
        remove(&server, "r::l");
        assert_eq!(database(&cache, "l"), Database::Nearest, "{name}");
    }
}

#[test]
fn a_marker_of_a_writer_that_has_failed_goes_when_its_limit_is_over() {
    for (name, server) in pools() {
        let cache = client_with(&server, markers(&server).limit(Duration::from_secs(2)));
        let failed = cache.write_through_delete(&["k"], |_| Err::<(), _>("the connection was lost"));
        assert_eq!(failed, Err("the connection was lost"), "{name}");
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
        wait_until_nearest(&cache, "k");
        assert!(cache.counters().marked_reads > 0, "{name}");
    }
}

/// Stores values of this length under keys with the prefix `r:` until the pool takes none of a thousand.
fn fill(direct: &mut Client, length: usize) {
    let value = "x".repeat(length);
    for round in 0.. {
        let set = |number| format!("set r:junk:{length}:{round}:{number} 0 0 {length}\r\n{value}\r\n");
        direct.send((0..1000).map(set).collect::<String>());
        let refused = (0..1000).filter(|_| direct.line().starts_with("SERVER_ERROR")).count();
        if refused == 1000 {
            break;
        }
    }
}

#[test]
fn a_write_stands_though_the_pool_is_full() {
    for (name, server) in pools() {
        let cache = client(&server);
        let marker = write(&cache, "k");
        let mut direct = server.connect();
        // The last ones are as long as markers and lists are.
        [400, 40, 17, 1].iter().for_each(|length| fill(&mut direct, *length));
        wait_until("a write without a marker", || {
            write(&cache, "l");
            cache.counters().unmarked_writes > 0
        });
        // What was there stays.
        assert!(direct.ask(format!("mg {marker}\r\n")) == "HD", "{name}");
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
    }
}

#[test]
fn a_pool_that_is_away_has_the_master_asked_unless_the_nearest_is_to_be() {
    let folder = Scratch::new();
    let away = || Target::new(Endpoint::Unix(folder.path().join("none")), PATIENCE);
    let server = Setup::new().start_guira();
    for database in [Database::Master, Database::Nearest] {
        let cache = client_with(&server, Markers::at(away()).when_unreachable(database));
        assert_eq!(crate::markers::database(&cache, "k"), database);
        write(&cache, "k");
        assert_eq!(crate::markers::database(&cache, "k"), database);
        let counters = cache.counters();
        assert_eq!((counters.marker_failures, counters.unmarked_writes, counters.deletes), (2, 1, 1));
    }
    let cache = client_with(&server, Markers::at(away()));
    assert_eq!(database(&cache, "bad key"), Database::Master, "its writer could not mark it");
}

#[test]
fn a_pool_that_a_router_does_not_reach_has_the_master_asked() {
    let markers = Setup::new().guira_argument("--disable-evictions").start_guira();
    let (cache, folder) = (Setup::new().start_guira(), Scratch::new());
    let address = match markers.address() {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    let configuration = document::router().replace("%1", &address);
    let router = Setup::new()
        .guira_argument("--server-timeout-ms=200")
        .guira_argument(&format!("--async-dir={}", folder.path().display()))
        .start_router(&configuration, vec![cache]);
    let client = client(&router);
    assert_eq!(database(&client, "k"), Database::Nearest);
    write(&client, "k");
    assert_eq!(database(&client, "k"), Database::Master);
    markers.freeze();
    for _ in 0..20 {
        assert_eq!(database(&client, "k"), Database::Master, "its write has not come back");
    }
    markers.signal("KILL");
    for _ in 0..20 {
        assert_eq!(database(&client, "k"), Database::Master, "its marker is not known");
    }
}

#[test]
fn a_value_of_the_master_is_cached_until_the_change_comes_back() {
    for (name, server) in pools() {
        let cache = client(&server);
        let marker = write(&cache, "k");
        assert_eq!(read(&cache, "k", value("new")), value("new"), "{name}");
        assert_eq!(crate::hit(&cache, "k"), value("new"), "{name}");
        remove(&server, &marker);
        remove(&server, "k");
        assert_eq!(database(&cache, "k"), Database::Master, "{name}");
    }
}

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;

/// Writers mark, look and come back in any order, while readers take out what has arrived: between its write and its return, no writer is sent to the nearest
/// database, and its id stays in the list.
#[test]
fn no_marker_is_lost_between_writers_and_readers_of_one_key() {
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    for (name, server) in pools() {
        let cache = client(&server);
        let (reads, ends) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = |number| {
                let (cache, server) = (&cache, &server);
                scope.spawn(move || {
                    write_and_return(cache, server, &format!("{name}, seed {seed}"), seed * 100 + number)
                })
            };
            let writers: Vec<_> = (0..2).map(writer).collect();
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        database(&cache, "k");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            ends.store(true, Ordering::Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.expect("no marker is lost"));
        });
        assert_eq!(cache.counters().unmarked_writes, 0, "{name}, seed {seed}");
        assert!(reads.into_inner() > 100, "{name}, seed {seed}");
    }
}

fn write_and_return(cache: &LookAside, server: &Server, what: &str, seed: u64) {
    const WRITES: usize = 1000;
    let (mut random, mut direct) = (Random::new(seed), server.connect());
    let mut under_way = Vec::new();
    for _ in 0..WRITES {
        under_way.push(write(cache, "k"));
        while !under_way.is_empty() && (under_way.len() > 3 || !random.once_in(4)) {
            assert_eq!(database(cache, "k"), Database::Master, "{what}");
            let marker = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
            let list = direct.value("r::k").map(|list| list.data).unwrap_or_default();
            let list = String::from_utf8_lossy(&list).into_owned();
            assert!(list.contains(&marker[2..]), "{what}: {marker} is not in {list}");
            assert_eq!(direct.ask(format!("delete {marker}\r\n")), "DELETED", "{what}");
        }
    }
}
