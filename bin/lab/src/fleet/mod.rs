//! `guira fleet up` and `guira fleet break`: a demonstration on this machine, and faults in it.

mod break_;
mod up;

pub(crate) use up::{ChildArgs, become_child};

use guira_cli::failure::Failure;

/// Wrong replies, or wrong values in caches.
#[derive(Debug, thiserror::Error)]
#[error("{0} replies or cached values are wrong")]
pub(crate) struct WrongAnswers(usize);

/// Arguments of `fleet`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Start a demonstration on this machine: users, nodes, routers, etcd and a database.
    Up(up::Args),
    /// Cause a fault in the region that `up` started.
    Break(break_::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.task {
        Task::Up(task) => up::run(task),
        Task::Break(task) => break_::run(task),
    }
}
