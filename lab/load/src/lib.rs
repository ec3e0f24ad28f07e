//! The load generator of Guira: it drives a memcached-class server over its text or binary protocol and
//! measures what the server costs.
//!
//! ```text
//!  Source ──► Outbox ──► socket ──► server
//!  (draws,     (bytes and           │
//!   trace)      open requests)      ▼
//!                 ▲               bytes
//!                 └── fills ── Judge ──► Counters (counts, latencies)
//! ```
//!
//! [`engine`] turns that wheel on one thread; [`run`] runs several threads of it; [`floor`] is the server that moves
//! the same bytes and stores nothing, [`relay`] the proxy that moves them and reads nothing; [`server`] starts servers and reads their costs; [`mod@bench`] compares them.

#![forbid(unsafe_code)]

pub mod bench;
pub mod clock;
mod connection;
pub mod counters;
mod datagrams;
pub mod engine;
pub mod equal;
pub mod error;
pub mod floor;
mod flow;
mod link;
mod mica;
pub mod pace;
mod protocol;
pub mod relay;
pub mod replay;
pub mod reply;
mod reply_error;
pub mod request;
pub mod run;
pub mod server;
pub mod shared_writes;
pub mod source;
mod stream;
pub mod sustained;
pub mod target;
pub mod tls;
mod traffic;

pub use error::LoadError;
pub use guira_harness::process;
