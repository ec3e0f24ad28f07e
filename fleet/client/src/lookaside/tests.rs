use guira_sync::thread::{self, JoinHandle};
use guira_transport::net::TcpListener;
use std::io::{Read, Write};
use std::time::Duration;

use guira_harness::port::refusing_address;

use super::links::{Links, Urgency};
use super::*;
use crate::text::{Target, TextError};

/// The requests on one connection, and the replies.
type Talk = Vec<(String, String)>;

const PROBE: &str = "lease-get guira-client-asks\r\nmg guira-client-asks N10\r\nmn\r\n";
const NATIVE: (&str, &str) = (PROBE, "LVALUE guira-client-asks 7 0 0\r\n\r\nEND\r\nHD Z\r\nMN\r\n");
const META: (&str, &str) = (PROBE, "ERROR\r\nHD W\r\nMN\r\n");

/// Longer than a test takes.
const REST: Duration = Duration::from_secs(3600);

fn talk(exchanges: &[(&str, &str)]) -> Talk {
    exchanges.iter().map(|(requested, answered)| (requested.to_string(), answered.to_string())).collect()
}

/// A server that expects these requests over one connection after the other, each in one piece. A connection is closed at its end.
fn serve(talks: Vec<Talk>) -> (Target, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let server = thread::spawn(move || {
        for talk in talks {
            let (mut socket, _) = listener.accept().unwrap();
            for (requested, answered) in talk {
                let mut received = vec![0; requested.len()];
                socket.read_exact(&mut received).unwrap();
                assert_eq!(String::from_utf8_lossy(&received), requested);
                socket.write_all(answered.as_bytes()).unwrap();
            }
        }
    });
    (Target::new(at, Duration::from_secs(20)), server)
}

fn client(target: Target) -> LookAside {
    LookAside::new(target).jitter(0).wait(Duration::from_millis(20))
}

fn value(text: &str) -> Option<Value> {
    Some(Value::new(text))
}

/// The value of a key, if the database has this one.
#[track_caller]
fn read(cache: &LookAside, key: &str, of_database: Option<Value>) -> Option<Value> {
    cache.get_or_fill(key, |_| Ok::<_, ()>(of_database)).unwrap()
}

/// The value of a key that the cache has.
#[track_caller]
fn hit(cache: &LookAside, key: &str) -> Option<Value> {
    cache.get_or_fill(key, |_| -> Result<_, ()> { panic!("the cache has it") }).unwrap()
}

#[test]
fn guiras_leases_are_lines_of_lease_get_and_lease_set() {
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        ("lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n"),
        ("lease-set k 101 5 3600 1\r\nx\r\n", "STORED\r\n"),
        ("lease-get k\r\n", "VALUE k 5 1\r\nx\r\nEND\r\n"),
        ("lease-get none\r\n", "LVALUE none 102 0 0\r\n\r\nEND\r\n"),
        ("lease-set none 102 2147483648 60 0\r\n\r\n", "NOT_STORED\r\n"),
        ("lease-get none\r\n", "VALUE none 2147483648 0\r\n\r\nEND\r\n"),
        ("lease-get hot\r\n", "LVALUE hot 1 0 3\r\nold\r\nEND\r\n"),
        ("delete k\r\ndelete l\r\n", "DELETED\r\nNOT_FOUND\r\n"),
    ])]);
    let cache = client(target);
    assert_eq!(read(&cache, "k", Some(Value::new("x").with_flags(5))), Some(Value::new("x").with_flags(5)));
    assert_eq!(hit(&cache, "k"), Some(Value::new("x").with_flags(5)));
    assert_eq!(read(&cache, "none", None), None);
    assert_eq!(hit(&cache, "none"), None);
    let stale = cache.clone().stale_values(StaleValues::Use);
    assert_eq!(hit(&stale, "hot"), value("old"));
    assert!(cache.delete(&["k", "l"]));
    let expected = Counters {
        hits: 2,
        stale_hits: 1,
        misses: 2,
        stores: 1,
        refusals: 1,
        deletes: 2,
        ..Counters::default()
    };
    assert_eq!(cache.counters(), expected);
    server.join().unwrap();
}

