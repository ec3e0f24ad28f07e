//! A delete may hold its key off: for some seconds nothing may be added under it (Scaling Memcache at Facebook, section 4.3).

use guira_tests::{Client, Setup};

fn guira() -> Setup {
    Setup::new().guira_argument("--test-commands").guira_argument("--delete-hold-off")
}

/// The token of a lease-get of a key that is not there.
fn token(client: &mut Client) -> u64 {
    let line = client.ask("lease-get key\r\n");
    client.hear("\r\nEND\r\n");
    let token = line.strip_prefix("LVALUE key ").and_then(|rest| rest.strip_suffix(" 0 0"));
    token.and_then(|token| token.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// What adds an item, each with the reply that refuses it and the one that does not.
const ADDS: [(&str, &str, &str); 6] = [
    ("add key 0 0 1\r\n1\r\n", "NOT_STORED\r\n", "STORED\r\n"),
    ("ms key 1 ME\r\n1\r\n", "NS\r\n", "HD\r\n"),
    ("ms key 1 MA N30\r\n1\r\n", "NS\r\n", "HD\r\n"),
    ("ma key N30 J1\r\n", "NF\r\n", "HD\r\n"),
    ("mg key N30\r\n", "EN\r\n", "HD W\r\n"),
    ("mg key N30 T30 v\r\n", "EN\r\n", "VA 0 W\r\n\r\n"),
];

#[test]
fn nothing_is_added_until_the_time_is_over() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    for delete in ["delete key 2\r\n", "md key H2\r\n"] {
        let (done, absent) = if delete.starts_with("md") { ("HD", "NF") } else { ("DELETED", "NOT_FOUND") };
        for (add, refused, added) in ADDS {
            client.exchange("set key 0 0 1\r\n1\r\n", "STORED\r\n");
            client.exchange(delete, format!("{done}\r\n"));
            client.exchange("debugtime 1\r\n", "OK\r\n");
            client.exchange(add, refused);
            // Of an absent key, too.
            client.exchange(delete, format!("{absent}\r\n"));
            client.exchange("debugtime 1\r\n", "OK\r\n");
            client.exchange(add, refused);
            client.exchange("debugtime 1\r\n", "OK\r\n");
            client.exchange(add, added);
        }
    }
}

#[test]
fn a_key_that_is_held_off_is_absent() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.talk(&[
        ("set key 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("delete key 100\r\n", "DELETED\r\n"),
        ("get key\r\n", "END\r\n"),
        ("gets key\r\n", "END\r\n"),
        ("gat 10 key\r\n", "END\r\n"),
        ("touch key 10\r\n", "NOT_FOUND\r\n"),
        ("incr key 1\r\n", "NOT_FOUND\r\n"),
        ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas key 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n"),
        ("ms key 1 C5\r\nx\r\n", "NF\r\n"),
        ("ms key 1 C5 I\r\nx\r\n", "NF\r\n"),
        ("mg key v\r\n", "EN\r\n"),
        ("mg key T30 v\r\n", "EN\r\n"),
        ("md key\r\n", "NF\r\n"),
        ("md key I\r\n", "NF\r\n"),
        ("md key x\r\n", "NF\r\n"),
        ("md key C5\r\n", "NF\r\n"),
        ("delete key\r\n", "NOT_FOUND\r\n"),
        // A shorter time does not shorten it.
        ("delete key 1\r\n", "NOT_FOUND\r\n"),
        ("debugtime 50\r\n", "OK\r\n"),
        ("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn leases_from_before_and_during_it_store_nothing() {
    let server = guira().guira_argument("--stale-values=60").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    client.exchange("set key 0 0 1\r\n1\r\n", "STORED\r\n");
    client.exchange("delete key\r\n", "DELETED\r\n");
    // The stale value goes: a tombstone is no more than its key.
    client.exchange("delete key 2\r\n", "NOT_FOUND\r\n");
    let during = token(&mut client);
    assert!(during > 1, "{during}");
    assert!(token(&mut client) > 1, "nobody fills it, so nobody waits");
    client.exchange(format!("lease-set key {during} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    client.exchange("debugtime 2\r\n", "OK\r\n");
    client.exchange(format!("lease-set key {during} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    let before = token(&mut client);
    client.exchange("delete key 2\r\n", "NOT_FOUND\r\n");
    client.exchange("debugtime 2\r\n", "OK\r\n");
    let after = token(&mut client);
    client.exchange(format!("lease-set key {before} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    client.exchange(format!("lease-set key {after} 0 0 1\r\ny\r\n"), "STORED\r\n");
    client.expect_value("key", "y");
}

#[test]
fn the_binary_protocol_adds_nothing_under_a_key_that_is_held_off() {
    let server = guira().start_guira();
    let (mut client, mut binary) = (server.connect(), server.connect());
    client.exchange("delete key 100\r\n", "NOT_FOUND\r\n");
    let status = |binary: &mut Client, packet: &[u8]| {
        binary.send(packet);
        let head = binary.take(24);
        let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        binary.take(body as usize);
        head[7]
    };
    // add, and an increment that would begin at 5.
    let add = b"\x80\x02\0\x03\x08\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0keyx";
    let incr = b"\x80\x05\0\x03\x14\0\0\0\0\0\0\x17\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0key";
    assert_eq!((status(&mut binary, add), status(&mut binary, incr)), (2, 1));
    binary.abandon();
}

#[test]
fn a_bad_time_is_an_error_and_deletes_nothing() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.set("key", "x");
    let bad = "CLIENT_ERROR bad command line format\r\n";
    for time in ["x", "-1", "1x", "4294967296"] {
        client.exchange(format!("delete key {time}\r\n"), bad);
    }
    client.expect_silence("delete key x noreply\r\n");
    for flag in ["H", "Hx", "H-1"] {
        client.exchange(format!("md key {flag}\r\n"), "CLIENT_ERROR bad token in command line format\r\n");
    }
    for command in ["mg key H2\r\n", "md key H2 I\r\n", "md key H2 x\r\n"] {
        client.exchange(command, "CLIENT_ERROR invalid flag\r\n");
    }
    client.expect_value("key", "x");
}

#[test]
fn without_the_option_the_number_means_nothing_as_in_memcached() {
    let server = Setup::new().start_guira();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete key 100\r\n", "DELETED\r\n"),
        ("add key 0 0 1\r\nx\r\n", "STORED\r\n"),
        // The meta form needs no option, since memcached has no such flag.
        ("md key H100\r\n", "HD\r\n"),
        ("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ]);
}

#[test]
fn a_store_that_is_refused_does_not_end_it() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let long = "x".repeat(2_000_000);
    let refusal = "SERVER_ERROR object too large for cache\r\n";
    client.exchange("md key H100\r\n", "NF\r\n");
    for store in ["ms key 2000000 ME", "ms key 2000000", "set key 0 0 2000000"] {
        client.exchange(format!("{store}\r\n{long}\r\n"), refusal);
        client.exchange("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    }
    client.exchange("me key\r\n", "EN\r\n");
}

#[test]
fn a_longer_time_takes_the_place_of_a_shorter_one() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    for command in ["md key H2\r\n", "md key H20\r\n", "md key H5\r\n"] {
        client.exchange(command, "NF\r\n");
    }
    client.exchange("debugtime 19\r\n", "OK\r\n");
    client.exchange("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    client.exchange("debugtime 1\r\n", "OK\r\n");
    client.exchange("add key 0 0 1\r\nx\r\n", "STORED\r\n");
}

#[test]
fn a_hidden_key_is_held_off_whatever_unique_the_client_names() {
    let server = guira().start_guira();
    let mut client = server.connect();
    let right = token(&mut client);
    client.exchange("md key C5 H100\r\n", "NF\r\n");
    client.exchange(format!("lease-set key {right} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    client.exchange("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    // An item with another unique is not touched.
    client.talk(&[
        ("ms live 1 E7\r\nx\r\n", "HD\r\n"),
        ("md live C5 H100\r\n", "EX\r\n"),
        ("mg live v\r\n", "VA 1\r\nx\r\n"),
    ]);
}
