//! The harness of the protocol tests: a server of its own for each test, and a client that sends bytes
//! and expects exact bytes.
//!
//! | folder | what it tests | how often it runs |
//! |---|---|---|
//! | `tests/tests/protocol/` | what memcached does | with each engine, and with memcached |
//! | `tests/tests/extensions/` | what only guira does | with each engine |
//! | `tests/tests/server/` | where the engine makes no difference, or the tests name their engines | once |
//! | the others | the admin listener, the router, the invalidator, … | once |
//!
//! Each has one file per behaviour. The tests of the protocol run against the `guira` binary, or, with
//! `GUIRA_TEST_SERVER=memcached`, against a real memcached: every expectation has been confirmed there, so a failure is a
//! difference in behaviour and not a matter of opinion. See [`server::Server`] for the environment variables.
//!
//! The law is memcached 1.6.45. Two macros name the exceptions:
//! * [`newer_than_peer!`]: memcached 1.6.45 does it, an older memcached at hand does not;
//! * [`upstream_flaw!`]: memcached breaks its own protocol there, and guira does what the protocol says.
#![forbid(unsafe_code)]

pub mod binary;
pub mod client;
pub mod deadline;
pub mod differential;
pub mod dns;
pub mod escape;
pub mod etcd;
pub mod expected;
pub mod http;
pub mod leases;
pub mod lines;
pub mod mica;
pub mod mounted;
pub mod mysql;
pub mod openmetrics;
pub mod postgres;
pub mod prometheus;
pub mod rounds;
pub mod router;
pub mod server;
pub mod skip;
pub mod system_calls;
pub mod tls;
pub mod udp;

pub use client::Client;
pub use guira_harness::random;
pub use guira_harness::scratch;
pub use guira_regions::database as mariadb;
pub use router::Router;
pub use server::{Server, Setup};