#[test]
fn memcacheds_leases_are_lines_of_mg_and_ms() {
    let (target, server) = serve(vec![talk(&[
        META,
        ("mg k v f c N10\r\n", "VA 0 f0 c7 W\r\n\r\n"),
        ("ms k 9 F1073741824 T60 C7\r\n\0\0\0\0\0\0\0\x02x\r\n", "HD\r\n"),
        ("mg k v f c N10\r\n", "VA 9 f1073741824 c8\r\n\0\0\0\0\0\0\0\x02x\r\n"),
        ("mg k v f c N10\r\n", "VA 1 f0 c8 X Z\r\ny\r\n"),
        ("mg k v f c N10\r\n", "VA 1 f0 c9 Z\r\ny\r\n"),
        ("mg k v f c N10\r\n", "VA 1 f0 c9 X W\r\ny\r\n"),
        ("ms k 1 F0 T60 C9\r\nz\r\n", "EX\r\n"),
        ("mg k v f c N10\r\n", "EN\r\n"),
        ("mg k v f c N10\r\n", "VA 0 f0 c0 W\r\n\r\n"),
        ("mg k v f c N10\r\n", "SERVER_ERROR out of memory\r\n"),
    ])]);
    let cache = client(target).expiry(Duration::from_secs(60)).stale_values(StaleValues::Use);
    let second = Some(Value::new("x").with_version(2));
    assert_eq!(read(&cache, "k", second.clone()), second);
    assert_eq!(hit(&cache, "k"), second);
    assert_eq!((hit(&cache, "k"), hit(&cache, "k")), (value("y"), value("y")));
    assert_eq!(read(&cache, "k", value("z")), value("z"));
    // No memory for the item of a lease, no cas uniques, and an error: the client reads the
    // database.
    assert!((0..3).all(|_| read(&cache, "k", value("a")) == value("a")));
    let expected = Counters {
        hits: 2,
        stale_hits: 1,
        misses: 2,
        stores: 1,
        refusals: 1,
        failures: 3,
        ..Counters::default()
    };
    assert_eq!(cache.counters(), expected);
    server.join().unwrap();
}

#[test]
fn a_wait_ends_with_the_value_or_with_the_database() {
    let taken = ("lease-get k\r\n", "LVALUE k 1 0 0\r\n\r\nEND\r\n");
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        taken,
        taken,
        ("lease-get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        taken,
        // Its holder's time is over: the token is this client's.
        ("lease-get k\r\n", "LVALUE k 102 0 0\r\n\r\nEND\r\n"),
        ("lease-set k 102 0 3600 1\r\ny\r\n", "STORED\r\n"),
        taken,
    ])]);
    let cache = client(target);
    let patient = cache.clone().wait(Duration::from_secs(60));
    assert_eq!(hit(&patient, "k"), value("x"));
    assert_eq!(read(&patient, "k", value("y")), value("y"));
    let hasty = cache.clone().wait(Duration::ZERO);
    assert_eq!(read(&hasty, "k", value("z")), value("z"));
    let Counters { waits, unleased, stores, .. } = cache.counters();
    assert_eq!((waits, unleased, stores), (3, 1, 1));
    server.join().unwrap();
}

#[test]
fn an_older_version_does_not_replace_a_newer_one() {
    let requested = ("lease-get k\r\n", "LVALUE k 101 1073741824 9\r\n\0\0\0\0\0\0\0\x05x\r\nEND\r\n");
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        requested,
        // Others need not wait. The stale value stays.
        ("md k C101\r\n", "HD\r\n"),
        requested,
        ("lease-set k 101 1073741824 3600 9\r\n\0\0\0\0\0\0\0\x05y\r\n", "STORED\r\n"),
    ])]);
    let cache = client(target);
    let version = |text: &str, version| Some(Value::new(text).with_version(version));
    assert_eq!(read(&cache, "k", version("y", 4)), version("x", 5));
    assert_eq!(read(&cache, "k", version("y", 5)), version("y", 5));
    assert_eq!((cache.counters().older, cache.counters().stores), (1, 1));
    server.join().unwrap();
}

