//! The router, as bytes over a socket with servers behind it: one file per behaviour, one binary for all.
#![forbid(unsafe_code)]

mod admin;
mod command_line;
mod differential;
mod failures;
mod neighbours;
mod reload;
mod routes;

use guira_harness::server::{ServerProcess, Signal};
use guira_harness::socket::Address;
use guira_tests::deadline::PATIENCE;
use guira_tests::server::{guira_binary, spawn};
use guira_tests::{Client, Server};
use std::ffi::OsStr;
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
    #[track_caller]
    fn start(options: &[&str]) -> Self {
        let mut process = spawn(command(["--listen", "127.0.0.1:0"].iter().chain(options)));
        let address = process.wait_for_address("", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        Router { process, address: Address::Tcp(address) }
    }

    #[track_caller]
    fn connect(&self) -> Client {
        Client::connect(&self.address)
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
