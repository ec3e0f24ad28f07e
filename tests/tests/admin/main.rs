//! The admin listener, as bytes over a socket: one file per behaviour, one binary for all.
#![forbid(unsafe_code)]

mod alerts;
mod bad_requests;
mod crawler;
mod crowds;
mod dashboards;
mod health;
mod history;
mod metrics;
mod ready;
mod secrets;
mod top_keys;

use guira_tests::http::HttpClient;
use guira_tests::{Server, Setup};
use std::net::SocketAddr;

/// A server with an admin listener on a free port.
fn with_admin(arguments: &[&str]) -> (Server, SocketAddr) {
    let setup = Setup::new().guira_argument("--admin=127.0.0.1:0");
    let mut server =
        arguments.iter().fold(setup, |setup, argument| setup.guira_argument(argument)).start_guira();
    let address = server.admin_address();
    (server, address)
}

/// What `/health` says on a connection of its own: that the listener goes on.
#[track_caller]
fn expect_health(address: SocketAddr) {
    let reply = HttpClient::connect(address).get("/health", "");
    assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"));
}
