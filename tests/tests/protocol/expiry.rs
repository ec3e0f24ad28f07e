//! Expiration times: relative to 30 days, absolute above, negative at once, 0 never.

use std::time::Duration;

use guira_tests::Server;
use guira_tests::deadline::{Deadline, unix_seconds};
use guira_tests::lines::number;

const THIRTY_DAYS: u64 = 60 * 60 * 24 * 30;

#[test]
fn zero_is_never() {
    let server = Server::start();
    server.connect().talk(&[("set key 0 0 1\r\nx\r\n", "STORED\r\n"), ("mg key t\r\n", "HD t-1\r\n")]);
}

#[test]
fn a_negative_time_is_at_once() {
    let server = Server::start();
    let mut client = server.connect();
    for time in ["-1", "-100", "-2147483648"] {
        client.exchange(format!("set key 0 {time} 1\r\nx\r\n"), "STORED\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn storing_an_expired_item_removes_the_old_one() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 3\r\nold\r\n", "STORED\r\n"),
        ("set key 0 -1 3\r\nnew\r\n", "STORED\r\n"),
        ("get key\r\n", "END\r\n"),
        ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("incr key 1\r\n", "NOT_FOUND\r\n"),
        ("touch key 0\r\n", "NOT_FOUND\r\n"),
        ("replace key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("gat 0 key\r\n", "END\r\n"),
        ("mg key v\r\n", "EN\r\n"),
        ("ma key\r\n", "NF\r\n"),
        ("me key\r\n", "EN\r\n"),
        ("delete key\r\n", "NOT_FOUND\r\n"),
    ]);
}

#[test]
fn up_to_thirty_days_are_relative() {
    let server = Server::start();
    let mut client = server.connect();
    for seconds in [10, 100, 86_400, THIRTY_DAYS] {
        client.exchange(format!("set key 0 {seconds} 1\r\nx\r\n"), "STORED\r\n");
        let left = number(&client.ask("mg key t\r\n"), 't');
        assert!((seconds - 2..=seconds).contains(&left), "{left} of {seconds} seconds left");
    }
}

#[test]
fn more_than_thirty_days_is_a_date() {
    let server = Server::start();
    let mut client = server.connect();
    for date in [THIRTY_DAYS + 1, 1_000_000_000, unix_seconds() - 1] {
        client.exchange(format!("set key 0 {date} 1\r\nx\r\n"), "STORED\r\n");
        client.exchange("get key\r\n", "END\r\n");
    }
    let date = unix_seconds() + 1000;
    client.exchange(format!("set key 0 {date} 1\r\nx\r\n"), "STORED\r\n");
    let left = number(&client.ask("mg key t\r\n"), 't');
    assert!((997..=1001).contains(&left), "{left} of 1000 seconds left");
    client.exchange("set key 0 2147483647 1\r\nx\r\n", "STORED\r\n");
    client.exchange("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn dates_work_with_touch_and_meta_commands() {
    let server = Server::start();
    let mut client = server.connect();
    let date = unix_seconds() + 5000;
    let expect_left = |client: &mut guira_tests::Client| {
        let left = number(&client.ask("mg key t\r\n"), 't');
        assert!((4997..=5001).contains(&left), "{left} of 5000 seconds left");
    };
    client.set("key", "x");
    client.exchange(format!("touch key {date}\r\n"), "TOUCHED\r\n");
    expect_left(&mut client);
    client.exchange(format!("ms key 1 T{date}\r\nx\r\n"), "HD\r\n");
    expect_left(&mut client);
    client.exchange("mg key T0\r\n", "HD\r\n");
    client.exchange(format!("mg key T{date}\r\n"), "HD\r\n");
    expect_left(&mut client);
    client.exchange(format!("gat {} key\r\n", unix_seconds() - 10), "VALUE key 0 1\r\nx\r\nEND\r\n");
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn an_item_lives_until_its_time_has_passed() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set short 0 2 1\r\nx\r\n", "STORED\r\n");
    client.exchange("set long 0 1000 1\r\ny\r\n", "STORED\r\n");
    client.exchange("get short\r\n", "VALUE short 0 1\r\nx\r\nEND\r\n");
    Deadline::after(Duration::from_secs(6))
        .poll(|| (client.ask("mg short\r\n") == "EN").then_some(()))
        .expect("an item of two seconds is gone after six");
    client.exchange("get short long\r\n", "VALUE long 0 1\r\ny\r\nEND\r\n");
    client.exchange("add short 0 0 1\r\nz\r\n", "STORED\r\n");
}
