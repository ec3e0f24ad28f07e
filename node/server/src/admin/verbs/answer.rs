//! Results of verbs, and the numbers among their words.

use crate::background::BackgroundTask;
use guira_protocol::{exact_i32, exact_u32};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Line(String),
    Close,
    /// A task that takes long, during which the connection has no other request in flight: its name, and the task, or
    /// the reply if it cannot be done.
    Alone(&'static str, Result<BackgroundTask, &'static str>),
}

impl From<&str> for Answer {
    fn from(line: &str) -> Self {
        Answer::Line(line.to_owned())
    }
}

pub(super) const OK: &str = "OK";
pub(super) const ERROR: &str = "ERROR";
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
pub(super) const BAD_CLASS: &str = "BADCLASS invalid class id";

pub(super) fn unsigned(word: &str) -> Option<u32> {
    exact_u32(word.as_bytes())
}

pub(super) fn signed(word: &str) -> Option<i32> {
    exact_i32(word.as_bytes())
}
