//! When memory is full, room for a changed item is not made by evicting that very item.

use guira_tests::random::Random;
use guira_tests::{Client, Server};

/// So long that the server of 64 MiB holds a hundred of them, and that one of them takes many pieces of memory.
const LENGTH: usize = 560 << 10;
const ITEMS: usize = 250;

/// Stores items until most have been evicted, and changes each as soon as it is stored.
fn change_each(change: impl Fn(&mut Client, &str)) {
    let server = Server::start();
    let mut client = server.connect();
    let value = Random::new(1).bytes(LENGTH);
    for number in 0..ITEMS {
        let key = format!("key{number}");
        client.set(&key, &value);
        change(&mut client, &key);
    }
    let evictions = client.stats("")["evictions"].parse::<usize>();
    assert!(evictions.is_ok_and(|evictions| evictions > ITEMS / 3), "memory was not full");
}

#[test]
fn an_item_that_is_appended_to_is_there() {
    change_each(|client, key| client.exchange(format!("append {key} 0 0 1\r\nx\r\n"), "STORED\r\n"));
}

#[test]
fn an_item_that_is_touched_is_there() {
    change_each(|client, key| client.exchange(format!("touch {key} 500\r\n"), "TOUCHED\r\n"));
}

#[test]
fn an_item_that_is_given_a_time_as_it_is_read_stays() {
    change_each(|client, key| {
        client.exchange(format!("mg {key} T500\r\n"), "HD\r\n");
        client.exchange(format!("mg {key} t\r\n"), "HD t~500\r\n");
    });
}

#[test]
fn an_item_whose_cas_unique_is_asked_for_is_there() {
    change_each(|client, key| assert!(client.ask(format!("mg {key} c\r\n")).starts_with("HD c")));
}

/// Where nothing may be evicted and nothing more can be stored, a long item gets a time all the same: the field for it is there from the start.
#[test]
fn a_long_item_is_given_a_time_when_nothing_more_can_be_stored() {
    let server = guira_tests::Setup::new().guira_argument("--disable-evictions").start_guira();
    let mut client = server.connect();
    let store = |client: &mut Client, key: String, length: usize| {
        let head = format!("set {key} 0 0 {length}\r\n");
        client.send([head.as_bytes(), &Random::new(2).bytes(length)[..], b"\r\n"].concat());
        client.line().starts_with("STORED")
    };
    let kinds = [("long", 100_000), ("middle", 10_000), ("short", 1_200)];
    for (name, length) in kinds {
        (0..3).for_each(|number| assert!(store(&mut client, format!("{name}{number}"), length)));
    }
    for (name, length) in kinds {
        let mut number = 3;
        while store(&mut client, format!("{name}{number}"), length) {
            number += 1;
        }
    }
    for (name, length) in kinds {
        client.exchange(format!("touch {name}0 500\r\n"), "TOUCHED\r\n");
        client.exchange(format!("mg {name}1 T500\r\n"), "HD\r\n");
        client.send(format!("gat 500 {name}2\r\n"));
        assert!(client.line().starts_with("VALUE "), "{name}");
        client.take(length);
        client.hear("\r\nEND\r\n");
        for number in 0..3 {
            client.exchange(format!("mg {name}{number} t\r\n"), "HD t~500\r\n");
        }
    }
    assert_eq!(client.stats("")["evictions"], "0");
}
