//! `guira fleet up` and `guira fleet break`: a region on this machine, to look at and to break.

mod break_;
mod up;

pub(crate) use up::{ChildArgs, become_child};

use guira_cli::failure::Failure;

/// Users have read, or caches have, what they must not.
#[derive(Debug, thiserror::Error)]
#[error("{0} answers or values in caches are wrong")]
pub(crate) struct WrongAnswers(usize);

/// Arguments of `fleet`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Start a small region on this machine to look at and to break: users, nodes, routers, etcd and a database.
    Up(up::Args),
    /// Break something of the region that `up` has started.
    Break(break_::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.task {
        Task::Up(task) => up::run(task),
        Task::Break(task) => break_::run(task),
    }
}
