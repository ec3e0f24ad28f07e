//! lease-get gives one client the right to fill a key, and lease-set fills it, in mcrouter's lines.

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_tests::{Client, Setup};

/// What a lease-get of one key that is not there was answered.
#[derive(Debug, PartialEq, Eq)]
struct Lease {
    token: u64,
    flags: u32,
    stale: String,
}

/// Another client is to fill the key.
const HELD: u64 = 1;

fn lease(client: &mut Client, key: &str) -> Lease {
    let line = client.ask(format!("lease-get {key}\r\n"));
    let words: Vec<_> = line.split(' ').collect();
    let ["LVALUE", name, token, flags, length] = words[..] else { panic!("{line} is no LVALUE") };
    assert_eq!(name, key);
    let value = client.take(length.parse::<usize>().expect("a length") + 2);
    client.hear("END\r\n");
    let stale = String::from_utf8_lossy(&value).trim_end().to_owned();
    Lease { token: token.parse().expect("a token"), flags: flags.parse().expect("flags"), stale }
}

/// The token of a key that this client is to fill, and that has no stale value.
fn token(client: &mut Client, key: &str) -> u64 {
    let lease = lease(client, key);
    assert!(lease.token > HELD && (lease.flags, lease.stale.as_str()) == (0, ""), "{lease:?}");
    lease.token
}

fn guira() -> Setup {
    Setup::new().guira_argument("--test-commands")
}

