//! `stats topkeys`: which keys are asked for most. memcached has no such command.

use guira_tests::binary::{Request, get};
use guira_tests::mica::{Datagram, GET, MicaClient, SET};
use guira_tests::random::Random;
use guira_tests::server::engines;
use guira_tests::udp::UdpClient;
use guira_tests::{Client, Server, Setup};
use std::collections::BTreeMap;

type Stats = BTreeMap<String, String>;

/// The keys of a list, the first rank first, with what is estimated of them and how much of it may be too much.
fn list(stats: &Stats, name: &str) -> Vec<(String, u64, u64)> {
    let about = |rank: usize, what: &str| stats.get(&format!("topkeys:{name}:{rank}:{what}"));
    let number = |rank, what| about(rank, what).expect("a number").parse().expect("a number");
    (1..)
        .map_while(|rank| Some((about(rank, "key")?.clone(), number(rank, "count"), number(rank, "error"))))
        .collect()
}

fn number(stats: &Stats, name: &str) -> u64 {
    stats[&format!("topkeys:{name}")].parse().expect("a number")
}

/// Whether an estimate from a sample of some hundred is that of so many.
#[track_caller]
fn expect_about(found: u64, wanted: u64) {
    assert!((wanted / 2..wanted * 3 / 2).contains(&found), "{found} instead of about {wanted}");
}

/// Of so many requests one is for the hot key: about 25 in the sample.
const HOT: u64 = 20;

/// Whether an estimate from a sample of some 25 is that of so many: less than a quarter of these come once in 10⁵ times.
#[track_caller]
fn expect_roughly(found: u64, wanted: u64) {
    assert!((wanted / 4..wanted * 5 / 2).contains(&found), "{found} instead of roughly {wanted}");
}

/// Asks for keys in round trips of four: one in [`HOT`] is `hot:key`, which has a value of 100 bytes. Others are misses.
fn ask_for_a_hot_key(client: &mut Client, rounds: u32, seed: u64) {
    client.set("hot:key", [b'x'; 100]);
    let hit = format!("VALUE hot:key 0 100\r\n{}\r\nEND\r\n", "x".repeat(100));
    let mut random = Random::new(seed);
    for _ in 0..rounds {
        let (mut requests, mut replies) = (String::new(), String::new());
        for _ in 0..4 {
            if random.once_in(HOT) {
                requests += "get hot:key\r\n";
                replies += &hit;
            } else {
                requests += &format!("get cold:{}\r\n", random.below(100_000));
                replies += "END\r\n";
            }
        }
        client.exchange(requests, replies);
    }
}

/// So many that there are some hundred requests in the sample.
const ROUNDS: u32 = 16_000;

#[track_caller]
fn expect_the_hot_key(server: &Server, seed: u64) {
    let mut client = server.connect();
    ask_for_a_hot_key(&mut client, ROUNDS, seed);
    let stats = client.stats("topkeys");
    let requests = 4 * u64::from(ROUNDS);
    for window in ["minute", "total"] {
        assert!(number(&stats, &format!("{window}:seconds")) <= 60, "{stats:?}");
        expect_about(number(&stats, &format!("{window}:requests")), requests);
        expect_roughly(number(&stats, &format!("{window}:bytes")), requests / HOT * 100);
        expect_about(number(&stats, &format!("{window}:misses")), requests * (HOT - 1) / HOT);
        let found = list(&stats, &format!("{window}:requests"));
        let (key, count, error) = &found[0];
        assert_eq!(key, "hot%3Akey", "seed {seed}: {found:?}");
        assert!(
            found.len() == 10 && count - error <= requests / HOT * 2 && *count >= requests / HOT / 4,
            "{found:?}"
        );
        assert!(found.is_sorted_by_key(|(_, count, _)| std::cmp::Reverse(*count)));
        assert_eq!(list(&stats, &format!("{window}:bytes"))[0].0, "hot%3Akey");
        let misses = list(&stats, &format!("{window}:misses"));
        assert!(misses.len() == 10 && misses.iter().all(|(key, ..)| key.starts_with("cold%3A")));
        let prefixes = list(&stats, &format!("{window}:prefix_requests"));
        assert_eq!(prefixes.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(), ["cold", "hot"]);
        assert_eq!(list(&stats, &format!("{window}:prefix_bytes"))[0].0, "hot");
        assert_eq!(list(&stats, &format!("{window}:prefix_misses"))[0].0, "cold");
    }
}

