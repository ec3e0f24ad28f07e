//! docs/results/papers.md, written from what was measured.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::claims::{CLAIMS, PAPERS};
use crate::experiment::{EXPERIMENTS, Experiment, Failure};
use crate::outcome::{Answer, Filed, Table};
use crate::results;

const HEAD: &str = "# What the papers claim, measured again

Written by `make papers`: change `papers`, and run `cargo run --release --manifest-path papers/Cargo.toml
-- --render` to write this page from what was measured before. A figure is the mean of several runs ± their
standard deviation. \"One core\" is one of the machine's two, which other machines disturb: ratios within a
table were measured alternating; absolute figures are of this machine.

## Results

Each line compares filed figures, and says whether the claim holds: yes, no, or in part, if some of its parts do. The
parts are in `papers/src/results`. The last column links to the experiment, with the date of its measurement.

";

const REMARKS: &str =
    "A remark belongs to the figures that it was filed with, at the date of its experiment.";

/// The document, from what lies in the folder `papers`.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn render(docs: &Path) -> Result<String, Failure> {
    let outcomes = read_all(docs)?;
    let mut text = HEAD.to_owned() + &results::page(&outcomes);
    for paper in PAPERS {
        let of_paper = |claim: &str| claim.starts_with(paper.letter);
        let _ = write!(
            text,
            "\n## {}\n\n{REMARKS}\n\n| claim | the paper | here | remark |\n|---|---|---|---|\n",
            paper.title
        );
        for claim in CLAIMS.iter().filter(|claim| of_paper(claim.id)) {
            let answers: Vec<&Answer> = outcomes
                .iter()
                .flat_map(|(_, filed)| &filed.outcome.answers)
                .filter(|answer| answer.claim == claim.id)
                .collect();
            text.push_str(&row(claim.id, claim.about, claim.theirs, &answers));
        }
        for (experiment, filed) in &outcomes {
            if experiment.claims.iter().any(|claim| of_paper(claim)) {
                text.push_str(&section(experiment, filed));
            }
        }
    }
    Ok(text)
}

/// What was filed of all experiments that were run.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn read_all(docs: &Path) -> Result<Vec<(&'static Experiment, Filed)>, Failure> {
    let mut outcomes = Vec::new();
    for experiment in EXPERIMENTS {
        if let Some(outcome) = read(&docs.join("papers").join(format!("{}.json", experiment.name)))? {
            outcomes.push((*experiment, outcome));
        }
    }
    Ok(outcomes)
}

/// What an experiment found, if it was run.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn read(path: &Path) -> Result<Option<Filed>, Failure> {
    match fs::read(path) {
        Ok(json) => serde_json::from_slice(&json).map(Some).map_err(Failure::Json),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Failure::File { path: path.to_owned(), source }),
    }
}

/// A claim beside what was found, by one experiment or by several.
fn row(id: &str, about: &str, theirs: &str, answers: &[&Answer]) -> String {
    let summary = |of: fn(&Answer) -> &str, between: &str| {
        answers.iter().map(|answer| of(answer)).collect::<Vec<_>>().join(between)
    };
    let ours =
        if answers.is_empty() { "not measured".to_owned() } else { summary(|answer| &answer.ours, "; ") };
    format!("| {id}: {about} | {theirs} | {ours} | {} |\n", summary(|answer| &answer.remark, " "))
}

/// The part of the document about one experiment.
pub(crate) fn section(experiment: &Experiment, filed: &Filed) -> String {
    let outcome = &filed.outcome;
    let mut text = format!(
        "\n### {} ({})\n\n{}\n",
        experiment.name,
        experiment.claims.join(", "),
        wrapped(&format!("{}. {} Measured {}.", experiment.about, outcome.how, filed.measured))
    );
    for one in &outcome.tables {
        text.push_str(&table(one));
    }
    for chart in &outcome.charts {
        let _ = write!(text, "\n![{}](papers/{}.svg)\n", chart.title, chart.name);
    }
    text
}

/// Prose in lines of up to 120 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 120 {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

fn table(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("\n{}\n\n{}", wrapped(&table.title), line(&table.head));
    text.push_str(&format!("|{}\n", "---|".repeat(table.head.len())));
    for row in &table.rows {
        text.push_str(&line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{row, table};
    use crate::claims::{CLAIMS, PAPERS};
    use crate::experiment::EXPERIMENTS;
    use crate::outcome::{Answer, Table};

    #[test]
    fn every_claim_is_of_a_paper_and_every_experiment_answers_claims_that_exist() {
        for claim in CLAIMS {
            assert!(PAPERS.iter().any(|paper| claim.id.starts_with(paper.letter)), "{}", claim.id);
        }
        for experiment in EXPERIMENTS {
            for name in experiment.claims {
                assert!(CLAIMS.iter().any(|claim| claim.id == *name), "{}: {name}", experiment.name);
            }
        }
    }

    #[test]
    fn no_two_experiments_have_one_name_or_answer_one_claim() {
        for (index, experiment) in EXPERIMENTS.iter().enumerate() {
            for other in &EXPERIMENTS[..index] {
                assert_ne!(experiment.name, other.name);
            }
        }
    }

    #[test]
    fn a_row_says_when_nothing_was_measured() {
        assert_eq!(row("M1", "lookups", "5 M/s", &[]), "| M1: lookups | 5 M/s | not measured |  |\n");
        let answer = |ours: &str, remark: &str| Answer {
            claim: "M1".into(),
            ours: ours.into(),
            remark: remark.into(),
        };
        let both = [&answer("9 M/s", "Newer."), &answer("8 of 9", "Not all.")];
        assert!(row("M1", "lookups", "5 M/s", &both).contains("| 9 M/s; 8 of 9 | Newer. Not all. |"));
    }

    #[test]
    fn a_table_is_written_in_markdown() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text =
            table(&Table { title: "T".into(), head: cells(["a", "b"]), rows: vec![cells(["1", "2"])] });
        assert_eq!(text, "\nT\n\n| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
