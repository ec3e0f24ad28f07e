//! Connections come and go; each is served for itself.

use std::time::Duration;

use guira_sync::clock::Stopwatch;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup};

fn open_connections(client: &mut Client) -> u64 {
    client.stats("")["curr_connections"].parse().expect("a number of connections")
}

#[test]
fn quit_closes_without_a_reply() {
    let server = Server::start();
    for request in ["quit\r\n", "quit now\r\n", "quit\r\nmn\r\n"] {
        let mut client = server.connect();
        client.send(request);
        client.expect_closed();
    }
}

#[test]
fn replies_before_quit_are_delivered() {
    let server = Server::start();
    let mut client = server.connect();
    let value = "x".repeat(500_000);
    client.set("key", &value);
    client.send("get key\r\nget key\r\nquit\r\n");
    let reply = format!("VALUE key 0 500000\r\n{value}\r\nEND\r\n");
    client.hear(&reply);
    client.hear(&reply);
    client.expect_closed();
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.send("get key\r\nmn\r\n");
    client.end_of_sending();
    client.hear("VALUE key 0 1\r\nx\r\nEND\r\nMN\r\n");
    client.expect_closed();
}

#[test]
fn many_connections_at_once() {
    let server = Server::start();
    let mut clients = (0..300).map(|_| server.connect()).collect::<Vec<_>>();
    for (number, client) in clients.iter_mut().enumerate() {
        client.set(&format!("key{number}"), format!("{number}"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let other = (number + 150) % 300;
        client.expect_value(&format!("key{other}"), format!("{other}"));
    }
}

#[test]
fn closed_connections_are_forgotten() {
    let server = Server::start();
    let mut watcher = server.connect();
    let before = open_connections(&mut watcher);
    let clients = (0..50)
        .map(|_| {
            let mut client = server.connect();
            client.sync();
            client
        })
        .collect::<Vec<_>>();
    assert_eq!(open_connections(&mut watcher), before + 50);
    drop(clients);
    Deadline::after(PATIENCE)
        .poll(|| (open_connections(&mut watcher) == before).then_some(()))
        .expect("closed connections are no longer counted");
}

#[test]
fn connecting_again_and_again_works() {
    let server = Server::start();
    server.connect().set("key", "x");
    for _ in 0..1000 {
        server.connect().expect_value("key", "x");
    }
}

#[test]
fn an_idle_connection_stays_open() {
    let server = Server::start();
    let mut idle = server.connect();
    idle.sync();
    let mut busy = server.connect();
    // Time passes here by work, not by sleeping: the point is that others do not disturb the idle one.
    for number in 0..5000 {
        busy.set("key", format!("{number}"));
    }
    idle.be_patient(Duration::from_secs(5));
    idle.expect_value("key", "4999");
}

#[test]
fn a_value_that_is_on_its_way_when_the_server_stops_is_stored() {
    // memcached ends at once.
    let server = Setup::new().start_guira();
    let (mut client, mut idle) = (server.connect(), server.connect());
    let value = "x".repeat(500_000);
    let (first, second) = value.split_at(250_000);
    client.send(format!("set big 0 0 500000\r\n{first}"));
    // What has come has been taken: nothing of it is waiting anywhere.
    wait_for("the first half", || {
        let stats = idle.stats("");
        (stats["bytes_read"].parse::<usize>().expect("a number") > 250_000).then_some(())
    });
    server.signal("TERM");
    idle.expect_closed();
    client.exchange(format!("{second}\r\n"), "STORED\r\n");
    client.expect_closed();
}

#[test]
fn a_server_that_stops_waits_no_longer_than_drain_timeout() {
    let server = Setup::new().guira_argument("--drain-timeout=0").start_guira();
    let mut client = server.connect();
    assert_eq!(client.stats("settings")["drain_timeout"], "0");
    client.send("set half 0 0 10\r\nhalf");
    let stopping = Stopwatch::start();
    server.stop("TERM");
    // The default is five seconds.
    assert!(stopping.elapsed() < Duration::from_secs(4), "{:?}", stopping.elapsed());
    client.abandon();
}

#[test]
fn who_says_nothing_for_too_long_is_closed_and_half_a_request_is_nothing() {
    let server = Setup::new().options(&["-o", "idle_timeout=30", "--test-commands"]).start_guira();
    let mut client = server.connect();
    let bytes = |client: &mut Client| client.stats("")["bytes_read"].parse::<usize>().expect("a number");
    // One of each on either worker, most likely: what counts is that all of this has been read.
    let silent = server.connect();
    let (mut line, mut value, mut long, mut stuck) =
        (server.connect(), server.connect(), server.connect(), server.connect());
    line.send("g");
    value.send("set small 0 0 10\r\nab");
    long.send(format!("set long 0 0 100000\r\n{}", "x".repeat(50_000)));
    stuck.send("set stuck 0 0 10\r\nab");
    wait_for("the first parts", || (bytes(&mut client) > 50_060).then_some(()));
    client.exchange("debugtime 20\r\n", "OK\r\n");
    let before = bytes(&mut client);
    line.send("e");
    value.send("c");
    long.send("x".repeat(1_000));
    wait_for("the second parts", || (bytes(&mut client) > before + 1_002).then_some(()));
    client.exchange("debugtime 20\r\n", "OK\r\n");
    for mut idle in [silent, line, stuck] {
        idle.expect_closed();
    }
    value.exchange("defghij\r\n", "STORED\r\n");
    long.exchange(format!("{}\r\n", "x".repeat(49_000)), "STORED\r\n");
    assert_eq!(client.stats("")["idle_kicks"], "3");
}
