//! What a check finds.

use std::fmt;

/// A broken rule, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Finding {
    /// A finding in a line of a file.
    pub(crate) fn new(file: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}: {}", self.file, self.line, self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_is_one_line_that_editors_understand() {
        let finding = Finding::new("base/sync/src/lib.rs", 7, "too long", "split it");
        assert_eq!(finding.to_string(), "base/sync/src/lib.rs:7: too long: split it");
    }
}