#[test]
fn several_keys_are_asked_for_in_one_piece_and_filled_together() {
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        (
            "lease-get a b c d e\r\n",
            "VALUE a 0 1\r\n1\r\nLVALUE b 102 0 0\r\n\r\nLVALUE c 1 0 0\r\n\r\nLVALUE e 103 0 0\r\n\r\nEND\r\n",
        ),
        ("lease-set b 102 0 3600 1\r\nB\r\nlease-set e 103 2147483648 60 0\r\n\r\n", "STORED\r\nSTORED\r\n"),
        ("lease-get c\r\n", "VALUE c 0 1\r\n3\r\nEND\r\n"),
        ("lease-get a b\r\n", "VALUE a 0 1\r\n1\r\nSERVER_ERROR timeout\r\n"),
    ])]);
    let cache = client(target).wait(Duration::from_secs(60));
    let mut fills = Vec::new();
    let mut fill = |wanted: &[Wanted<'_>]| {
        fills.push(wanted.iter().map(|wanted| wanted.key.to_owned()).collect::<Vec<_>>());
        let of = |key: &str| if key == "e" { None } else { Some(Value::new(key.to_uppercase())) };
        Ok::<_, ()>(wanted.iter().map(|wanted| of(wanted.key)).collect())
    };
    let keys = ["a", "b", "a", "c", "d", "e", "b d"];
    let found = cache.get_many(&keys, &mut fill).unwrap();
    let expected = [value("1"), value("B"), value("1"), value("3"), value("D"), None, value("B D")];
    assert_eq!(found, expected);
    assert_eq!(cache.get_many(&["a", "b"], &mut fill).unwrap(), [value("1"), value("B")]);
    assert_eq!(cache.get_many(&[], &mut fill).unwrap(), []);
    assert_eq!(fills, [vec!["b d", "b", "d", "e"], vec!["b"]]);
    let Counters { hits, misses, waits, failures, bad_keys, .. } = cache.counters();
    assert_eq!((hits, misses, waits, failures, bad_keys), (3, 2, 1, 2, 1));
    server.join().unwrap();
}

#[test]
fn many_keys_are_asked_for_in_short_lines_and_in_batches() {
    let keys: Vec<String> = (0..70).map(|number| format!("{number:0>200}")).collect();
    let values =
        |keys: &[String]| keys.iter().map(|key| format!("VALUE {key} 0 1\r\nx\r\n")).collect::<String>();
    let lines = |keys: &[String]| {
        let requested = keys.chunks(4).map(|line| format!("lease-get {}\r\n", line.join(" ")));
        let answered = keys.chunks(4).map(|line| values(line) + "END\r\n");
        (requested.collect::<String>(), answered.collect::<String>())
    };
    let (probe, first, second) = (talk(&[NATIVE]), lines(&keys[..64]), lines(&keys[64..]));
    let (target, server) = serve(vec![[probe, vec![first, second]].concat()]);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = client(target).get_many(&keys, |_| -> Result<_, ()> { panic!("the cache has all") }).unwrap();
    assert!(found.len() == 70 && found.iter().all(|found| *found == value("x")));
    server.join().unwrap();
}

#[test]
fn whatever_the_cache_says_the_application_has_its_value() {
    for (probe, answer) in [
        (NATIVE, "ERROR\r\n"),
        (NATIVE, "END"),
        (NATIVE, "SERVER_ERROR out of memory\r\n"),
        (NATIVE, "CLIENT_ERROR line too long\r\n"),
        (NATIVE, "VALUE other 0 1\r\nx\r\nEND\r\n"),
        (NATIVE, "VALUE k 0 1\r\nxy\r\nEND\r\n"),
        (NATIVE, "VALUE k 0 9\r\nx\r\n"),
        (NATIVE, "VALUE k 0 18446744073709551615\r\nx\r\n"),
        (NATIVE, "VALUE k 0 1073741825\r\nx\r\n"),
        (NATIVE, "VALUE k 4294967296 1\r\nx\r\nEND\r\n"),
        (NATIVE, "VALUE k 0 1\r\nx\r\nVALUE k 0 1\r\nx\r\nEND\r\n"),
        (NATIVE, "VALUE k 1073741824 1\r\nx\r\nEND\r\n"),
        (NATIVE, "LVALUE k x 0 0\r\n\r\nEND\r\n"),
        (NATIVE, "LVALUE k 1 0\r\n\r\nEND\r\n"),
        (NATIVE, "LVALUE k 0 0 0\r\n\r\nEND\r\n"),
        (NATIVE, "\r\n"),
        (META, "ERROR\r\n"),
        (META, "VA\r\n"),
        (META, "VA 1 f0\r\nx\r\n"),
        (META, "VA 1 c1\r\nx\r\n"),
        (META, "VA 1 f0 c1\r\nx"),
        (META, "HD\r\n"),
        ((PROBE, "ERROR\r\nERROR\r\nERROR\r\n"), ""),
        ((PROBE, "LVALUE a 1 0 3\r\n"), ""),
    ] {
        let requested = if probe == META { "mg k v f c N10\r\n" } else { "lease-get k\r\n" };
        let rest = if answer.is_empty() { vec![] } else { vec![(requested, answer)] };
        let (target, server) = serve(vec![talk(&[&[probe][..], &rest].concat())]);
        let cache = client(target);
        assert_eq!(read(&cache, "k", value("db")), value("db"), "{probe:?} {answer}");
        let Counters { failures, stores, hits, .. } = cache.counters();
        assert_eq!((failures, stores, hits), (1, 0, 0), "{probe:?} {answer}");
        server.join().unwrap();
    }
}