#[test]
fn a_key_that_is_there_is_a_value() {
    let server = guira().start_guira();
    server.connect().talk(&[
        ("set a 7 0 1\r\nx\r\n", "STORED\r\n"),
        ("lease-get a\r\n", "VALUE a 7 1\r\nx\r\nEND\r\n"),
        ("set b 8 0 2\r\nyy\r\n", "STORED\r\n"),
        ("lease-get a b a\r\n", "VALUE a 7 1\r\nx\r\nVALUE b 8 2\r\nyy\r\nVALUE a 7 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn one_client_gets_the_token_and_others_wait_until_it_has_stored() {
    let server = guira().start_guira();
    let (mut one, mut other) = (server.connect(), server.connect());
    let token = token(&mut one, "key");
    other.exchange("lease-get key\r\n", "LVALUE key 1 0 0\r\n\r\nEND\r\n");
    one.exchange("lease-get key\r\n", "LVALUE key 1 0 0\r\n\r\nEND\r\n");
    one.exchange(format!("lease-set key {token} 5 500 1\r\nx\r\n"), "STORED\r\n");
    other.exchange("lease-get key\r\n", "VALUE key 5 1\r\nx\r\nEND\r\n");
    other.exchange("mg key t f v\r\n", "VA 1 t~500 f5\r\nx\r\n");
    one.exchange(format!("lease-set key {token} 5 500 1\r\ny\r\n"), "NOT_STORED\r\n");
}

#[test]
fn several_keys_get_a_token_each() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("set there 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send("lease-get one there two one\r\n");
    let mut tokens = Vec::new();
    for key in ["one", "there", "two", "one"] {
        let line = client.line();
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["VALUE", "there", "0", "1"] => client.hear("x\r\n"),
            ["LVALUE", name, token, "0", "0"] if name == key => {
                tokens.push(token.parse::<u64>().expect("a token"));
                client.hear("\r\n");
            }
            _ => panic!("{line}"),
        }
    }
    client.hear("END\r\n");
    assert!(tokens[0] > HELD && tokens[1] > HELD && tokens[2] == HELD, "{tokens:?}");
    client.exchange(format!("lease-set two {} 0 0 1\r\nx\r\n", tokens[1]), "STORED\r\n");
    client.exchange(format!("lease-set one {} 0 0 1\r\nx\r\n", tokens[0]), "STORED\r\n");
}

#[test]
fn plain_commands_see_nothing_of_a_key_that_is_to_be_filled() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let token = token(&mut client, "key");
    client.talk(&[
        ("get key\r\n", "END\r\n"),
        ("gets key\r\n", "END\r\n"),
        ("gat 100 key\r\n", "END\r\n"),
        ("touch key 100\r\n", "NOT_FOUND\r\n"),
        ("incr key 1\r\n", "NOT_FOUND\r\n"),
        ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas key 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("ms key 1 MR\r\nx\r\n", "NS\r\n"),
        ("ma key\r\n", "NF\r\n"),
        // Meta commands see it.
        ("mg key s v\r\n", "VA 0 s0 Z\r\n\r\n"),
    ]);
    client.exchange(format!("lease-set key {token} 0 0 1\r\nx\r\n"), "STORED\r\n");
    client.expect_value("key", "x");
}

#[test]
fn add_fills_a_key_that_another_client_is_to_fill() {
    let server = guira().start_guira();
    let mut client = server.connect();
    for add in ["add key 0 0 1\r\na\r\n", "ms key 1 ME\r\na\r\n"] {
        let token = token(&mut client, "key");
        client.exchange(add, if add.starts_with("ms") { "HD\r\n" } else { "STORED\r\n" });
        client.exchange(format!("lease-set key {token} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
        client.expect_value("key", "a");
        client.exchange("delete key\r\n", "DELETED\r\n");
    }
}

#[test]
fn a_delete_or_another_store_makes_the_token_void() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let voids = [
        ("delete key\r\n", "NOT_FOUND\r\n", None),
        ("md key\r\n", "NF\r\n", None),
        ("md key I\r\n", "NF\r\n", None),
        ("md key x\r\n", "NF\r\n", None),
        ("flush_all\r\n", "OK\r\n", None),
        ("set key 0 0 1\r\ns\r\n", "STORED\r\n", Some("s")),
        ("ms key 1\r\ns\r\n", "HD\r\n", Some("s")),
        ("incr key 1\r\n", "NOT_FOUND\r\n", Some("x")),
    ];
    for (command, reply, after) in voids {
        let token = token(&mut client, "key");
        client.exchange(command, reply);
        // Only what changes nothing leaves the token as it is.
        let stored = if after == Some("x") { "STORED\r\n" } else { "NOT_STORED\r\n" };
        client.exchange(format!("lease-set key {token} 0 0 1\r\nx\r\n"), stored);
        let got = client.value("key").map(|value| String::from_utf8_lossy(&value.data).into_owned());
        assert_eq!(got.as_deref(), after, "{command}");
        client.ask("delete key\r\n");
    }
}

#[test]
fn the_packet_that_deletes_makes_the_token_void() {
    let server = guira().start_guira();
    let (mut client, mut binary) = (server.connect(), server.connect());
    let token = token(&mut client, "key");
    binary.send(b"\x80\x04\x00\x03\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00key");
    assert_eq!(binary.take(24)[7], 1, "there is nothing to delete");
    binary.abandon();
    client.exchange(format!("lease-set key {token} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
}

#[test]
fn a_holder_that_dies_costs_one_interval() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    let first = token(&mut client, "key");
    client.exchange("debugtime 9\r\n", "OK\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange("debugtime 1\r\n", "OK\r\n");
    let second = token(&mut client, "key");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange(format!("lease-set key {first} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    client.exchange("debugtime 9\r\n", "OK\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange(format!("lease-set key {second} 0 0 1\r\ny\r\n"), "STORED\r\n");
    client.expect_value("key", "y");
}

#[test]
fn the_interval_is_exact_to_the_millisecond() {
    let server = guira().guira_argument("--lease-interval=1999").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    token(&mut client, "key");
    client.exchange("debugtime 1\r\n", "OK\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange("debugtime 1\r\n", "OK\r\n");
    token(&mut client, "key");
    drop(client);
    let short = guira().guira_argument("--lease-interval=1").start_guira();
    let mut client = short.connect();
    let first = token(&mut client, "key");
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_ne!(first, token(&mut client, "key"));
}

#[test]
fn a_token_that_nobody_asked_for_again_is_good_a_little_longer() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    let late = token(&mut client, "late");
    let gone = token(&mut client, "gone");
    client.exchange("debugtime 10\r\n", "OK\r\n");
    client.exchange(format!("lease-set late {late} 0 0 1\r\nx\r\n"), "STORED\r\n");
    client.exchange("debugtime 1\r\n", "OK\r\n");
    client.exchange(format!("lease-set gone {gone} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
}

#[test]
fn a_stale_item_comes_with_the_token_and_plain_commands_see_it_as_in_memcached() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.talk(&[("ms key 3 F7\r\nold\r\n", "HD\r\n"), ("md key I T90\r\n", "HD\r\n")]);
    let first = lease(&mut client, "key");
    assert!(first.token > HELD && first.flags == 7 && first.stale == "old", "{first:?}");
    assert_eq!(lease(&mut client, "key"), Lease { token: HELD, flags: 7, stale: "old".to_owned() });
    client.exchange("get key\r\n", "VALUE key 7 3\r\nold\r\nEND\r\n");
    client.exchange("mg key v\r\n", "VA 3 Z X\r\nold\r\n");
    // Marked as stale again, the token is void, and its value is one more stale value.
    client.exchange("md key I T90\r\n", "HD\r\n");
    client.exchange(format!("lease-set key {} 8 0 4\r\nmore\r\n", first.token), "STALE_STORED\r\n");
    let second = lease(&mut client, "key");
    assert!(second.token > HELD && second.flags == 8 && second.stale == "more", "{second:?}");
    client.exchange(format!("lease-set key {} 9 0 3\r\nnew\r\n", second.token), "STORED\r\n");
    client.exchange("mg key v f t\r\n", "VA 3 f9 t-1\r\nnew\r\n");
}

#[test]
fn deleted_values_are_kept_as_stale_for_those_who_ask_by_lease_or_meta() {
    let server = guira().guira_argument("--stale-values=20").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    for delete in ["delete key\r\n", "md key\r\n"] {
        client.exchange("set key 7 0 3\r\nold\r\n", "STORED\r\n");
        client.exchange(delete, if delete.starts_with("md") { "HD\r\n" } else { "DELETED\r\n" });
        client.talk(&[
            ("get key\r\n", "END\r\n"),
            ("gat 100 key\r\n", "END\r\n"),
            ("touch key 100\r\n", "NOT_FOUND\r\n"),
            ("delete key\r\n", "NOT_FOUND\r\n"),
            ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ]);
        let first = lease(&mut client, "key");
        assert!(first.token > HELD && first.flags == 7 && first.stale == "old", "{first:?}");
        assert_eq!(lease(&mut client, "key"), Lease { token: HELD, flags: 7, stale: "old".to_owned() });
        // A delete makes the token void, also when there is nothing for others to delete.
        client.exchange("delete key\r\n", "NOT_FOUND\r\n");
        client.exchange(format!("lease-set key {} 8 0 4\r\nmore\r\n", first.token), "STALE_STORED\r\n");
        client.exchange("get key\r\n", "END\r\n");
        let second = lease(&mut client, "key");
        assert!(second.token > HELD && second.stale == "more", "{second:?}");
        client.exchange("debugtime 20\r\n", "OK\r\n");
        client.exchange(format!("lease-set key {} 8 0 4\r\nlate\r\n", second.token), "NOT_STORED\r\n");
        token(&mut client, "key");
        client.ask("delete key\r\n");
    }
}

#[test]
fn a_stale_value_does_not_outlive_the_item() {
    let server = guira().guira_argument("--stale-values=20").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    client.talk(&[("set key 0 5 3\r\nold\r\n", "STORED\r\n"), ("delete key\r\n", "DELETED\r\n")]);
    client.exchange("debugtime 4\r\n", "OK\r\n");
    let line = client.ask("me key\r\n");
    assert!(line.starts_with("ME key exp=1 "), "{line}");
    client.exchange("debugtime 1\r\n", "OK\r\n");
    client.exchange("mg key t v\r\n", "EN\r\n");
}

#[test]
fn meta_commands_take_part_in_a_lease() {
    let server = guira().guira_argument("--stale-values=20").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    client.talk(&[("set key 0 0 3\r\nold\r\n", "STORED\r\n"), ("delete key\r\n", "DELETED\r\n")]);
    // Who wins by mg is the holder for lease-get too, for one interval.
    let line = client.ask("mg key v c\r\n");
    let unique = line.strip_prefix("VA 3 c").and_then(|rest| rest.strip_suffix(" X W")).expect("a win");
    client.hear("old\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange("debugtime 10\r\n", "OK\r\n");
    let second = lease(&mut client, "key");
    assert!(second.token > HELD, "{second:?}");
    client.exchange(format!("ms key 3 C{unique}\r\nnew\r\n"), "NF\r\n");
    client.exchange("mg key\r\n", "HD Z X\r\n");
    client.exchange(format!("ms key 3 C{}\r\nnew\r\n", second.token), "HD\r\n");
    client.exchange("mg key v\r\n", "VA 3\r\nnew\r\n");
    // What mg creates is taken over at once: it does not say since when it waits.
    client.exchange("mg other N30\r\n", "HD W\r\n");
    let third = token(&mut client, "other");
    assert_eq!(lease(&mut client, "other").token, HELD);
    client.exchange(format!("lease-set other {third} 0 0 1\r\nx\r\n"), "STORED\r\n");
}

#[test]
fn who_wins_a_hidden_key_by_mg_has_it_for_an_interval() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    token(&mut client, "key");
    client.exchange("mg key v\r\n", "VA 0 Z\r\n\r\n");
    client.exchange("debugtime 10\r\n", "OK\r\n");
    // It is the winner, and does not hear that another one is.
    let line = client.ask("mg key c\r\n");
    let unique =
        line.strip_prefix("HD c").and_then(|rest| rest.strip_suffix(" W")).expect("a win").to_owned();
    client.exchange("debugtime 9\r\n", "OK\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange("mg key\r\n", "HD Z\r\n");
    client.exchange(format!("ms key 1 C{unique}\r\nx\r\n"), "HD\r\n");
    client.expect_value("key", "x");
}

#[test]
fn a_stale_value_that_is_filled_lives_as_long_as_its_token() {
    let server = guira().guira_argument("--stale-values=5").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    client.talk(&[("set key 0 0 3\r\nold\r\n", "STORED\r\n"), ("delete key\r\n", "DELETED\r\n")]);
    client.exchange("debugtime 4\r\n", "OK\r\n");
    let first = lease(&mut client, "key");
    assert!(first.token > HELD && first.stale == "old", "{first:?}");
    client.exchange("debugtime 9\r\n", "OK\r\n");
    assert_eq!(lease(&mut client, "key").token, HELD);
    client.exchange(format!("lease-set key {} 0 0 1\r\nx\r\n", first.token), "STORED\r\n");
}

#[test]
fn a_stale_value_that_nobody_fills_goes() {
    let server = guira().guira_argument("--stale-values=15").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    client.talk(&[("set key 0 0 3\r\nold\r\n", "STORED\r\n"), ("delete key\r\n", "DELETED\r\n")]);
    for stale in ["old", "old", "", ""] {
        let lease = lease(&mut client, "key");
        assert!(lease.token > HELD && lease.stale == stale, "{lease:?} instead of {stale}");
        client.exchange("debugtime 10\r\n", "OK\r\n");
    }
}

#[test]
fn a_stale_store_by_ms_leaves_the_token_to_its_holder() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let right = token(&mut client, "key");
    client.exchange("ms key 3 I C5\r\nold\r\n", "HD\r\n");
    client.exchange("get key\r\n", "END\r\n");
    assert_eq!(lease(&mut client, "key"), Lease { token: HELD, flags: 0, stale: "old".to_owned() });
    client.exchange(format!("lease-set key {right} 0 0 1\r\nx\r\n"), "STORED\r\n");
}

#[test]
fn a_delete_that_names_another_unique_finds_no_hidden_key() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let right = token(&mut client, "key");
    client.exchange("md key C5\r\n", "NF\r\n");
    client.exchange(format!("md key C{right}\r\n"), "HD\r\n");
    client.exchange(format!("lease-set key {right} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
}

#[test]
fn what_append_creates_has_nothing_of_a_deleted_value() {
    let server = guira().guira_argument("--stale-values=20").start_guira();
    let mut client = server.connect();
    let long = "o".repeat(100_000);
    for (old, new) in [("old", "n"), (long.as_str(), "n"), ("old", long.as_str())] {
        client.set("key", old);
        client.exchange("delete key\r\n", "DELETED\r\n");
        client.exchange(format!("ms key {} MA N0\r\n{new}\r\n", new.len()), "HD\r\n");
        client.expect_value("key", new);
    }
    // An item that mg has created leaves no stale value.
    client.exchange("mg other N30\r\n", "HD W\r\n");
    client.exchange("delete other\r\n", "DELETED\r\n");
    client.exchange("mg other\r\n", "EN\r\n");
}

#[test]
fn lists_leave_hidden_keys_out() {
    let server = guira().start_guira();
    let mut client = server.connect();
    token(&mut client, "key");
    client.set("there", "x");
    client.send("lru_crawler mgdump all\r\n");
    client.hear("OK\r\nmg there\r\nEN\r\n");
}

/// Clients of all workers ask at once for keys that are not there.
#[test]
fn of_many_clients_one_gets_the_token() {
    const KEYS: usize = 300;
    let server = guira().start_guira();
    let tokens: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let (server, tokens) = (&server, &tokens);
            scope.spawn(move || {
                let mut client = server.connect();
                for (key, tokens) in tokens.iter().enumerate() {
                    let token = lease(&mut client, &format!("key{key}")).token;
                    tokens.fetch_add(u64::from(token != HELD), Ordering::Relaxed);
                }
            });
        }
    });
    let tokens: Vec<u64> = tokens.into_iter().map(AtomicU64::into_inner).collect();
    assert!(tokens.iter().all(|tokens| *tokens == 1), "{tokens:?}");
}

#[test]
fn long_values_are_leased_as_short_ones_are() {
    let server = guira().guira_argument("--stale-values=20").start_guira();
    let mut client = server.connect();
    let (old, new) = ("o".repeat(300_000), "n".repeat(200_000));
    let first = token(&mut client, "key");
    client.exchange(format!("lease-set key {first} 7 0 {}\r\n{old}\r\n", old.len()), "STORED\r\n");
    client.exchange("lease-get key\r\n", format!("VALUE key 7 {}\r\n{old}\r\nEND\r\n", old.len()));
    client.exchange("delete key\r\n", "DELETED\r\n");
    // Who wins by mg is shown the unique that it is to name.
    let line = client.ask("mg key v c f\r\n");
    let unique = line.split(' ').find_map(|word| word.strip_prefix('c')).expect("a unique").to_owned();
    assert!(line.ends_with(" f7 X W"), "{line}");
    client.hear(format!("{old}\r\n"));
    client.exchange(format!("ms key 3 C{unique}\r\nnew\r\n"), "HD\r\n");
    client.exchange(format!("set key 7 0 {}\r\n{old}\r\n", old.len()), "STORED\r\n");
    client.exchange("delete key\r\n", "DELETED\r\n");
    let second = lease(&mut client, "key");
    assert!(second.token > HELD && second.flags == 7 && second.stale == old);
    assert!(lease(&mut client, "key") == Lease { token: HELD, flags: 7, stale: old });
    client.exchange(format!("lease-set key 77 9 0 {}\r\n{new}\r\n", new.len()), "STALE_STORED\r\n");
    assert!(lease(&mut client, "key") == Lease { token: HELD, flags: 9, stale: new.clone() });
    client.exchange(format!("lease-set key {} 9 0 {}\r\n{new}\r\n", second.token, new.len()), "STORED\r\n");
    client.expect_value("key", new);
}

#[test]
fn malformed_leases_get_an_error_and_lose_nothing() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let long = "k".repeat(251);
    let bad = "CLIENT_ERROR bad command line format\r\n";
    client.exchange("lease-get\r\n", bad);
    client.exchange(format!("lease-get a {long}\r\n"), bad);
    client.exchange("lease-set key 5 0 0\r\n", bad);
    for line in
        ["lease-set key x 0 0 1", "lease-set key -1 0 0 1", "lease-set key 5 x 0 1", "lease-set key 5 0 x 1"]
    {
        client.exchange(format!("{line}\r\nx\r\n"), bad);
    }
    client.exchange(format!("lease-set {long} 5 0 0 1\r\nx\r\n"), bad);
    let mut other = server.connect();
    other.exchange("lease-set key 5 0 0 1\r\nxy\r", "CLIENT_ERROR bad data chunk\r\n");
    other.abandon();
    for token in ["0", "1", "2", "18446744073709551615"] {
        client.exchange(format!("lease-set key {token} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    }
    let right = token(&mut client, "key");
    client.expect_silence(format!(
        "lease-set key 5 0 0 1 noreply\r\nx\r\nlease-set key {right} 0 0 1 noreply\r\ny\r\n"
    ));
    client.expect_value("key", "y");
}

#[test]
fn without_cas_uniques_there_are_no_leases() {
    let server = guira().guira_argument("--disable-cas").start_guira();
    let refusal = "SERVER_ERROR leases need cas uniques, which are disabled\r\n";
    server.connect().talk(&[
        ("lease-get key\r\n", refusal),
        ("lease-get a b c d e f\r\n", refusal),
        ("lease-set key 5 0 0 1\r\nx\r\n", refusal),
        ("get key\r\n", "END\r\n"),
    ]);
}

#[test]
fn leases_are_counted() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let right = token(&mut client, "key");
    lease(&mut client, "key");
    client.exchange(format!("lease-set key {right} 0 0 1\r\nx\r\n"), "STORED\r\n");
    client.exchange(format!("lease-set key {right} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    client.exchange("lease-get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n");
    client.exchange("md key I\r\n", "HD\r\n");
    client.exchange("lease-set key 5 0 0 1\r\nx\r\n", "STALE_STORED\r\n");
    let stats = client.stats("");
    let counts = [
        ("cmd_lease_get", "3"),
        ("lease_tokens", "1"),
        ("lease_hot_misses", "1"),
        ("lease_stores", "1"),
        ("lease_stale_stores", "1"),
        ("lease_refusals", "1"),
        ("cmd_get", "3"),
        ("get_hits", "1"),
        ("get_misses", "2"),
        ("cmd_set", "3"),
    ];
    for (name, count) in counts {
        assert_eq!(stats[name], count, "{name}");
    }
}

#[test]
fn no_value_from_before_a_delete_is_stored_after_it() {
    guira_tests::leases::race_deletes(&guira().start_guira());
}
