//! Lines of `stats`.

use guira_protocol::ReplyBuffer;
use std::fmt;

pub(super) struct Lines<'a>(pub(super) &'a mut ReplyBuffer);

impl Lines<'_> {
    pub(super) fn stat(&mut self, name: &str, value: impl fmt::Display) {
        self.0.line(&format!("STAT {name} {value}"));
    }
}