/// Answers with bytes that are wrong, missing or too many.
#[test]
fn no_answer_is_so_wrong_that_a_read_does_not_end() {
    const SEED: u64 = 1;
    let random = random::Random::new(SEED);
    for round in 0..600 {
        let (probe, requested, answers) = if round % 2 == 0 {
            let answers = [
                "LVALUE k 101 1073741824 9\r\n\0\0\0\0\0\0\0\x05x\r\nEND\r\n",
                "VALUE k 0 1\r\nx\r\nEND\r\n",
            ];
            (NATIVE, "lease-get k\r\n", answers)
        } else {
            (
                META,
                "mg k v f c N10\r\n",
                ["VA 9 f1073741824 c8 X W\r\n\0\0\0\0\0\0\0\x02x\r\n", "VA 0 f0 c7 Z\r\n\r\n"],
            )
        };
        let mut answer = answers[random.below(2) as usize].to_owned();
        for _ in 0..=random.below(3) {
            let at = random.below(answer.len() as u64 + 1) as usize;
            let put = ["", " ", "9", "\r\n", "x", "-", "END\r\n", "\0"][random.below(8) as usize];
            let end = (at + random.below(3) as usize).min(answer.len());
            answer.replace_range(at..end, put);
        }
        let said = format!("seed {SEED}, round {round}: {answer:?}");
        // What it stores is not looked at: the connection is closed.
        let (target, server) = serve(vec![talk(&[probe, (requested, &answer)]), vec![]]);
        let found = read(&client(target.clone()).wait(Duration::ZERO), "k", value("db"));
        assert!(found.is_some(), "{said}");
        let _ = crate::text::Connection::open(&target);
        server.join().unwrap();
    }
}

#[test]
fn stores_that_fail_are_counted_and_nothing_else() {
    for (answer, expected) in [
        ("STORED\r\n", (1, 0, 0)),
        ("NOT_STORED\r\n", (0, 1, 0)),
        ("STALE_STORED\r\n", (0, 1, 0)),
        ("SERVER_ERROR object too large for cache\r\n", (0, 0, 1)),
        ("ERROR\r\n", (0, 0, 1)),
        ("STO", (0, 0, 1)),
    ] {
        let requested = ("lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n");
        let set = ("lease-set k 101 0 3600 1\r\nx\r\n", answer);
        // The closed connection is replaced by one that is closed at once.
        let (target, server) = serve(vec![talk(&[NATIVE, requested, set]), vec![]]);
        let cache = client(target.clone());
        assert_eq!(read(&cache, "k", value("x")), value("x"), "{answer}");
        let Counters { stores, refusals, failed_stores, .. } = cache.counters();
        assert_eq!((stores, refusals, failed_stores), expected, "{answer}");
        // Ends a server that still accepts.
        let _ = crate::text::Connection::open(&target);
        server.join().unwrap();
    }
}

#[test]
fn a_server_that_knows_no_leases_is_told_to_who_asks() {
    let (target, server) = serve(vec![
        talk(&[(PROBE, "ERROR\r\nERROR\r\nERROR\r\n")]),
        // memcached before 1.6.10.
        talk(&[(PROBE, "ERROR\r\nOK W\r\nMN\r\n")]),
        talk(&[META]),
        talk(&[NATIVE]),
        talk(&[(PROBE, "SERVER_ERROR the server knows no leases: …\r\nSERVER_ERROR timeout\r\nMN\r\n")]),
        talk(&[(PROBE, "LVALUE guira-client-asks 0 0 0\r\n\r\nEND\r\nEN\r\nMN\r\n")]),
    ]);
    for expected in ["ERROR", "OK W"] {
        let error = client(target.clone()).leases().unwrap_err();
        assert!(matches!(&error, CacheError::NoLeases(said) if said == expected), "{error}");
    }
    for leases in [Leases::Meta, Leases::Native, Leases::Meta, Leases::Meta] {
        assert_eq!(client(target.clone()).leases().unwrap(), leases);
    }
    server.join().unwrap();
}

