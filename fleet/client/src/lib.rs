//! Clients of Guira.
//!
//! [`mica`] sends datagrams that reach the thread which their keys are at home at, over any path of guira-transport.

#![forbid(unsafe_code)]

pub mod mica;
