//! The screen of `guira top`: what nodes do, asked anew every second over the text protocol.
//!
//! ```text
//!  node ──► Reading ──► Node (this reading and the one before, history) ──► blocks ──► screen, or plain text
//!  (watch)              ▲ no clock, no socket from here on
//! ```
//!
//! A stock memcached is a node too: what it does not tell is missing, and the screen says so. Whatever a server sends is
//! made printable where it is read.

#![forbid(unsafe_code)]

mod app;
mod ask;
mod block;
mod change;
mod node;
mod once;
mod panels;
mod printable;
mod reading;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod units;
mod watch;

pub use app::Sort;
pub use once::once;
pub use terminal::{TerminalError, run};

use guira_client::text::Target;
use std::time::Duration;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub targets: Vec<Target>,
    /// Time from one look at a node to the next.
    pub interval: Duration,
    /// Which of the top keys are shown.
    pub sort: Sort,
}
