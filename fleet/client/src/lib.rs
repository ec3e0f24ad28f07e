//! Clients of Guira.
//!
//! [`mica`] sends datagrams to the thread that owns their keys, over any path of guira-transport.

#![forbid(unsafe_code)]

pub mod mica;
