//! Workloads and traces on the command line.

use clap::ValueEnum;
use guira_workload::Recipe;
use guira_workload::trace::{Broken, FORMATS};

use guira_cli::failure::Failure;

/// The action for an invalid line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrokenLine {
    /// Print the line's number and its error, and exit.
    Refuse,
    /// Skip the line.
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

/// The formats of traces for a help text, one per line.
pub(crate) fn formats() -> String {
    FORMATS.iter().map(|(_, name, about)| format!("  {name:<15} {about}\n")).collect()
}