#[test]
fn a_token_is_not_shown_to_a_server_that_leases_otherwise() {
    let (target, server) = serve(vec![
        talk(&[NATIVE, ("lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n")]),
        talk(&[META, ("mg l v f c N10\r\n", "VA 1 f0 c1\r\nx\r\n")]),
    ]);
    let cache = client(target);
    assert_eq!(read(&cache, "k", value("x")), value("x"));
    assert_eq!(cache.counters().refusals, 1);
    assert_eq!(hit(&cache, "l"), value("x"));
    server.join().unwrap();
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_replaced() {
    let get = ("lease-get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    let (target, server) = serve(vec![talk(&[NATIVE, get]), talk(&[NATIVE, get, get])]);
    let cache = client(target);
    assert!((0..3).all(|_| hit(&cache, "k") == value("x")));
    assert_eq!(cache.counters().failures, 0);
    server.join().unwrap();
}

#[test]
fn a_server_that_is_not_there_is_left_alone_but_by_deletes() {
    let target = Target::new(refusing_address().to_string().parse().unwrap(), Duration::from_secs(20));
    let links = Links::resting(target.clone(), REST);
    let refused = |outcome: Result<Leases, CacheError>| {
        assert!(matches!(outcome, Err(CacheError::Text(TextError::Connect(_)))), "{outcome:?}");
    };
    refused(links.with(Urgency::Optional, leases::of_link));
    let outcome = links.with(Urgency::Optional, leases::of_link);
    assert!(matches!(outcome, Err(CacheError::Resting)), "{outcome:?}");
    refused(links.with(Urgency::Needed, leases::of_link));
    let cache = client(target);
    assert!((0..3).all(|_| read(&cache, "k", value("db")) == value("db")));
    assert_eq!(cache.counters().failures, 3);
    assert_eq!(cache.write_through_delete(&["k"], |_| Ok::<_, ()>(5)), Ok(5));
    assert_eq!((cache.counters().deletes, cache.counters().failed_deletes), (0, 1));
}

#[test]
fn a_server_that_is_silent_is_asked_three_times() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let links = Links::resting(Target::new(at, Duration::from_millis(20)), REST);
    let errors: Vec<String> = (0..4)
        .map(|_| {
            let outcome = links.with(Urgency::Optional, leases::of_link);
            outcome.unwrap_err().to_string()
        })
        .collect();
    let late = TextError::Late.to_string();
    assert_eq!(errors, [&*late, &late, &late, &CacheError::Resting.to_string()]);
}

#[test]
fn a_write_tells_its_statement_the_keys_and_deletes_them_even_if_it_fails() {
    let delete = ("delete k\r\ndelete l\r\n", "DELETED\r\nSERVER_ERROR timeout\r\n");
    let (target, server) = serve(vec![talk(&[delete, delete])]);
    let cache = client(target);
    let mut said = Vec::new();
    let keys = ["k", "a*/b", "l", "with blank"];
    let outcomes = [Ok(1), Err("refused")].map(|outcome: Result<i32, &str>| {
        cache.write_through_delete(&keys, |changed| {
            said.push((changed.comment(), changed.message().to_owned()));
            outcome
        })
    });
    assert_eq!(outcomes, [Ok(1), Err("refused")]);
    assert_eq!(said, vec![("/* mc: k l */".to_owned(), "k l".to_owned()); 2]);
    let Counters { deletes, failed_deletes, bad_keys, .. } = cache.counters();
    assert_eq!((deletes, failed_deletes, bad_keys), (2, 2, 4));
    server.join().unwrap();
}

#[test]
fn what_the_database_refuses_is_the_callers_and_its_leases_are_given_back() {
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        ("lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n"),
        ("md k C101\r\n", "HD\r\n"),
        (
            "lease-get k l m\r\n",
            "LVALUE k 102 0 0\r\n\r\nVALUE l 0 1\r\nx\r\nLVALUE m 103 0 0\r\n\r\nEND\r\n",
        ),
        ("md k C102\r\nmd m C103\r\n", "EX\r\nERROR\r\n"),
        ("lease-get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
    ])]);
    let cache = client(target);
    assert_eq!(cache.get_or_fill("k", |_| Err::<Option<Value>, _>("down")), Err("down"));
    assert_eq!(cache.get_many(&["k", "l", "m"], |_| Err("down")), Err("down"));
    assert_eq!(hit(&cache, "k"), value("x"));
    assert_eq!((cache.counters().misses, cache.counters().failures), (3, 0));
    server.join().unwrap();
}

