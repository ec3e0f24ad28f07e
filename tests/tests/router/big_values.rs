//! Values that are longer than servers take, and those that are kept in a second cache.

use crate::{Router, config_of, name};
use guira_tests::binary::{get, set};
use guira_tests::{Client, Server};

/// As it comes from no generator that repeats itself soon.
fn value(length: usize) -> String {
    (0..length).map(|number| char::from(b'a' + (number * number / 7 % 26) as u8)).collect()
}

fn stored(client: &mut Client, verb: &str, value: &str, unique: &str, reply: &str) {
    client.exchange(format!("{verb} k 3 0 {}{unique}\r\n{value}\r\n", value.len()), reply);
}

#[test]
fn a_value_beyond_the_limit_of_the_servers_is_kept_in_pieces() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}", "{}"]}}}}, "route": "PoolRoute|A"}}"#,
        name(&one),
        name(&other)
    );
    let split = ["--big-value-split-threshold", "100000", "--big-value-batch-size", "3"];
    let router = Router::start(&[&["--config-str", &configuration], &split[..]].concat());
    let mut client = router.connect();
    let long = value(5_000_000);
    stored(&mut client, "replace", &long, "", "NOT_STORED\r\n");
    stored(&mut client, "set", &long, "", "STORED\r\n");
    let flags = 0x8000 | 3;
    let expected = format!("VALUE k {flags} 5000000\r\n{long}\r\nEND\r\n");
    client.exchange("get k\r\n", &expected);
    client.exchange("get none k\r\n", &expected);
    assert_eq!(client.value("k").unwrap().data, long.as_bytes());
    // The item itself says where the pieces are.
    let item = [&one, &other].iter().find_map(|server| server.connect().value("k")).unwrap();
    let says = String::from_utf8(item.data).unwrap();
    let suffix = says.strip_prefix("1-50-").unwrap();
    let has_piece = |server: &Server| server.connect().value(&format!("k:49:{suffix}")).is_some();
    assert!(has_piece(&one) || has_piece(&other));
    // With a cas unique, which is the item's.
    let unique = client.cas("k");
    stored(&mut client, "cas", &value(300_000), &format!(" {unique}"), "STORED\r\n");
    stored(&mut client, "cas", &value(300_000), &format!(" {unique}"), "EXISTS\r\n");
    client.exchange("get k\r\n", format!("VALUE k {flags} 300000\r\n{}\r\nEND\r\n", value(300_000)));
    client.exchange("delete k\r\nget k\r\n", "DELETED\r\nEND\r\n");
    // A short one is stored as it is.
    stored(&mut client, "add", "short", "", "STORED\r\n");
    client.exchange("get k\r\n", "VALUE k 3 5\r\nshort\r\nEND\r\n");
}

