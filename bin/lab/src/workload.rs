//! Workloads and traces as the command line names them.

use clap::ValueEnum;
use guira_workload::Recipe;
use guira_workload::trace::{Broken, FORMATS};

use guira_cli::failure::Failure;

/// What a broken line of a trace leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrokenLine {
    /// Its number and what is wrong with it are shown, and nothing is done.
    Refuse,
    /// It is left out.
    Skip,
}

impl From<BrokenLine> for Broken {
    fn from(line: BrokenLine) -> Self {
        match line {
            BrokenLine::Refuse => Self::Refuse,
            BrokenLine::Skip => Self::Skip,
        }
    }
}

/// The workload written as `NAME[:key=value,…]`.
pub(crate) fn recipe(text: &str) -> Result<Recipe, Failure> {
    Recipe::parse(text, &|path| std::fs::read_to_string(path))
        .map_err(|error| Failure::usage(error.to_string()))
}

/// The formats of traces for a help text, one a line.
pub(crate) fn formats() -> String {
    FORMATS.iter().map(|(_, name, about)| format!("  {name:<15} {about}\n")).collect()
}
