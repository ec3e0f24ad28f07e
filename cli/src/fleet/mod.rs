//! `guira fleet`: pools in etcd, and the servers that serve their slots.

mod break_;
mod create;
mod join;
mod replace;
mod status;
mod up;

use crate::etcd::EtcdArgs;
use crate::failure::Failure;
use guira_control::{Etcd, Store};
use std::sync::Arc;

const NOTES: &str = "A pool has slots, to which keys belong, and each slot has a server. A member, `guira fleet join`, runs beside
each server and registers it while it answers. Servers without a slot are spares: they are emptied, and
take slots that nobody has, or whose servers have been gone for the pool's hold-down. Routers follow
pools that their configurations inherit from: {\"pools\": {\"cache\": {\"inherit\": \"etcd:cache\"}}}.

Examples:
  guira fleet --etcd http://etcd:2379 create cache --slots 4
  guira fleet --etcd http://etcd:2379 join --pool cache --server 10.0.0.1:11211 --via 127.0.0.1:11211
  guira router --etcd http://etcd:2379 --config-str '{\"route\": \"PoolRoute|etcd:cache\"}' -p 5000
  guira fleet --etcd http://etcd:2379 status";

/// Arguments of `guira fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Make a pool of slots that have no servers yet.
    Create(create::Args),
    /// Register a server while it answers, until told to end.
    Join(join::Args),
    /// Show pools: who serves which slot, who is gone, and who is spare.
    Status(status::Args),
    /// Give a slot to another server.
    Replace(replace::Args),
    /// Start a small region on this machine, to be looked at and broken: users, nodes, routers, etcd and a database.
    Up(up::Args),
    /// Break something of the region that `up` has started.
    Break(break_::Args),
    /// Become a program that ends with the process that has started it (used by `up`).
    #[command(hide = true)]
    Child(up::ChildArgs),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.task {
        Task::Up(task) => return up::run(task),
        Task::Break(task) => return break_::run(task),
        Task::Child(task) => return up::become_child(task),
        _ => {}
    }
    let etcd = args.etcd.options()?;
    let store = || Etcd::new(etcd.clone(), Arc::default()).map(Store::new).map_err(Failure::from);
    match &args.task {
        Task::Create(task) => create::run(task, &mut store()?),
        Task::Join(task) => join::run(task, etcd),
        Task::Status(task) => status::run(task, &mut store()?),
        Task::Replace(task) => replace::run(task, &mut store()?),
        Task::Up(_) | Task::Break(_) | Task::Child(_) => unreachable!("they need no etcd"),
    }
}
