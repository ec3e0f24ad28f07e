//! The crawler does its work whatever else the server has to do: here after a delete by prefix. The admin listener tells of it without waking a worker.

use super::metrics::scrape;
use super::with_admin;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::SetAtEnd;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server};
use std::net::SocketAddr;

/// Engines, and access modes.
const MODES: [&str; 8] = [
    "memc3",
    "classic",
    "fleec",
    "memclock",
    "mica",
    "mica --access=erew",
    "mica --access=crew",
    "mica-store",
];

const GET: &str = "get kept\r\n";
const VALUE: &str = "VALUE kept 0 1\r\ny\r\nEND\r\n";

/// A server on which some thousand items were deleted by prefix, one item that was not, and who has asked for that.
fn with_deleted(mode: &str) -> (Server, SocketAddr, Client) {
    let engine = format!("--engine={mode}");
    let (server, address) = with_admin(&engine.split(' ').collect::<Vec<_>>());
    let mut client = server.connect();
    let items: String = (0..4000).map(|number| format!("set gone:{number} 0 0 1 noreply\r\nx\r\n")).collect();
    client.exchange(items + "set kept 0 0 1\r\ny\r\n", "STORED\r\n");
    assert!(scrape(address).value("memcached_current_items", &[]) > 3900.0, "{mode}");
    client.exchange("flush_prefix gone:\r\n", "OK\r\n");
    (server, address, client)
}

/// Waits until the deleted items are gone, and calls `meanwhile` before each look.
fn wait_for_crawler(mode: &str, address: SocketAddr, mut meanwhile: impl FnMut()) {
    wait_for(&format!("the end of the crawl of {mode}"), || {
        meanwhile();
        (scrape(address).value("memcached_current_items", &[]) == 1.0).then_some(())
    });
}

#[test]
fn it_ends_on_a_server_that_nobody_asks() {
    for mode in MODES {
        let (_server, address, mut client) = with_deleted(mode);
        wait_for_crawler(mode, address, || ());
        client.exchange(GET, VALUE);
    }
}

#[test]
fn it_ends_on_a_server_that_is_asked_now_and_then() {
    for mode in MODES {
        let (_server, address, mut client) = with_deleted(mode);
        wait_for_crawler(mode, address, || client.exchange(GET, VALUE));
    }
}

#[test]
fn it_ends_on_a_server_that_is_asked_all_the_time() {
    for mode in MODES {
        let (server, address, _client) = with_deleted(mode);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let (requests, replies) = (GET.repeat(50), VALUE.repeat(50));
                    while !is_over.load(Ordering::Relaxed) {
                        client.exchange(&requests, &replies);
                    }
                });
            }
            let _end = SetAtEnd(&is_over);
            wait_for_crawler(mode, address, || ());
        });
    }
}