#[test]
fn what_mcrouter_has_written_is_read() {
    let node = Server::start();
    let split = ["--big-value-split-threshold", "10", "--big-value-hide-reply-flag"];
    let router = Router::start(&[&["--config-str", &config_of(&node)], &split[..]].concat());
    let (mut client, mut direct) = (router.connect(), node.connect());
    direct.exchange(
        "set k:0:99 0 0 4\r\none,\r\nset k:1:99 0 0 4\r\ntwo,\r\nset k:2:99 0 0 5\r\nthree\r\nset k 32773 0 6\r\n1-3-99\r\n",
        "STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\n",
    );
    client.exchange("get k\r\n", "VALUE k 5 13\r\none,two,three\r\nEND\r\n");
    let unique = direct.cas("k");
    client.exchange("gets k\r\n", format!("VALUE k 5 13 {unique}\r\none,two,three\r\nEND\r\n"));
    client.exchange("gat 0 k\r\n", "VALUE k 5 13\r\none,two,three\r\nEND\r\n");
    client.exchange("lease-get k\r\n", "VALUE k 5 13\r\none,two,three\r\nEND\r\n");
    let mut binary = router.connect();
    assert_eq!(binary.ask_binary(&get("k")).outcome(), (0, "one,two,three"));
    // Stores of the binary protocol are split as well.
    assert_eq!(binary.ask_binary(&set("b", 9, "a value of 19 bytes")).status, 0);
    assert_eq!(binary.ask_binary(&get("b")).outcome(), (0, "a value of 19 bytes"));
    client.exchange("get b\r\n", "VALUE b 9 19\r\na value of 19 bytes\r\nEND\r\n");
    assert!(direct.value("b").unwrap().data.starts_with(b"1-2-"));
    // And those of meta commands.
    client.exchange("ms m 19 F9 T60\r\na value of 19 bytes\r\n", "HD\r\n");
    assert!(direct.value("m").unwrap().data.starts_with(b"1-2-"));
    client.exchange("mg m v\r\n", "VA 19\r\na value of 19 bytes\r\n");
    client.exchange("mg m s k f v O5\r\n", "VA 19 s19 km f9 O5\r\na value of 19 bytes\r\n");
    client.exchange("mg m f\r\n", "HD f32777\r\n");
    client.exchange("mg none v\r\n", "EN\r\n");
    // A piece that is gone makes it a miss.
    direct.exchange("delete k:1:99\r\n", "DELETED\r\n");
    client.exchange("get k\r\n", "END\r\n");
    // A lease finds that, and one client may store it anew.
    client.send("lease-get k\r\n");
    let line = client.line();
    let token = line.strip_prefix("LVALUE k ").and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    assert!(token.parse::<u64>().unwrap() > 1, "{line}");
    client.hear("\r\nEND\r\n");
    client.exchange(format!("lease-set k {token} 5 0 12\r\nanother one!\r\n"), "STORED\r\n");
    client.exchange("get k\r\n", "VALUE k 5 12\r\nanother one!\r\nEND\r\n");
    for number in ["4000000000", "65536"] {
        direct.exchange(format!("set h 32768 0 {}\r\n1-{number}-5\r\n", number.len() + 4), "STORED\r\n");
        client.exchange("get h\r\n", "SERVER_ERROR local error\r\n");
    }
}

#[test]
fn long_values_are_kept_in_the_second_cache() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}}, "route":
            {{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "threshold": 1000}}}}"#,
        name(&one),
        name(&other)
    );
    let router = Router::start(&["--config-str", &configuration]);
    let mut client = router.connect();
    let long = value(5000);
    stored(&mut client, "set", &long, "", "STORED\r\n");
    client.exchange("get k\r\n", format!("VALUE k 3 5000\r\n{long}\r\nEND\r\n"));
    one.connect().exchange("get k\r\n", "VALUE k 35 0\r\n\r\nEND\r\n");
    other.connect().expect_value("k", &long);
    let unique = one.connect().cas("k");
    client.exchange("gets k\r\n", format!("VALUE k 3 5000 {unique}\r\n{long}\r\nEND\r\n"));
    stored(&mut client, "set", "short", "", "STORED\r\n");
    one.connect().expect_value("k", "short");
    // With a lease, under a key of its own.
    client.exchange("delete k\r\n", "DELETED\r\n");
    client.send("lease-get k\r\n");
    let token = client.line().split(' ').nth(2).unwrap().to_owned();
    client.hear("\r\nEND\r\n");
    client.exchange(format!("lease-set k {token} 3 0 5000\r\n{long}\r\n"), "STORED\r\n");
    client.exchange("lease-get k\r\n", format!("VALUE k 3 5000\r\n{long}\r\nEND\r\n"));
    client.exchange("get k\r\n", format!("VALUE k 3 5000\r\n{long}\r\nEND\r\n"));
    let number = String::from_utf8(one.connect().value("k").unwrap().data).unwrap();
    other.connect().exchange(format!("delete k|==|{number}\r\n"), "DELETED\r\n");
    // It is gone: somebody may store it anew.
    client.send("lease-get k\r\n");
    let line = client.line();
    assert!(line.starts_with("LVALUE k ") && !line.starts_with("LVALUE k 0 "), "{line}");
    client.hear("\r\nEND\r\n");
}
