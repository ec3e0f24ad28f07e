//! `guira-lab docs`: writes the documents that are generated from tables in the code.

use std::fmt::Write as _;
use std::path::PathBuf;

use guira_cli::failure::Failure;
use guira_cli::whole;

const FILE: &str = "demonstration-metrics.md";

const HEAD: &str = "\
# Metrics of the region for demonstration

<!-- Made by `cargo xtask docs`: change the tables in lab/demo/src/metrics.rs instead. -->

`/metrics` of [`guira fleet up`](../guide/demonstration.md). Counters count since the start.

| name | meaning | labels | type |
|---|---|---|---|
";

/// Arguments of `guira-lab docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of the documents.
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    whole::write(&args.folder.join(FILE), &markdown()).map_err(Failure::system("cannot write the documents"))
}

fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for family in guira_demo::families() {
        let labels = family.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| `{}` | {} | {labels} | {} |", family.name, family.meaning, family.kind);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_is_current() {
        let document = include_str!("../../../docs/reference/demonstration-metrics.md");
        assert!(document == super::markdown(), "{} is not current: run cargo xtask docs", super::FILE);
    }
}