#[test]
#[should_panic(expected = "a value, or none, for each key")]
fn a_fill_has_a_value_for_each_key() {
    let (target, _server) = serve(vec![]);
    let _ = client(target).get_many(&["a b", "c d"], |_| Ok::<_, ()>(vec![None]));
}

/// The database that a client without a cache reads `k` from.
fn database_of(markers: Markers) -> (Database, Counters) {
    let nowhere = Target::new("unix:/nowhere".parse().unwrap(), Duration::from_secs(20));
    let cache = client(nowhere).in_replica_region(markers);
    (cache.get_or_fill("k", Err).unwrap_err(), cache.counters())
}

#[test]
fn a_list_is_tidied_by_its_cas_unique_so_that_what_was_added_meanwhile_stays() {
    let look = "mg r::k v c\r\n";
    for (talk_about, database) in [
        (vec![(look, "EN\r\n")], Database::Nearest),
        (vec![(look, "VA 0 c5\r\n\r\n")], Database::Master),
        (vec![(look, "VA 4 c5\r\na,b,\r\n"), ("mg r:a\r\nmg r:b\r\n", "EN\r\nHD\r\n")], Database::Master),
        (
            vec![
                (look, "VA 4 c5\r\na,b,\r\n"),
                ("mg r:a\r\nmg r:b\r\n", "EN\r\nEN\r\n"),
                ("ms r::k 0 C5 T3\r\n\r\n", "EX\r\n"),
            ],
            Database::Master,
        ),
    ] {
        let (target, server) = serve(vec![talk(&talk_about)]);
        let (found, counters) = database_of(Markers::at(target));
        assert_eq!((found, counters.marker_failures), (database, 0), "{talk_about:?}");
        server.join().unwrap();
    }
}

#[test]
fn an_answer_about_markers_that_is_none_is_a_failure() {
    for answer in
        ["ERROR\r\n", "SERVER_ERROR timeout\r\n", "VA 1\r\nx\r\n", "VA x c1\r\n", "HD\r\n", "VA 2 c1\r\nx"]
    {
        let (target, server) = serve(vec![talk(&[("mg r::k v c\r\n", answer)])]);
        let (found, counters) = database_of(Markers::at(target).when_unreachable(Database::Nearest));
        assert_eq!((found, counters.marker_failures), (Database::Nearest, 1), "{answer}");
        server.join().unwrap();
    }
}

/// A write of `k` with its marker, whose list is made or found as these answers say.
fn mark(answers: &[(&str, &str)]) -> Counters {
    let (listener, nowhere) = (TcpListener::bind("127.0.0.1:0").unwrap(), "unix:/nowhere".parse().unwrap());
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let cache = client(Target::new(nowhere, Duration::from_secs(20)))
        .in_replica_region(Markers::at(Target::new(at, Duration::from_secs(20))));
    let answers: Talk = talk(answers);
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut exchange = |requested: &str, answered: &str, id: Option<String>| {
            // An id has 16 digits.
            let mut received = vec![0; requested.len() + 14];
            socket.read_exact(&mut received).unwrap();
            let received = String::from_utf8(received).unwrap();
            let id = id.unwrap_or_else(|| received[5..21].to_owned());
            assert_eq!(received.replace(&id, "ID"), requested);
            socket.write_all(answered.as_bytes()).unwrap();
            id
        };
        let id = exchange("ms r:ID 1 T600\r\n1\r\n", "HD\r\n", None);
        for (requested, answered) in answers {
            exchange(&requested, &answered, Some(id.clone()));
        }
    });
    assert_eq!(cache.write_through_delete(&["k"], |_| Ok::<_, ()>(1)), Ok(1));
    server.join().unwrap();
    cache.counters()
}

#[test]
fn an_id_is_appended_or_begins_a_list_and_the_list_lives_as_long_as_its_youngest() {
    let append = "ms r::k 17 MA N600 T600\r\nID,\r\nmg r::k T600\r\n";
    let add = "ms r::k 17 ME T600\r\nID,\r\nmg r::k T600\r\n";
    for (answers, unmarked) in [
        (vec![(append, "HD\r\nHD\r\n")], 0),
        // memcached before 1.6.19.
        (vec![(append, "NS\r\nEN\r\n"), (add, "HD\r\nHD\r\n")], 0),
        // Another writer has been faster, or the list has gone in between.
        (vec![(append, "NS\r\nHD\r\n"), (add, "NS\r\nHD\r\n"), (append, "HD\r\nHD\r\n")], 0),
        (vec![(append, "HD\r\nEN\r\n"), (add, "HD\r\nHD\r\n")], 0),
        ([(append, "SERVER_ERROR out of memory\r\nEN\r\n"), (add, "SERVER_ERROR x\r\nEN\r\n")].repeat(4), 1),
    ] {
        assert_eq!(mark(&answers).unmarked_writes, unmarked, "{answers:?}");
    }
}

