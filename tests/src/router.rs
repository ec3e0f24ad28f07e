//! A router of a test, killed on drop.

use std::net::SocketAddr;

use guira_harness::server::{ServerProcess, Signal};

use crate::client::Client;
use crate::deadline::PATIENCE;
use crate::server::{Address, guira, listening};

/// A running router on a port of its own.
#[derive(Debug)]
pub struct Router {
    pub process: ServerProcess,
    pub address: Address,
}

impl Router {
    /// One that tells clients of gets that have failed.
    #[track_caller]
    pub fn start(options: &[&str]) -> Self {
        Self::start_with_misses(&[options, &["--disable-miss-on-get-errors"]].concat())
    }

    /// One with the default of `guira router`: clients receive a miss for a get that has failed.
    #[track_caller]
    pub fn start_with_misses(options: &[&str]) -> Self {
        Self::start_as("router", options)
    }

    /// One that is started as `guira NAME`.
    #[track_caller]
    pub fn start_as(name: &str, options: &[&str]) -> Self {
        let (process, address) = listening(guira([&[name, "--listen", "127.0.0.1:0"], options].concat()), "");
        Router { process, address: Address::Tcp(address) }
    }

    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Where else it listens: the address with this number in the order in which it tells them, of which the first is 0.
    #[track_caller]
    pub fn listens(&mut self, number: usize) -> SocketAddr {
        let nth = |lines: &[String]| {
            let told = lines.iter().filter_map(|line| line.strip_prefix("listening on "));
            told.skip(number).find_map(|address| address.parse().ok())
        };
        self.process.wait_for("another address", PATIENCE, nth).unwrap()
    }

    /// The address that it listens on by this word, such as `admin`.
    #[track_caller]
    pub fn listens_by(&mut self, word: &str) -> SocketAddr {
        self.process.wait_for_address(word, PATIENCE).unwrap()
    }

    pub fn tcp(&self) -> SocketAddr {
        match self.address {
            Address::Tcp(address) => address,
            Address::Unix(_) => unreachable!("it was started on a port"),
        }
    }

    pub fn log(&self) -> String {
        self.process.errors()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}
