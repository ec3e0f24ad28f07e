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