fn mg(answer: &'static str) -> (&'static str, &'static str) {
    ("mg k v f c N10\r\n", answer)
}

#[test]
fn what_memcached_has_given_a_token_for_is_stored_over_the_same_connection_or_not_at_all() {
    // Another memcached has started to count its cas uniques: 1 would be a token of it.
    let (target, server) = serve(vec![talk(&[META, mg("VA 0 f0 c1 W\r\n\r\n")]), vec![]]);
    let cache = client(target.clone());
    assert_eq!(read(&cache, "k", value("old")), value("old"));
    assert_eq!((cache.counters().stores, cache.counters().failed_stores), (0, 1));
    let _ = crate::text::Connection::open(&target);
    server.join().unwrap();
}

#[test]
fn a_connection_with_a_token_of_memcached_is_not_used_by_others_meanwhile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let server = thread::spawn(move || {
        let accept = || listener.accept().unwrap().0;
        let say = |socket: &mut guira_transport::net::TcpStream, (requested, answered): (&str, &str)| {
            let mut received = vec![0; requested.len()];
            socket.read_exact(&mut received).unwrap();
            assert_eq!(String::from_utf8_lossy(&received), requested);
            socket.write_all(answered.as_bytes()).unwrap();
        };
        let mut first = accept();
        say(&mut first, META);
        say(&mut first, mg("VA 0 f0 c1 W\r\n\r\n"));
        let mut second = accept();
        say(&mut second, META);
        say(&mut second, ("mg l v f c N10\r\n", "VA 1 f0 c2\r\nx\r\n"));
        say(&mut first, ("ms k 3 F0 T3600 C1\r\nrow\r\n", "HD\r\n"));
    });
    let cache = client(Target::new(at, Duration::from_secs(20)));
    let found = cache.get_or_fill("k", |_| {
        assert_eq!(hit(&cache, "l"), value("x"));
        Ok::<_, ()>(value("row"))
    });
    assert_eq!((found, cache.counters().stores), (Ok(value("row")), 1));
    server.join().unwrap();
}

#[test]
fn leases_are_given_back_when_a_fill_panics() {
    for (probe, requested, answer) in [
        (NATIVE, "lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n"),
        (META, "mg k v f c N10\r\n", "VA 0 f0 c101 W\r\n\r\n"),
    ] {
        let (target, server) = serve(vec![talk(&[probe, (requested, answer), ("md k C101\r\n", "HD\r\n")])]);
        let cache = client(target);
        let fill = || cache.get_or_fill("k", |_| -> Result<_, ()> { panic!("a fill that panics") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fill)).is_err());
        drop(cache);
        server.join().unwrap();
    }
}

#[test]
fn leases_of_values_that_the_cache_does_not_take_are_given_back() {
    let (target, server) = serve(vec![talk(&[
        NATIVE,
        ("lease-get k\r\n", "LVALUE k 101 0 0\r\n\r\nEND\r\n"),
        ("lease-set k 101 0 3600 1\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n"),
        ("md k C101\r\n", "HD\r\n"),
    ])]);
    let cache = client(target);
    assert_eq!(read(&cache, "k", value("x")), value("x"));
    assert_eq!(cache.counters().failed_stores, 1);
    drop(cache);
    server.join().unwrap();
}

