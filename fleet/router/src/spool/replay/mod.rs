//! Logged deletes are delivered.
//!
//! ```text
//! files ── lines ──► pass ── places ──► links ──► servers
//!                     │ ▲
//!                     ▼ │
//!                   progress
//! ```

mod budget;
mod lines;
mod links;
mod pass;
mod places;
mod progress;
mod report;
mod thread;
mod tool;

#[cfg(test)]
mod tests;

pub use pass::{ReplayManner, ReplayTakes};
pub use report::{FileEnd, FileFate, FileReport, Left, LeftReason, Remarks, ReplayReport};
pub(crate) use thread::Replayer;
pub use tool::{ReplayError, ReplayOptions, replay};
