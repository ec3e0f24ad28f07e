//! What an experiment found.

use guira_harness::plot::Chart;
use serde::{Deserialize, Serialize};

/// What an experiment found: filed as JSON, and read again by the document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// How it was measured, in a few sentences: sizes, numbers, what stands in for what.
    pub(crate) how: String,
    /// An answer to each claim of the experiment.
    pub(crate) answers: Vec<Answer>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
}

/// An outcome as it is filed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Filed {
    /// The day of the measurement, such as `2026-11-22`.
    pub(crate) measured: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The claim, as `claims.rs` numbers it.
    pub(crate) claim: String,
    pub(crate) ours: String,
    /// A sentence on why it differs, or in what it agrees.
    pub(crate) remark: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A table of such a title and head.
pub(crate) fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    Table { title: title.to_owned(), head, rows }
}

pub(crate) fn answer(claim: &str, ours: String, remark: impl Into<String>) -> Answer {
    Answer { claim: claim.to_owned(), ours, remark: remark.into().trim_end().to_owned() }
}

/// Sorts statements about figures by whether the figures bear them out. Ends with a blank, for what is said beside them. A remark says nothing of
/// the figures but by this: the next run may decide otherwise.
pub(crate) fn verdict(statements: &[(&str, bool)]) -> String {
    let list = |wanted: bool, title: &str| {
        let chosen = statements.iter().filter(|(_, holds)| *holds == wanted);
        let chosen: Vec<&str> = chosen.map(|(statement, _)| *statement).collect();
        if chosen.is_empty() { String::new() } else { format!("{title}: {}. ", chosen.join("; ")) }
    };
    list(true, "Found") + &list(false, "Not found")
}

/// Says of an experiment with servers that it was built without the optimisations of a release, if it was.
pub(crate) const fn build() -> &'static str {
    if cfg!(debug_assertions) { " A development build was measured." } else { "" }
}

/// A share in percent, with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn statements_are_sorted_by_whether_they_hold() {
        assert_eq!(
            verdict(&[("a is faster", true), ("b is not", false), ("c is alike", true)]),
            "Found: a is faster; c is alike. Not found: b is not. "
        );
        assert_eq!(verdict(&[]), "");
    }
}
