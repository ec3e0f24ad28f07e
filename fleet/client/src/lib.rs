//! Clients of Guira.
//!
//! [`lookaside`] is for applications: a cache beside their database. [`pools`] spreads keys over
//! many servers without a router. [`mica`] sends datagrams to the thread that owns their keys, over
//! any path of guira-transport. [`text`] is one blocking connection with the text protocols, for
//! tools that query a node now and then.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod counters;
mod key;
pub mod lookaside;
pub mod mica;
pub mod pools;
pub mod text;
pub mod tls;
