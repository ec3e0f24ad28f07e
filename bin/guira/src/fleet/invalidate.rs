//! `guira invalidate`: deletes from caches what a database changes.

use std::path::{Path, PathBuf};

use guira_invalidator::{Config, ConfigError, Part, Running, Wish};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output::print;

/// Why a replay is not complete.
const INTERRUPTED: &str = "a signal ended the replay before everything was delivered";

const NOTES: &str =
    "It reads the log of a MariaDB or MySQL as a replica does, or that of a PostgreSQL from a replication
slot, finds the keys that each committed transaction concerns, and has every target delete them: routers
or servers of all clusters. Keys stand in comments of statements, /* mc: user:7 user-list */ (MariaDB,
MySQL), in messages, pg_logical_emit_message(true, 'mc', 'user:7 user-list') (PostgreSQL), or are made of
changed rows by templates such as user:{id}.
Rows that are inserted into an outbox table name keys, too.
The position in the log is saved once all targets have acknowledged what is before it, or have it in
their spools.

`guira invalidate replay` reads a part of the log once more, such as after caches were put back from an
old copy, of a PostgreSQL as far as its slot has it; whoever tails the log meanwhile is not disturbed.

Example of a configuration (docs/guide/invalidator.md has all of it):
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

For a MySQL it is [source.mysql] with the same lines; its log needs gtid_mode = ON and
binlog_rows_query_log_events = ON. If it has no TLS, it wants public-key-file or ask-public-key too.

In the place of [source.mariadb], for a PostgreSQL with wal_level = logical; its templates need no database:
  [source.postgres]
  address = \"db:5432\"
  database = \"shop\"
  user = \"guira\"
  password-file = \"/etc/guira/db-password\"
  slot = \"guira\"
  publication = \"guira\"

SIGHUP has the configuration read anew; one that is wrong leaves everything as it was. Certificates and
passwords are read for each connection.

Change events of Debezium are sent to [source.debezium] listen = \"unix:/run/guira/events\", as lines of JSON.

Exit codes: 2 if the configuration is wrong, 1 if the log cannot be read any further, such as after a gap.";

/// Arguments of `guira invalidate`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Option<Task>,
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Only say whether the configuration is right, without connecting to anything.
    #[arg(long)]
    check: bool,
    /// Log more: -v what happens, -vv details.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Read a part of the log once more and deliver its deletes; positions and spools are left alone.
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where to begin: a position as the log and the position file have it, such as 0-1-270.
    #[arg(long, value_name = "POSITION")]
    from: String,
    /// Where to end; without it, at the present end of the log.
    #[arg(long, value_name = "POSITION")]
    to: Option<String>,
    /// The only target that is given the deletes; without it, all of them.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Log more: -v what happens, -vv details.
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

/// Reads a configuration whose files can be used as well.
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
    let result = running.run(|| match signals.pending().next() {
        None => Wish::GoOn,
        Some(SIGHUP) => Wish::Reload(Box::new(load(path))),
        Some(_) => Wish::Stop,
    });
    log::flush();
    result.map_err(|fault| Failure::caused("the invalidator stops", fault))
}

fn checked(config: &Config) -> String {
    let text = "the configuration is right\n";
    match config.longest_key() {
        (_, None) => text.to_owned(),
        (longest, Some(name)) => format!(
            "{text}keys may have up to {longest} bytes: the prefix of target {name} takes the rest of 250\n"
        ),
    }
}

fn announce(running: &Running) -> Result<(), Failure> {
    match running.admin_address() {
        Some(address) => print(&format!("listening on admin {address}\n")),
        None => Ok(()),
    }
}
