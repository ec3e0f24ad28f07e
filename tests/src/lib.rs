//! The harness of the protocol tests: a server of its own for each test, and a client that sends bytes
//! and expects exact bytes.
//!
//! The tests themselves are under `tests/tests/protocol/`, one file per behaviour, all in one binary; those of the admin
//! listener, which memcached does not have, are under `tests/tests/admin/`, those of the router and of the invalidator beside it.
//! They run against the `guira` binary, or, with `GUIRA_TEST_SERVER=memcached`, against a real memcached:
//! every expectation has been confirmed there, so a failure is a difference in behaviour and not a matter
//! of opinion. See [`server::Server`] for the environment variables.
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
pub mod server;
pub mod skip;
pub mod tls;
pub mod udp;

pub use client::Client;
pub use guira_harness::random;
pub use guira_harness::scratch;
pub use guira_regions::database as mariadb;
pub use server::{Server, Setup};
