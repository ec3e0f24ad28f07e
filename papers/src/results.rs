//! The first page of docs/results/papers.md: a line for each claim, with the paper's figure, ours, and whether it holds.
//!
//! Everything but the paper's figure is computed from what the experiments have filed: a row reads its figures out of the
//! answers to a claim, and compares them. Where an answer has no such figure the page says so.

use std::fmt::Write as _;

use crate::experiment::Experiment;
use crate::outcome::Filed;

mod facebook;
mod fleec;
mod klru;
mod memc3;
mod mica;

pub(super) struct Row {
    claim: &'static str,
    about: &'static str,
    theirs: &'static str,
    /// The experiment that the line leads to.
    experiment: &'static str,
    /// Our figure, and for each part of the claim whether it holds; no part if it cannot be compared.
    ours: fn(Answer<'_>) -> Option<(String, Vec<bool>)>,
}

pub(super) const fn row(
    claim: &'static str,
    experiment: &'static str,
    about: &'static str,
    theirs: &'static str,
    ours: fn(Answer<'_>) -> Option<(String, Vec<bool>)>,
) -> Row {
    Row { claim, about, theirs, experiment, ours }
}

/// The filed answers to a claim.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a>(&'a str);

impl Answer<'_> {
    /// The answer from the end of `mark` on.
    fn from(self, mark: &str) -> Option<Self> {
        self.0.split_once(mark).map(|(_, rest)| Answer(rest))
    }

    /// The first `N` figures after `mark`. Spreads, which follow a ±, are none.
    fn after<const N: usize>(self, mark: &str) -> Option<[f64; N]> {
        let mut figures = figures(self.from(mark)?.0);
        let mut found = [0.0; N];
        for place in &mut found {
            *place = figures.next()?;
        }
        Some(found)
    }
}

/// The numbers in a text: `-0.4`, `+31`, `1,000`; but not those of names (memc3), and not those behind a ±.
fn figures(text: &str) -> impl Iterator<Item = f64> {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b',';
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            if !bytes[at].is_ascii_digit() {
                at += 1;
                continue;
            }
            let start = at;
            while at < bytes.len() && is_part(bytes[at]) {
                at += 1;
            }
            let before = text[..start].chars().next_back();
            let is_name = before.is_some_and(|before| before.is_alphanumeric() || before == '^');
            let is_spread = text[..start].trim_end().ends_with('±');
            if is_name || is_spread {
                continue;
            }
            let number = text[start..at].trim_end_matches(['.', ',']).replace(',', "");
            // A sign has a blank, or nothing, before it: else it is a dash between two numbers.
            let is_negative = before == Some('-')
                && text[..start - 1].chars().next_back().is_none_or(|before| before == ' ');
            if let Ok(number) = number.parse::<f64>() {
                return Some(if is_negative { -number } else { number });
            }
        }
        None
    })
}

/// Whether a claim with these parts holds.
fn holds(parts: &[bool]) -> &'static str {
    match parts.iter().filter(|holds| **holds).count() {
        _ if parts.is_empty() => "not comparable",
        0 => "no",
        count if count == parts.len() => "yes",
        _ => "in part",
    }
}

pub(crate) fn page(outcomes: &[(&Experiment, Filed)]) -> String {
    let mut text = "| claim | the paper | here | holds | measured |\n|---|---|---|---|---|\n".to_owned();
    for row in rows() {
        let answers: Vec<&str> = outcomes
            .iter()
            .flat_map(|(_, filed)| &filed.outcome.answers)
            .filter(|answer| answer.claim == row.claim)
            .map(|answer| answer.ours.as_str())
            .collect();
        let (ours, verdict) = match (row.ours)(Answer(&answers.join("; "))) {
            Some((ours, parts)) => (ours, holds(&parts)),
            None => ("not measured".to_owned(), "–"),
        };
        let section = outcomes.iter().find(|(experiment, _)| experiment.name == row.experiment);
        let place = section.map_or_else(String::new, |(experiment, filed)| {
            format!("[{}](#{}) {}", experiment.name, anchor(experiment), filed.measured)
        });
        let _ = writeln!(
            text,
            "| {}: {} | {} | {ours} | {verdict} | {} |",
            row.claim,
            row.about,
            row.theirs,
            place.trim_end()
        );
    }
    text
}

fn rows() -> impl Iterator<Item = &'static Row> {
    memc3::ROWS.iter().chain(klru::ROWS).chain(fleec::ROWS).chain(mica::ROWS).chain(facebook::ROWS)
}

/// How a heading of a section is linked to.
fn anchor(experiment: &Experiment) -> String {
    format!("{}-{}", experiment.name, experiment.claims.join("-").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{Answer, figures, holds, page, rows};
    use crate::claims::CLAIMS;
    use crate::document::read_all;
    use std::path::Path;

    #[test]
    fn numbers_are_found_without_spreads_and_names() {
        let found: Vec<f64> =
            figures("memc3 4.70 ± 0.83, -0.4 points; p95 1,000 (+31 %), 0.4-0.6.").collect();
        assert_eq!(found, [4.7, -0.4, 1000.0, 31.0, 0.4, 0.6]);
        assert_eq!(Answer("a 1; b 2 / 3").after("b"), Some([2.0, 3.0]));
        assert_eq!(Answer("a 1; b 2").after::<2>("b"), None);
        assert_eq!(Answer("a 1; b 2").after::<1>("c"), None);
    }

    #[test]
    fn a_claim_holds_whole_in_part_or_not() {
        assert_eq!(holds(&[true, true]), "yes");
        assert_eq!(holds(&[true, false]), "in part");
        assert_eq!(holds(&[false]), "no");
        assert_eq!(holds(&[]), "not comparable");
    }

    #[test]
    fn every_claim_has_a_line_and_every_line_finds_its_figures_in_what_was_filed() {
        let lines: Vec<&str> = rows().map(|row| row.claim).collect();
        assert_eq!(lines, CLAIMS.iter().map(|claim| claim.id).collect::<Vec<_>>());
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
        let outcomes = read_all(&docs).unwrap();
        let text = page(&outcomes);
        let missing: Vec<&str> = text.lines().filter(|line| line.contains("not measured")).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
