//! The look-aside client before real caches: one file per behaviour, one binary for all.
#![forbid(unsafe_code)]

mod caches;
mod document;
mod expiry;
mod failures;
mod faults;
mod herds;
mod histories;
mod markers;
mod regions;
mod replication;
mod soak;

use guira_client::lookaside::{LookAside, Value};
use guira_client::text::{Endpoint, Target};
use guira_tests::Server;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::server::Address;
use std::convert::Infallible;

/// Where a server is, for a client that is patient.
fn target(server: &Server) -> Target {
    let endpoint = match server.address() {
        Address::Tcp(address) => address.to_string().parse().expect("an address"),
        Address::Unix(path) => Endpoint::Unix(path.clone()),
    };
    Target::new(endpoint, PATIENCE)
}

/// A client that waits long for what others fill.
fn client(server: &Server) -> LookAside {
    LookAside::new(target(server)).wait(PATIENCE)
}

fn value(text: impl Into<String>) -> Option<Value> {
    Some(Value::new(text.into()))
}

/// The value of a key, if the database has this one.
#[track_caller]
fn read(cache: &LookAside, key: &str, of_database: Option<Value>) -> Option<Value> {
    cache.get_or_fill(key, |_| Ok::<_, Infallible>(of_database)).expect("no fill fails")
}

/// The value of a key that the cache has.
#[track_caller]
fn hit(cache: &LookAside, key: &str) -> Option<Value> {
    read_with(cache, key, || panic!("{key} is not in the cache"))
}

/// The value of a key, if the database says this.
#[track_caller]
fn read_with(cache: &LookAside, key: &str, fill: impl FnOnce() -> Option<Value>) -> Option<Value> {
    cache.get_or_fill(key, |_| Ok::<_, Infallible>(fill())).expect("no fill fails")
}

/// Waits until something is so.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    Deadline::after(PATIENCE).poll(|| is_so().then_some(())).unwrap_or_else(|| panic!("{what} did not come"));
}
