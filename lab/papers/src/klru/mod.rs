//! *Memcached with KLRU* (Yang, Wang and Wang): each claim again, over the engine's own policies.
//!
//! Miss ratios and delays are simulated with the code that evicts in the server (`simulate`), costs are measured in
//! the engine `classic` inside this process (`inside`) and over loopback.

mod blind;
pub(crate) mod curves;
pub(crate) mod delay;
pub(crate) mod expiry;
mod inside;
pub(crate) mod locks;
pub(crate) mod metadata;
mod mixes;
pub(crate) mod samples;
pub(crate) mod sampling;
pub(crate) mod server;
mod simulate;
pub(crate) mod small;
mod spent;
pub(crate) mod summary;
pub(crate) mod threads;
mod together;
mod traces;

use crate::experiment::Failure;
use crate::outcome::{Answer, Axis, Dot, Line, Steps, Table};

/// A table of such a title and head.
fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    Table { title: title.to_owned(), head, rows }
}

fn answer(claim: &str, ours: String, remark: &str) -> Answer {
    Answer { claim: claim.to_owned(), ours, remark: remark.to_owned() }
}

fn axis(about: &str, steps: Steps) -> Axis {
    Axis { about: about.to_owned(), steps }
}

fn line(name: &str, points: Vec<Dot>) -> Line {
    Line { name: name.to_owned(), points }
}

/// Whatever was in the way, in words.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Other(error.to_string())
}

/// A share in percent, with one decimal.
fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}
