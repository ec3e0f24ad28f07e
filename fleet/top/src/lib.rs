//! The screen of `guira top`: the state of nodes, read every second over the text protocol.
//!
//! ```text
//!  node ──► Reading ──► Node (this reading and the one before, history) ──► blocks ──► screen, or plain text
//!  (watch)              ▲ no clock, no socket from here on
//! ```
//!
//! A stock memcached is a node too: statistics that it lacks are shown as missing. All text from
//! servers is made printable where it is read.

#![forbid(unsafe_code)]

mod app;
mod block;
mod change;
mod node;
mod once;
mod panels;
mod printable;
mod read_stats;
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

/// The watched nodes, and the settings of the screen.
#[derive(Clone, Debug)]
pub struct Options {
    pub targets: Vec<Target>,
    pub interval: Duration,
    /// Which of the top keys are shown.
    pub sort: Sort,
}
