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

/// Attempts to read etcd.
const TRIES: usize = 3;

const NOTES: &str =
    "Keys belong to the slots of a pool, and each slot has a server. On each server's host, a member
(`guira fleet join`) registers the server while it replies. Servers without a slot are flushed and
become spares. A spare takes an empty slot, or the slot of a server that has been down for the
pool's hold-down. Routers follow the pools that their configurations name:
{\"pools\": {\"cache\": {\"inherit\": \"etcd:cache\"}}}.

Examples:
  guira fleet --etcd http://etcd:2379 create cache --slots 4
  guira fleet --etcd http://etcd:2379 join --pool cache --server 10.0.0.1:11211 --zone rack-7
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
    /// Create a pool of empty slots.
    Create(create::Args),
    /// Register a server while it replies, until SIGTERM or SIGINT.
    Join(join::Args),
    /// Show pools, their servers and spares.
    Status(status::Args),
    /// Give a slot to an empty spare; its keys miss until they are filled.
    Replace(replace::Args),
    /// Give a slot to a spare that is filled from the former server; keys are kept.
    Drain(drain::Args),
    /// Change the number of slots; keys that move are kept.
    Resize(resize::Args),
    /// Add slots, which spares take; keys that move are kept.
    Add(resize::AddArgs),
    /// Upgrade the servers one after the other, through their members.
    Upgrade(upgrade::Args),
    /// Set weights of slots, for hashes that support them.
    Weight(weight::Args),
    /// Show or change the rules for replacing servers.
    Rules(rules::Args),
    /// Start a demonstration on this machine: users, nodes, routers, etcd and a database.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Up(Words),
    /// Cause a fault in the region that `up` started.
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

/// Reads etcd, with retries: a busy etcd may not reply in time.
fn view(store: &mut Store) -> Result<View, Failure> {
    for _ in 1..TRIES {
        match store.view() {
            Err(EtcdError::Unreachable { .. }) => {}
            answer => return Ok(answer?),
        }
    }
    Ok(store.view()?)
}

fn hold_down_s(time: Span) -> Result<u32, Failure> {
    let seconds = u32::try_from(time.0.as_secs()).ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| Failure::usage("--hold-down must be at least 1s"))
}

/// Rules as they are shown.
fn describe(rules: Rules) -> String {
    let Rules { hold_down_s, at_once, minimum } = rules;
    let minimum = if minimum == 0 { String::new() } else { format!(", at least {minimum} servers") };
    format!("replaced after {hold_down_s} s, {at_once} at once{minimum}")
}

/// Up to `most` of these spares that `check` accepts, and its error for the first other one. A dead server stays
/// registered until its lease ends.
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

/// The spare of this name, or the first one that `check` accepts.
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
    let problem = match server {
        Some(server) => format!("{server} is not a spare of pool {pool}"),
        None => format!("pool {pool} has no spare"),
    };
    Err(unfit.unwrap_or_else(|| {
        Failure::usage(format!("{problem}: run `guira fleet join` on the host of a server without a slot"))
    }))
}
