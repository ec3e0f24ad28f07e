//! Clients of Guira.
//!
//! [`lookaside`] is for applications: a cache beside their database. [`pools`] has many servers, and goes to each without a router between. [`mica`] sends datagrams to the thread that owns
//! their keys, over any path of guira-transport. [`text`] is one blocking connection that speaks text, for tools that ask
//! a node now and then.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod counters;
mod key;
pub mod lookaside;
pub mod mica;
pub mod pools;
pub mod text;
pub mod tls;
