//! `me`: what the server knows of an item, for people.

use std::collections::BTreeMap;

use guira_tests::{Client, Server, newer_than_peer, upstream_flaw};

/// The key of a reply and its `name=value` words.
fn parse(line: &str) -> (String, BTreeMap<String, String>) {
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("ME"), "{line}");
    let key = words.next().unwrap_or_default().to_owned();
    let pairs = words.map(|word| word.split_once('=').unwrap_or_else(|| panic!("{word} in {line}")));
    (key, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn ask(client: &mut Client, key: &str) -> BTreeMap<String, String> {
    let (shown, facts) = parse(&client.ask(format!("me {key}\r\n")));
    assert_eq!(shown, key);
    facts
}

#[test]
fn all_facts_are_reported() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    let facts = ask(&mut client, "key");
    for name in ["exp", "la", "cas", "fetch", "cls", "size"] {
        assert!(facts.contains_key(name), "me does not tell {name}: {facts:?}");
    }
    assert_eq!(facts["exp"], "-1");
    assert_eq!(facts["cas"], unique.to_string());
    assert!(facts["la"].parse::<u64>().is_ok_and(|seconds| seconds <= 2));
    assert!(facts["size"].parse::<u64>().is_ok_and(|size| size >= 4));
    assert!(facts["cls"].parse::<u64>().is_ok());
}

#[test]
fn looking_is_no_fetch() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    assert_eq!(ask(&mut client, "key")["fetch"], "no");
    assert_eq!(ask(&mut client, "key")["fetch"], "no");
    client.exchange("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n");
    assert_eq!(ask(&mut client, "key")["fetch"], "yes");
}

#[test]
fn a_miss_is_an_end() {
    let server = Server::start();
    server.connect().exchange("me key\r\n", "EN\r\n");
}

#[test]
fn the_time_left_is_reported() {
    let server = Server::start();
    newer_than_peer!(server, "the time left has the wrong sign");
    let mut client = server.connect();
    client.exchange("set key 0 500 1\r\nx\r\n", "STORED\r\n");
    let left = ask(&mut client, "key")["exp"].parse::<u64>().expect("a number of seconds");
    assert!((498..=500).contains(&left), "{left} of 500 seconds left");
}

#[test]
fn a_binary_key_is_returned_as_it_was_given() {
    let server = Server::start();
    upstream_flaw!(server, "1.6.45 looks at b only when another word follows; 1.6.18 is as we are");
    let mut client = server.connect();
    client.exchange("ms AQI= 1 b\r\nx\r\n", "HD\r\n");
    let (key, _) = parse(&client.ask("me AQI= b\r\n"));
    assert_eq!(key, "AQI=");
    client.exchange("me !!! b\r\n", "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn what_can_be_no_flag_is_a_bad_line() {
    let server = Server::start();
    newer_than_peer!(server, "does not look at it");
    let mut client = server.connect();
    for line in ["me key !", "me key @", "me key b {"] {
        client.exchange(format!("{line}\r\n"), "CLIENT_ERROR bad command line format\r\n");
    }
    client.exchange("me key 1\r\n", "EN\r\n");
}
