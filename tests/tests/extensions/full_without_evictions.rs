//! When memory is full and nothing may be evicted, whatever reads an item finds it, and what it is asked to change on the way is changed.

use guira_tests::{Client, Server, Setup};

const VALUE: [u8; 100] = [b'v'; 100];

/// Stores short items until nothing more is stored. Returns how many there are.
fn fill(client: &mut Client) -> usize {
    let (mut stored, mut refused) = (0, 0);
    for round in 0.. {
        client.send_many((round * 200..(round + 1) * 200).map(|number| {
            let head = format!("set key{number} 0 0 {}\r\n", VALUE.len());
            [head.as_bytes(), &VALUE, b"\r\n"].concat()
        }));
        for _ in 0..200 {
            let line = client.line();
            stored += usize::from(line == "STORED");
            refused += usize::from(line.starts_with("SERVER_ERROR out of memory"));
        }
        assert_eq!(stored + refused, (round + 1) * 200);
        if refused >= 300 {
            break;
        }
    }
    stored
}

fn full() -> (Server, Client, usize) {
    let server =
        Setup::new().guira_argument("--memory=24MiB").guira_argument("--disable-evictions").start_guira();
    let mut client = server.connect();
    let stored = fill(&mut client);
    (server, client, stored)
}

/// Sends `request` for many of the items, each of which must be there afterwards. What it is answered with is looked at by `check`.
fn each(request: impl Fn(usize) -> String, check: impl Fn(&mut Client, usize)) {
    let (_server, mut client, stored) = full();
    assert!(stored > 1_000, "{stored}");
    for number in 0..500 {
        client.send(request(number));
        check(&mut client, number);
        let line = client.ask(format!("mg key{number} s\r\n"));
        assert!(line.starts_with("HD s100"), "{line}");
    }
    let stats = client.stats("");
    assert_eq!((&*stats["evictions"], &*stats["curr_items"]), ("0", &*stored.to_string()));
}

fn hear_value(client: &mut Client, head: &str) {
    assert!(client.line().starts_with(head));
    assert_eq!(client.take(VALUE.len()), VALUE);
    client.hear("\r\nEND\r\n");
}

#[test]
fn gets_shows_the_item() {
    let head = |number| format!("VALUE key{number} 0 100 ");
    each(|number| format!("gets key{number}\r\n"), |client, number| hear_value(client, &head(number)));
}

#[test]
fn gat_and_gats_show_the_item_and_give_it_its_time() {
    for (command, space) in [("gat", ""), ("gats", " ")] {
        each(
            |number| format!("{command} 500 key{number}\r\n"),
            |client, number| {
                hear_value(client, &format!("VALUE key{number} 0 100{space}"));
                client.exchange(format!("mg key{number} t\r\n"), "HD t~500\r\n");
            },
        );
    }
}

#[test]
fn mg_tells_a_cas_unique_and_gives_the_item_its_time() {
    each(
        |number| format!("mg key{number} c t T500\r\n"),
        |client, number| {
            let line = client.line();
            assert!(line.starts_with("HD c") && !line.starts_with("HD c0 "), "{line}");
            client.exchange(format!("mg key{number} t\r\n"), "HD t~500\r\n");
        },
    );
}

#[test]
fn touch_and_me_leave_the_item() {
    each(
        |number| format!("touch key{number} 500\r\nme key{number}\r\n"),
        |client, number| {
            client.hear("TOUCHED\r\n");
            assert!(client.line().starts_with(&format!("ME key{number} exp=")));
        },
    );
}

/// A change that was refused used to be tried again without end.
#[test]
fn mg_of_a_stale_item_ends() {
    each(
        |number| format!("md key{number} I\r\nmg key{number} s T500\r\n"),
        |client, _| {
            client.hear("HD\r\n");
            let line = client.line();
            assert!(line.starts_with("HD s100") && line.contains('X'), "{line}");
        },
    );
}
