//! `guira invalidate`: deletes changed keys from caches.

use std::path::{Path, PathBuf};

use guira_invalidator::{Command, Config, ConfigError, Part, Running};
use signal_hook::consts::{SIGHUP, SIGINT, SIGSYS, SIGTERM};
use signal_hook::iterator::Signals;

use crate::node::process::watch_refusals;
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output::print;

/// The error of an incomplete replay.
const INTERRUPTED: &str = "a signal stopped the replay before all deletes were delivered";

const NOTES: &str =
    "The invalidator reads the log of MariaDB or MySQL as a replica, or that of PostgreSQL from a
replication slot. It finds the keys of each committed transaction and sends deletes to all
targets: the routers or servers of all clusters. Keys come from
- comments of statements (MariaDB, MySQL): /* mc: user:7 user-list */
- messages (PostgreSQL): pg_logical_emit_message(true, 'mc', 'user:7 user-list')
- changed rows, by templates such as user:{id}
- rows that are inserted into an outbox table
The position in the log is saved after all targets have acknowledged or spooled the deletes
before it.

`guira invalidate replay` reads a part of the log again, for example after caches were restored
from an old copy. A running invalidator is not affected. PostgreSQL keeps the log only as far as
the slot reaches.

Example of a configuration (see docs/guide/invalidator.md):
  position = \"/var/lib/guira/invalidator.position\"
  admin = \"127.0.0.1:9160\"
  [source.mariadb]
  address = \"db:3306\"
  user = \"guira\"
  password-file = \"/etc/guira/db-password\"
  server-id = 4242
  [[template]]
  database = \"shop\"
  table = \"users\"
  keys = [\"user:{id}\"]
  [[target]]
  name = \"east\"
  address = \"router-east:11211\"
  [[target]]
  name = \"west\"
  address = \"router-west:11211\"

For MySQL, use [source.mysql] with the same lines. The database needs gtid_mode = ON and
binlog_rows_query_log_events = ON. Without TLS, also set public-key-file or ask-public-key.

For PostgreSQL with wal_level = logical, use this source; templates need no database:
  [source.postgres]
  address = \"db:5432\"
  database = \"shop\"
  user = \"guira\"
  password-file = \"/etc/guira/db-password\"
  slot = \"guira\"
  publication = \"guira\"

SIGHUP reloads the configuration; an invalid one is rejected and the current one stays in use.
Certificates and passwords are read for each connection.

Debezium sends change events, as lines of JSON, to the socket of this source:
  [source.debezium]
  listen = \"unix:/run/guira/events\"

Exit codes: 2 if the configuration is invalid, 1 if the log cannot be read further, such as after
a gap.";

/// Arguments of `guira invalidate`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Option<Task>,
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
    /// Log more: -v events, -vv details.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Read a part of the log again and deliver its deletes, without changing positions or spools.
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Start position, as in the log and the position file, such as 0-1-270.
    #[arg(long, value_name = "POSITION")]
    from: String,
    /// End position [default: the current end of the log]
    #[arg(long, value_name = "POSITION")]
    to: Option<String>,
    /// Send deletes to this target only [default: all targets]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Log more: -v events, -vv details.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (&args.task, &args.config) {
        (Some(Task::Replay(args)), _) => replay(args),
        (None, Some(config)) => tail(args, config),
        (None, None) => Err(Failure::usage("--config is missing")),
    }
}

fn signals() -> Result<Signals, Failure> {
    Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))
}

fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let config = Config::load(&args.config)?;
    log::start(args.verbose);
    let mut signals = signals()?;
    let part = Part { from: &args.from, to: args.to.as_deref(), target: args.target.as_deref() };
    let replayed = guira_invalidator::replay(config, part, || signals.pending().next().is_some());
    log::flush();
    let replayed = replayed?;
    for (name, deletes) in &replayed.deletes {
        print(&format!("{name}: {deletes} deletes\n"))?;
    }
    if replayed.is_whole { Ok(()) } else { Err(Failure::new(INTERRUPTED)) }
}

/// Reads a configuration and checks its files.
fn load(path: &Path) -> Result<Config, ConfigError> {
    let config = Config::load(path)?;
    config.check_files()?;
    Ok(config)
}

fn tail(args: &Args, path: &Path) -> Result<(), Failure> {
    let config = load(path)?;
    if args.check {
        return print(&checked(&config));
    }
    log::start(args.verbose);
    // Before any thread starts, so that none of them takes the signals.
    let mut signals = signals()?;
    let running = guira_invalidator::start(config)?;
    announce(&running)?;
    watch_refusals(&signals);
    let result = running.run(|| match signals.pending().next() {
        None => Command::Continue,
        Some(SIGSYS) => {
            guira_sandbox::report();
            Command::Continue
        }
        Some(SIGHUP) => Command::Reload(Box::new(load(path))),
        Some(_) => Command::Stop,
    });
    log::flush();
    result.map_err(|fault| Failure::caused("the invalidator stopped", fault))
}

fn checked(config: &Config) -> String {
    let text = "the configuration is valid\n";
    match config.longest_key() {
        (_, None) => text.to_owned(),
        (longest, Some(name)) => {
            format!("{text}the maximum key length is {longest} bytes: 250 less the prefix of target {name}\n")
        }
    }
}

fn announce(running: &Running) -> Result<(), Failure> {
    match running.admin_address() {
        Some(address) => print(&format!("listening on admin {address}\n")),
        None => Ok(()),
    }
}
