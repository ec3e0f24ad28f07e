//! The router, as bytes over a socket with servers behind it: one file per behaviour, one binary for all.
#![forbid(unsafe_code)]

mod admin;
mod big_values;
mod binary;
mod cluster;
mod command_line;
mod delays;
mod delete_kills;
mod deletes;
mod differential;
mod ejection;
mod explain;
mod failures;
mod flushes;
mod leases;
mod marks;
mod mcrouter;
mod meta_leases;
mod metrics;
mod names;
mod neighbours;
mod pool_stats;
mod reload;
mod rounds;
mod routes;
mod server_addresses;
mod servers;
mod srv;
mod system_calls;
mod throttling;
mod tls_clients;
mod tls_servers;
mod udp;
mod upstream;
mod warm_ups;

use guira_harness::socket::Address;
use guira_tests::server::guira;
use guira_tests::{Router, Server};
use std::ffi::OsStr;
use std::process::{Command, Output};

/// `guira router` with these options.
fn command(options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = guira(["router"]);
    command.args(options);
    command
}

/// What comes of a command line that starts no router.
fn output(options: &[&str]) -> Output {
    command(options).output().expect("the program can be run")
}

/// The address of a server as a configuration has it.
fn name(server: &Server) -> String {
    match server.address() {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// A configuration that sends everything to one server.
fn config_of(server: &Server) -> String {
    format!(r#"{{"pools": {{"all": {{"servers": ["{}"]}}}}, "route": "PoolRoute|all"}}"#, name(server))
}

/// Stops a server, and waits until all its threads stand still.
#[track_caller]
fn stop(node: &Server) {
    node.freeze();
}