#[test]
fn keys_are_deleted_when_a_write_panics() {
    let (target, server) = serve(vec![talk(&[("delete k\r\n", "DELETED\r\n")])]);
    let cache = client(target);
    let write = || cache.write_through_delete(&["k"], |_| -> Result<(), ()> { panic!("after the commit") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
    assert_eq!(cache.counters().deletes, 1);
    server.join().unwrap();
}

#[test]
fn a_value_longer_than_any_server_has_is_not_sent() {
    let (target, server) = serve(vec![talk(&[META, ("mn\r\n", "MN\r\n")])]);
    let links = Links::new(target);
    let token = leases::Token::of_memcached(7);
    let item = value::Item { flags: 0, data: vec![0; (1 << 30) + 1] };
    let store = leases::Store { key: "k", token, item, seconds: 1 };
    let stored = links.with(Urgency::Needed, |link| {
        let stored = leases::set(link, std::slice::from_ref(&store))?;
        link.connection.send(b"mn\r\n")?;
        assert_eq!(link.connection.line()?, b"MN");
        Ok(stored)
    });
    assert_eq!(stored.unwrap(), [leases::Stored::Failed]);
    server.join().unwrap();
}

#[test]
fn what_has_come_before_an_answer_ends_is_used() {
    let (target, server) = serve(vec![
        talk(&[NATIVE, ("lease-get a b c\r\n", "VALUE a 0 1\r\n1\r\nLVALUE b 102 0 0\r\n\r\nLVAL")]),
        talk(&[NATIVE, ("lease-set b 102 0 3600 2\r\ndb\r\n", "STORED\r\n")]),
    ]);
    let cache = client(target);
    let found = cache.get_many(&["a", "b", "c"], |wanted| Ok::<_, ()>(vec![value("db"); wanted.len()]));
    assert_eq!(found.unwrap(), [value("1"), value("db"), value("db")]);
    let Counters { hits, misses, failures, stores, .. } = cache.counters();
    assert_eq!((hits, misses, failures, stores), (1, 1, 1, 1));
    server.join().unwrap();
}

#[test]
fn one_call_asks_a_server_whose_rest_is_over_while_others_do_without() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    // Silent, and its rest is over at once.
    let links = Links::resting(Target::new(at, Duration::from_millis(500)), Duration::from_millis(100));
    let open_link = || links.with(Urgency::Optional, leases::of_link);
    (0..3).for_each(|_| assert!(open_link().is_err()));
    thread::sleep(Duration::from_millis(101));
    let outcomes = thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(open_link)).collect();
        calls.into_iter().map(|call| call.join().unwrap().unwrap_err()).collect::<Vec<_>>()
    });
    let resting = outcomes.iter().filter(|error| matches!(error, CacheError::Resting)).count();
    assert_eq!(resting, 7, "{outcomes:?}");
}

#[test]
fn connections_whose_way_is_gone_cost_one_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let links = Links::new(Target::new(at, Duration::from_millis(200)));
    let delete = |link: &mut links::Link| leases::delete(link, &["k"]);
    let answer = |socket: &mut guira_transport::net::TcpStream| {
        let mut received = [0; 10];
        socket.read_exact(&mut received).unwrap();
        socket.write_all(b"DELETED\r\n").unwrap();
    };
    let lent: Vec<_> = (0..4)
        .map(|_| {
            thread::scope(|scope| {
                let server = scope.spawn(|| {
                    let mut socket = listener.accept().unwrap().0;
                    answer(&mut socket);
                    socket
                });
                let (_, link) = links.lend(Urgency::Needed, delete).unwrap();
                (link, server.join().unwrap())
            })
        })
        .collect();
    let (idle, _silent): (Vec<_>, Vec<_>) = lent.into_iter().unzip();
    idle.into_iter().for_each(|link| links.keep(link));
    let _server = thread::spawn(move || answer(&mut listener.accept().unwrap().0));
    let late = links.with(Urgency::Needed, delete);
    assert!(matches!(late, Err(CacheError::Text(TextError::Late))), "{late:?}");
    assert_eq!(links.with(Urgency::Needed, delete).unwrap(), [true]);
}

#[test]
fn markers_do_not_go_on_with_a_server_that_does_not_know_their_commands() {
    // It answers to the value too, which must not be taken for the next answer.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut received = [0; 32];
        socket.read_exact(&mut received).unwrap();
        socket.write_all(b"ERROR\r\nERROR\r\n").unwrap();
        let (mut next, _) = listener.accept().unwrap();
        let mut received = [0; 13];
        next.read_exact(&mut received).unwrap();
        next.write_all(b"EN\r\n").unwrap();
    });
    let nowhere = Target::new("unix:/nowhere".parse().unwrap(), Duration::from_secs(20));
    let cache = client(nowhere).in_replica_region(Markers::at(Target::new(at, Duration::from_secs(20))));
    assert_eq!(cache.write_through_delete(&["k"], |_| Ok::<_, ()>(1)), Ok(1));
    assert_eq!(cache.get_or_fill("k", Err).unwrap_err(), Database::Nearest);
    assert_eq!((cache.counters().unmarked_writes, cache.counters().marker_failures), (1, 0));
    server.join().unwrap();
}