#[test]
fn a_key_of_many_requests_is_found_by_every_engine() {
    for (seed, engine) in (1..).zip(engines()) {
        expect_the_hot_key(&Setup::new().engine(engine).start_guira(), seed);
    }
}

#[test]
fn requests_that_another_worker_executes_are_counted_once() {
    for (seed, access) in [(11, "erew"), (12, "crew")] {
        let setup = Setup::new().engine("mica").guira_argument(&format!("--access={access}"));
        let server = setup.guira_argument("--workers=3").start_guira();
        expect_the_hot_key(&server, seed);
    }
}

#[test]
fn long_pipelines_and_multigets_are_in_the_sample_as_often_as_single_requests() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    let pipeline = "get pipelined:key\r\n".repeat(8);
    let multiget = format!("get{}\r\n", " multi:key".repeat(8));
    for _ in 0..ROUNDS {
        client.exchange(&pipeline, "END\r\n".repeat(8));
        client.exchange(&multiget, "END\r\n");
    }
    let found = list(&client.stats("topkeys requests"), "total:requests");
    assert_eq!(found.len(), 2, "{found:?}");
    for (_, count, error) in found {
        assert_eq!(error, 0);
        expect_about(count, u64::from(ROUNDS) * 8);
    }
}

#[test]
fn every_kind_of_request_counts_once_and_only_reads_miss() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    let requests = [
        ("set a:1 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("add a:1 0 0 1\r\n1\r\n", "NOT_STORED\r\n"),
        ("incr a:1 1\r\n", "2\r\n"),
        ("touch a:1 0\r\n", "TOUCHED\r\n"),
        ("mg a:1\r\n", "HD\r\n"),
        ("ms a:1 1\r\n1\r\n", "HD\r\n"),
        ("ma a:1\r\n", "HD\r\n"),
        ("md a:1\r\n", "HD\r\n"),
        ("md a:1\r\n", "NF\r\n"),
        ("delete a:1\r\n", "NOT_FOUND\r\n"),
        ("incr a:1 1\r\n", "NOT_FOUND\r\n"),
        ("touch a:1 0\r\n", "NOT_FOUND\r\n"),
        ("mg a:1 v\r\n", "EN\r\n"),
        ("gat 0 a:1\r\n", "END\r\n"),
        ("me a:1\r\n", "EN\r\n"),
    ];
    for _ in 0..3000 {
        client.talk(&requests);
    }
    let stats = client.stats("topkeys");
    expect_about(number(&stats, "total:requests"), 3000 * 15);
    expect_about(number(&stats, "total:misses"), 3000 * 2);
    assert_eq!(number(&stats, "total:bytes"), 0, "no value was sent");
    assert_eq!(list(&stats, "total:requests").len(), 1);
}

#[test]
fn packets_and_datagrams_are_in_the_sample() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    for _ in 0..8000 {
        assert_eq!(client.ask_binary(&get("packet:key")).outcome(), (1, "Not found"));
    }
    expect_only(&server, "packet%3Akey", 8000);

    let server = Setup::new().options(&["-U", "-1"]).start_guira();
    let client = UdpClient::connect(server.udp_address());
    (0..8000).for_each(|id| client.exchange(id, "get udp:key\r\n", "END\r\n"));
    expect_only(&server, "udp%3Akey", 8000);

    let server = Setup::new().guira_argument("--mica=127.0.0.1:0").start_guira();
    let client = MicaClient::connect(&server);
    for number in 0..8000 {
        let reply = client.ask(0, &Datagram::new(client.generation, number, 0).with(GET, "mica:key", b"", 7));
        assert_eq!(reply.len(), 1);
    }
    expect_only(&server, "mica%3Akey", 8000);
}

