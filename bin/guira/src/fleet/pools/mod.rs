//! `guira fleet`: pools in etcd, and the servers that serve their slots.

mod course;
mod create;
mod drain;
mod join;
mod replace;
mod resize;
mod rules;
mod shares;
mod status;
mod upgrade;
mod weight;

use crate::fleet::etcd::EtcdArgs;
use crate::lab::{self, Words};
use guira_cli::failure::Failure;
use guira_cli::units::Span;
use guira_control::{Etcd, EtcdError, Registration, Rules, Store, View};
use std::sync::Arc;

/// How often etcd is asked that does not answer.
const TRIES: usize = 3;

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
    /// Give a slot to an empty server: its keys are misses then.
    Replace(replace::Args),
    /// Give a slot to a spare that is filled from its server first: its keys are kept.
    Drain(drain::Args),
    /// Give a pool more or fewer slots: the keys that move are kept.
    Resize(resize::Args),
    /// Give a pool more slots, which spares take.
    Add(resize::AddArgs),
    /// Have the members upgrade their servers, one after the other.
    Upgrade(upgrade::Args),
    /// Give slots weights, for hashes that know them.
    Weight(weight::Args),
    /// Show or change when servers are replaced, and how many stay.
    Rules(rules::Args),
    /// Start a small region on this machine to look at and to break: users, nodes, routers, etcd and a database.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Up(Words),
    /// Break something of the region that `up` has started.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Break(Words),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let etcd = || args.etcd.options();
    let store = || Ok::<_, Failure>(Store::new(Etcd::new(etcd()?, Arc::default())?));
    match &args.task {
        Task::Up(words) => lab::pass_on(&["fleet", "up"], words),
        Task::Break(words) => lab::pass_on(&["fleet", "break"], words),
        Task::Create(task) => create::run(task, &mut store()?),
        Task::Join(task) => join::run(task, etcd()?),
        Task::Status(task) => status::run(task, &mut store()?),
        Task::Replace(task) => replace::run(task, &mut store()?),
        Task::Drain(task) => drain::run(task, &mut store()?),
        Task::Resize(task) => resize::run(task, &mut store()?),
        Task::Add(task) => resize::add(task, &mut store()?),
        Task::Upgrade(task) => upgrade::run(task, &mut store()?),
        Task::Weight(task) => weight::run(task, &mut store()?),
        Task::Rules(task) => rules::run(task, &mut store()?),
    }
}

/// What is in etcd: one that has much to do may not answer at once.
fn view(store: &mut Store) -> Result<View, Failure> {
    for _ in 1..TRIES {
        match store.view() {
            Err(EtcdError::Unreachable { .. }) => {}
            answer => return Ok(answer?),
        }
    }
    Ok(store.view()?)
}

/// The seconds of a hold-down.
fn hold_down_s(time: Span) -> Result<u32, Failure> {
    let seconds = u32::try_from(time.0.as_secs()).ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| Failure::usage("--hold-down is at least one second"))
}

/// Rules as they are told.
fn told(rules: Rules) -> String {
    let Rules { hold_down_s, at_once, minimum } = rules;
    let minimum = if minimum == 0 { String::new() } else { format!(", at least {minimum} servers") };
    format!("replaced after {hold_down_s} s, {at_once} at once{minimum}")
}

/// So many of these spares as `check` finds fit, and why the first of the others was not. One that has died is registered until its lease ends.
fn fit<'v>(
    spares: impl Iterator<Item = &'v Registration>,
    most: usize,
    check: impl Fn(&Registration) -> Result<(), Failure>,
) -> (Vec<&'v Registration>, Option<Failure>) {
    let mut unfit = None;
    let is_fit = |spare: &&Registration| match check(spare) {
        Ok(()) => true,
        Err(failure) => {
            unfit.get_or_insert(failure);
            false
        }
    };
    let fit = spares.filter(is_fit).take(most).collect();
    (fit, unfit)
}

/// The spare of this name, or the first one that `check` finds fit.
fn spare<'v>(
    view: &'v View,
    pool: &str,
    server: Option<&str>,
    check: impl Fn(&Registration) -> Result<(), Failure>,
) -> Result<&'v Registration, Failure> {
    let named = view.spares(pool).filter(|one| server.is_none_or(|server| one.server == server));
    let (fit, unfit) = fit(named, 1, check);
    if let [spare] = fit[..] {
        return Ok(spare);
    }
    let there_is_none = match server {
        Some(server) => format!("{server} is no spare of pool {pool}"),
        None => format!("pool {pool} has no spare"),
    };
    Err(unfit.unwrap_or_else(|| {
        Failure::usage(format!("{there_is_none}: a spare is registered, empty and without a slot"))
    }))
}
