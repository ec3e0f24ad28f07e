//! What an experiment found.

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

/// Our figure beside the paper's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The claim, as `claims.rs` numbers it.
    pub(crate) claim: String,
    /// What was found here.
    pub(crate) ours: String,
    /// A sentence on why it differs, or in what it agrees.
    pub(crate) remark: String,
}

/// Rows of text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Lines over an axis.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// The name of its file, without `.svg`.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// An axis.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// What it is, with its unit.
    pub(crate) about: String,
    pub(crate) steps: Steps,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Steps {
    /// From 0.
    Linear,
    /// All values are above 0.
    Logarithmic,
}

/// A line of a chart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<Dot>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Half the length of the bar through it: the spread of its runs.
    pub(crate) spread: f64,
}

/// A table of such a title and head.
pub(crate) fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    Table { title: title.to_owned(), head, rows }
}

pub(crate) fn answer(claim: &str, ours: String, remark: &str) -> Answer {
    Answer { claim: claim.to_owned(), ours, remark: remark.to_owned() }
}

pub(crate) fn axis(about: &str, steps: Steps) -> Axis {
    Axis { about: about.to_owned(), steps }
}

pub(crate) fn line(name: &str, points: Vec<Dot>) -> Line {
    Line { name: name.to_owned(), points }
}

/// A share in percent, with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}
