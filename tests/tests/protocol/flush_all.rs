//! `flush_all` forgets every item stored so far, now or at a given time.

use std::time::Duration;

use guira_tests::deadline::Deadline;
use guira_tests::{Server, Setup};

#[test]
fn everything_is_gone_and_new_items_stay() {
    let server = Server::start();
    let mut client = server.connect();
    for number in 0..1000 {
        client.set(&format!("key{number}"), "x");
    }
    client.exchange("flush_all\r\n", "OK\r\n");
    for number in 0..1000 {
        client.exchange(format!("mg key{number}\r\n"), "EN\r\n");
    }
    client.set("new", "y");
    client.expect_value("new", "y");
}

#[test]
fn a_flushed_item_counts_as_missing_for_every_command() {
    let server = Server::start();
    let mut client = server.connect();
    for (request, reply) in [
        ("add key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("replace key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("prepend key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas key 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("incr key 1\r\n", "NOT_FOUND\r\n"),
        ("decr key 1\r\n", "NOT_FOUND\r\n"),
        ("touch key 0\r\n", "NOT_FOUND\r\n"),
        ("gat 0 key\r\n", "END\r\n"),
        ("delete key\r\n", "NOT_FOUND\r\n"),
        ("md key\r\n", "NF\r\n"),
        ("ma key\r\n", "NF\r\n"),
        ("me key\r\n", "EN\r\n"),
        ("ms key 1 MR\r\nx\r\n", "NS\r\n"),
    ] {
        client.set("key", "1");
        client.exchange("flush_all\r\n", "OK\r\n");
        client.exchange(request, reply);
    }
}

#[test]
fn flushing_again_and_again_forgets_each_time() {
    let server = Server::start();
    let mut client = server.connect();
    for round in 0..200 {
        client.set("key", format!("{round}"));
        client.expect_value("key", format!("{round}"));
        client.exchange("flush_all\r\n", "OK\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn zero_and_negative_delays_are_now() {
    let server = Server::start();
    let mut client = server.connect();
    for request in ["flush_all 0\r\n", "flush_all -1\r\n"] {
        client.set("key", "x");
        client.exchange(request, "OK\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn a_delayed_flush_takes_what_is_stored_until_then() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("before", "x");
    client.exchange("flush_all 3\r\n", "OK\r\n");
    client.set("between", "y");
    client.exchange("get before between\r\n", "VALUE before 0 1\r\nx\r\nVALUE between 0 1\r\ny\r\nEND\r\n");
    Deadline::after(Duration::from_secs(7))
        .poll(|| (client.ask("mg before\r\n") == "EN").then_some(()))
        .expect("a flush in three seconds has come after seven");
    client.exchange("get before between\r\n", "END\r\n");
    // The server may count in whole seconds: what is stored in the second of the flush may still be lost.
    Deadline::after(Duration::from_secs(5))
        .poll(|| {
            client.set("after", "z");
            (client.ask("mg after\r\n") == "HD").then_some(())
        })
        .expect("items stored after the flush stay");
}

#[test]
fn a_delay_is_over_a_second_early() {
    let server = Server::start();
    let mut client = server.connect();
    for request in ["flush_all 1\r\n", "flush_all 1 2\r\n", "flush_all 1 x\r\n"] {
        // memcached loses what is stored in the second of a flush.
        Deadline::after(Duration::from_secs(5))
            .poll(|| {
                client.set("key", "x");
                (client.ask("mg key\r\n") == "HD").then_some(())
            })
            .expect("an item stays");
        client.exchange(request, "OK\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn a_delay_is_counted_in_whole_seconds_of_the_servers_clock() {
    let server = Setup::new().guira_argument("--test-commands").start_guira();
    let mut client = server.connect();
    client.exchange("debugtime p\r\n", "OK\r\n");
    for (request, seconds) in [("flush_all 5\r\n", 4), ("flush_all 2 9\r\n", 1)] {
        client.set("key", "x");
        client.exchange(request, "OK\r\n");
        client.exchange(format!("debugtime {}\r\n", seconds - 1), "OK\r\n");
        client.expect_value("key", "x");
        client.exchange("debugtime 1\r\n", "OK\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn noreply_is_no_delay_unless_it_stands_alone() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.exchange("flush_all noreply 0\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    client.expect_silence("flush_all noreply noreply\r\n");
    client.expect_silence("flush_all x noreply\r\n");
    client.expect_value("key", "x");
    client.expect_silence("flush_all 0 noreply\r\n");
    client.exchange("get key\r\n", "END\r\n");
    client.set("key", "x");
    client.exchange("flush_all -1\r\nget key\r\n", "OK\r\nEND\r\n");
}

#[test]
fn a_flush_in_the_far_future_harms_nothing_yet() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("before", "x");
    client.exchange("flush_all 100\r\n", "OK\r\n");
    client.set("after", "y");
    client.exchange("get before after\r\n", "VALUE before 0 1\r\nx\r\nVALUE after 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn a_bad_delay_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.exchange("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    client.expect_value("key", "x");
}

#[test]
fn a_time_before_the_server_began_flushes_nothing() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    // The first absolute time, in January 1970.
    client.exchange("flush_all 2592001\r\n", "OK\r\n");
    client.expect_silence("flush_all 1000000000 noreply\r\n");
    client.expect_value("key", "x");
}

#[test]
fn a_forbidden_flush_is_not_read() {
    let server = Setup::new().options(&["-F"]).start();
    let mut client = server.connect();
    client.set("key", "x");
    for request in ["flush_all\r\n", "flush_all x\r\n", "flush_all 100\r\n"] {
        client.exchange(request, "CLIENT_ERROR flush_all not allowed\r\n");
    }
    client.expect_value("key", "x");
}