#[test]
fn a_value_that_no_datagram_has_room_for_counts_as_a_request_without_bytes() {
    const ASK_ALONE: u8 = 4;
    let server = Setup::new().guira_argument("--mica=127.0.0.1:0").start_guira();
    let client = MicaClient::connect(&server);
    let value = vec![b'x'; 900];
    assert_eq!(client.one(SET, "large", &value, 7).0, 0);
    for number in 0..8000 {
        // The second of two values does not fit.
        let both =
            Datagram::new(client.generation, number, 0).with(GET, "large", b"", 7).with(GET, "large", b"", 7);
        let statuses: Vec<u8> = client.ask(0, &both).iter().map(|(status, ..)| *status).collect();
        assert_eq!(statuses, [0, ASK_ALONE]);
    }
    let stats = server.connect().stats("topkeys");
    let [requests, bytes] = ["requests", "bytes"].map(|name| number(&stats, &format!("total:{name}")));
    expect_about(requests, 16_000);
    assert_eq!(bytes, requests / 2 * 900);
}

#[track_caller]
fn expect_only(server: &Server, key: &str, requests: u64) {
    let found = list(&server.connect().stats("topkeys"), "total:requests");
    assert_eq!(found.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(), [key]);
    expect_about(found[0].1, requests);
}

#[test]
fn keys_of_any_bytes_are_shown_as_in_a_uri() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    // "\0<b>\r\nSTAT x 1", and a key of full length.
    let long = "k".repeat(250);
    for _ in 0..2000 {
        client.talk(&[("mg ADxiPg0KU1RBVCB4IDE= b\r\n", "EN\r\n"), (&format!("get {long}\r\n"), "END\r\n")]);
    }
    let found = list(&client.stats("topkeys requests"), "total:requests");
    let mut keys: Vec<&str> = found.iter().map(|(key, ..)| key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["%00%3Cb%3E%0D%0ASTAT%20x%201", &long]);
    let prefixes = list(&client.stats("topkeys prefixes"), "total:prefix_requests");
    assert_eq!(prefixes.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(), ["*"], "they have none");
}

#[test]
fn one_list_can_be_asked_for_and_no_other() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    (0..2000).for_each(|_| client.exchange("get a:b\r\n", "END\r\n"));
    let lists = |client: &mut Client, about: &str| {
        let stats = client.stats(about);
        assert!((1..=512).contains(&number(&stats, "sampling")));
        let names =
            stats.keys().filter_map(|name| name.strip_prefix("topkeys:total:")?.strip_suffix(":1:key"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lists(&mut client, "topkeys"), ["misses", "prefix_misses", "prefix_requests", "requests"]);
    assert_eq!(lists(&mut client, "topkeys keys"), ["misses", "requests"]);
    assert_eq!(lists(&mut client, "topkeys prefixes"), ["prefix_misses", "prefix_requests"]);
    assert_eq!(lists(&mut client, "topkeys misses"), ["misses"]);
    assert_eq!(lists(&mut client, "topkeys prefix_requests"), ["prefix_requests"]);
    for wrong in ["topkeys everything", "topkeys requests misses"] {
        client.exchange(
            format!("stats {wrong}\r\n"),
            "CLIENT_ERROR usage: stats topkeys [requests|bytes|misses|prefix_requests|prefix_bytes|prefix_misses|keys|prefixes]\r\n",
        );
    }
}

#[test]
fn packets_ask_for_it_too() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    client.send(Request::new(0x10).key("topkeys requests").bytes());
    let mut names = Vec::new();
    loop {
        let line = client.hear_binary();
        if line.key.is_empty() {
            break;
        }
        names.push(String::from_utf8(line.key).unwrap());
    }
    assert!(names.contains(&"topkeys:sampling".to_owned()), "{names:?}");
}

#[test]
fn a_reset_forgets_keys() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    (0..2000).for_each(|_| client.exchange("get a\r\n", "END\r\n"));
    assert_eq!(list(&client.stats("topkeys requests"), "total:requests").len(), 1);
    client.exchange("stats reset\r\n", "RESET\r\n");
    let stats = client.stats("topkeys");
    assert_eq!(number(&stats, "total:requests"), 0);
    assert!(!stats.keys().any(|name| name.ends_with(":key")));
}

#[test]
fn keys_are_not_told_where_they_are_not_to_be_shown() {
    for argument in ["--disable-top-keys", "--disable-dumping"] {
        let server = Setup::new().guira_argument(argument).start_guira();
        let mut client = server.connect();
        client.exchange("stats topkeys\r\n", "CLIENT_ERROR stats topkeys not allowed\r\n");
        assert_eq!(client.stats("settings")["top_keys_enabled"], "no");
    }
    assert_eq!(Setup::new().start_guira().connect().stats("settings")["top_keys_enabled"], "yes");
}
