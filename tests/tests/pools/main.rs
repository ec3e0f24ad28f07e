//! The client that routes by itself before real servers: one file per behaviour, one binary for all.
#![forbid(unsafe_code)]

mod copy;
mod failures;
mod following;
mod futures;
mod model;
mod udp;
mod values;

use guira_client::pools::Builder;
use guira_tests::deadline::PATIENCE;
use guira_tests::server::Address;
use guira_tests::{Server, Setup, skip};

/// A node of each of two engines, and memcached if it is there.
fn servers(setup: &Setup) -> Vec<Server> {
    let mut all: Vec<Server> =
        ["memc3", "fleec"].into_iter().map(|engine| setup.clone().engine(engine).start_guira()).collect();
    match setup.start_peer() {
        Some(peer) => all.push(peer),
        None => skip::say("memcached is not installed"),
    }
    all
}

fn name(server: &Server) -> String {
    match server.address() {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn builder(servers: &[Server]) -> Builder {
    let names: Vec<String> = servers.iter().map(name).collect();
    Builder::servers(&names).timeout(PATIENCE)
}
