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
mod routes;
mod server_addresses;
mod servers;
mod srv;
mod throttling;
mod tls_clients;
mod tls_servers;
mod udp;
mod upstream;
mod warm_ups;

use guira_harness::server::{ServerProcess, Signal};
use guira_harness::socket::Address;
use guira_tests::deadline::PATIENCE;
use guira_tests::server::{guira_binary, spawn};
use guira_tests::{Client, Server};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::{Command, Output};

/// `guira router` with these options.
fn command(options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(guira_binary());
    command.arg("router").args(options);
    command
}

/// What comes of a command line that starts no router.
fn output(options: &[&str]) -> Output {
    command(options).output().expect("the program can be run")
}

/// A running router, killed on drop.
struct Router {
    process: ServerProcess,
    address: Address,
}

impl Router {
    /// One that tells clients of gets that have failed.
    #[track_caller]
    fn start(options: &[&str]) -> Self {
        Self::start_with_misses(&[options, &["--disable-miss-on-get-errors"]].concat())
    }

    /// One with the default of `guira router`: clients receive a miss for a get that has failed.
    #[track_caller]
    fn start_with_misses(options: &[&str]) -> Self {
        Self::start_as("router", options)
    }

    /// One that is started as `guira NAME`.
    #[track_caller]
    fn start_as(name: &str, options: &[&str]) -> Self {
        let mut command = Command::new(guira_binary());
        command.args([name, "--listen", "127.0.0.1:0"]).args(options);
        let mut process = spawn(command);
        let address = process.wait_for_address("", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        Router { process, address: Address::Tcp(address) }
    }

    #[track_caller]
    fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Where else it listens: the address with this number in the order in which it tells them, of which the first is 0.
    #[track_caller]
    fn listens(&mut self, number: usize) -> SocketAddr {
        let nth = |lines: &[String]| {
            let told = lines.iter().filter_map(|line| line.strip_prefix("listening on "));
            told.skip(number).find_map(|address| address.parse().ok())
        };
        self.process.wait_for("another address", PATIENCE, nth).unwrap_or_else(|error| panic!("{error}"))
    }

    fn tcp(&self) -> SocketAddr {
        match self.address {
            Address::Tcp(address) => address,
            Address::Unix(_) => unreachable!("it was started on a port"),
        }
    }

    fn log(&self) -> String {
        self.process.errors()
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
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
