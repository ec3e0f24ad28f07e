//! The commands of the laboratory: this program executes `guira-lab` for them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Subcommand;
use guira_cli::LAB;
use guira_cli::failure::Failure;

/// What is passed on. Each variant takes all words behind it, `--help` among them.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Generate load on a server and measure it.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Load(Words),
    /// Replay a recorded trace on caches and compare them at equal resident size.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Replay(Words),
    /// Simulate eviction policies on a trace and recommend a memory size.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Sim(Words),
    /// Estimate the number of nodes for a load, and the cost of losing one.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Capacity(Words),
    /// Benchmark servers by operations per CPU second.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench(Words),
}

/// All words behind a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// See --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Becomes `guira-lab`; returns if that fails.
pub(crate) fn run(task: &Task) -> Result<(), Failure> {
    let (name, words) = match task {
        Task::Load(words) => ("load", words),
        Task::Replay(words) => ("replay", words),
        Task::Sim(words) => ("sim", words),
        Task::Capacity(words) => ("capacity", words),
        Task::Bench(words) => ("bench", words),
    };
    pass_on(&[name], words)
}

/// Becomes `guira-lab` with these words; returns if that fails.
pub(crate) fn pass_on(command: &[&str], words: &Words) -> Result<(), Failure> {
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name(LAB));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(LAB));
    // Usage and errors are to name the program that was called.
    let error = Command::new(&program).arg0(crate::NAME).args(command).args(&words.words).exec();
    if error.kind() != std::io::ErrorKind::NotFound {
        return Err(Failure::caused(format!("cannot start {}", program.display()), error));
    }
    Err(Failure::new(format!(
        "guira {} needs {LAB}, which is neither in the folder of this program nor in PATH: install the package {LAB}, or \
         build it with `cargo build --release -p {LAB}`",
        command.join(" ")
    )))
}
