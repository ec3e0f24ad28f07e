//! The router: clients on one side, servers on the other, and a tree of routes (fleet/routing) between them.
//!
//! ```text
//! client ── RouterService::run ── Walks ── Flow ─┬─ Destination ── wire ──► server
//!    ▲                                           │
//!    └──── Calls: slots of the outbox ◄──────────┴─ reply ◄─────────────── server
//! ```
//!
//! Requests of all clients that come in one round of the worker are gathered for each server and sent with one call; gets that follow each other are sent as
//! one get of several keys.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

mod calls;
mod client;
mod flow;
mod render;
mod running;
mod service;
mod temp;
mod upstream;

pub use temp::json;
pub use running::{RouterOptions, Running, StartError, start};
pub use upstream::HealthOptions;
