//! `--engine mica-store`: what there is no room for is refused, and nothing that exists is lost.

use guira_tests::{Client, Server, Setup};

fn start() -> Server {
    Setup::new()
        .not_with("classic")
        .not_with("fleec")
        .not_with("mica")
        .guira_argument("--engine=mica-store")
        .guira_argument("--memory=24MiB")
        .guira_argument("--max-item-size=64KiB")
        .start_guira()
}

const REFUSED: &str = "SERVER_ERROR out of memory storing object";

fn set(client: &mut Client, key: &str, length: usize) -> String {
    client.ask(format!("set {key} 7 0 {length}\r\n{}\r\n", "v".repeat(length)))
}

fn expect(client: &mut Client, key: &str, length: usize) {
    client.exchange(
        format!("get {key}\r\n"),
        format!("VALUE {key} 7 {length}\r\n{}\r\nEND\r\n", "v".repeat(length)),
    );
}

/// Stores items of 900 bytes until this many in a row were refused that no partition has room. Returns the numbers of those that were stored.
fn fill(client: &mut Client) -> Vec<u32> {
    let (mut stored, mut refused) = (Vec::new(), 0);
    for number in 0.. {
        match set(client, &format!("key{number}"), 900).as_str() {
            "STORED" => {
                stored.push(number);
                refused = 0;
            }
            REFUSED => refused += 1,
            other => panic!("{other}"),
        }
        if refused == 300 {
            break;
        }
    }
    stored
}

#[test]
fn a_full_store_refuses_and_keeps_everything() {
    let server = start();
    let mut client = server.connect();
    let stored = fill(&mut client);
    assert!(stored.len() > 5_000, "{}", stored.len());
    for number in &stored {
        expect(&mut client, &format!("key{number}"), 900);
    }
    let stats = client.stats("");
    assert_eq!(
        (stats["curr_items"].as_str(), stats["evictions"].as_str()),
        (stored.len().to_string().as_str(), "0")
    );
    client.exchange("policy\r\n", "POLICY none\r\n");
}

#[test]
fn an_item_that_cannot_be_replaced_stays() {
    let server = start();
    let mut client = server.connect();
    let stored = fill(&mut client);
    for number in stored.iter().take(20) {
        let key = format!("key{number}");
        assert_eq!(set(&mut client, &key, 60_000), REFUSED);
        let longer = "x".repeat(60_000);
        client.exchange(format!("append {key} 0 0 60000\r\n{longer}\r\n"), format!("{REFUSED}\r\n"));
        client.exchange(format!("ms {key} 60000\r\n{longer}\r\n"), format!("{REFUSED}\r\n"));
        expect(&mut client, &key, 900);
    }
}

#[test]
fn what_is_asked_about_an_item_needs_no_room() {
    let server = start();
    let mut client = server.connect();
    let stored = fill(&mut client);
    for number in stored.iter().take(20) {
        let key = format!("key{number}");
        client.exchange(format!("touch {key} 500\r\n"), "TOUCHED\r\n");
        assert!(client.ask(format!("mg {key} c\r\n")).starts_with("HD c"));
        client.exchange(format!("mg {key} T300 t\r\n"), "HD t300\r\n");
        expect(&mut client, &key, 900);
    }
}

#[test]
fn what_is_deleted_or_flushed_makes_room() {
    let server = start();
    let mut client = server.connect();
    let stored = fill(&mut client);
    for number in stored.iter().take(100) {
        client.exchange(format!("delete key{number}\r\n"), "DELETED\r\n");
    }
    // Each in its own partition, where it has left its room.
    for number in stored.iter().take(100) {
        assert_eq!(set(&mut client, &format!("key{number}"), 900), "STORED");
    }
    client.exchange("flush_all\r\n", "OK\r\n");
    client.exchange("get key200\r\n", "END\r\n");
    assert!(fill(&mut client).len() * 100 >= stored.len() * 95);
}
