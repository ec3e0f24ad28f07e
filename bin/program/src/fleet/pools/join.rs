//! `guira fleet join`.

use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::units::Span;
use guira_client::text::Endpoint;
use guira_control::{EtcdOptions, Member, MemberOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::time::Duration;

/// Longest wait for a reply of the server.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Arguments of `guira fleet join`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool of the server.
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// Address of the server for routers: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "SERVER")]
    server: Endpoint,
    /// Address of the server for this member [default: that of --server]
    #[arg(long, value_name = "SERVER")]
    via: Option<Endpoint>,
    /// Failure domain of the server, such as a rack. Spares in the zone of the failed server are preferred.
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Time that the registration outlives this process.
    #[arg(long, value_name = "TIME", default_value = "15s")]
    lease: Span,
    /// Command for /bin/sh with which `guira fleet upgrade` upgrades this server, such as `systemctl reload guira`.
    #[arg(long, value_name = "COMMAND")]
    upgrade_command: Option<String>,
    /// Log more: -v what happens, -vv details.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(args: &Args, etcd: EtcdOptions) -> Result<(), Failure> {
    log::start(args.verbose);
    if args.lease.0 < Duration::from_secs(2) {
        return Err(Failure::usage("--lease must be at least 2s"));
    }
    let target = self::target(args)?;
    let (pool, server, zone) = (args.pool.clone(), args.server.clone(), args.zone.clone());
    let (lease, upgrade_command) = (args.lease.0, args.upgrade_command.clone());
    let mut member = Member::new(MemberOptions { etcd, pool, target, server, zone, lease, upgrade_command })?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::system("cannot wait for signals"))?;
    member.run(|| signals.pending().next().is_some());
    Ok(())
}

fn target(args: &Args) -> Result<guira_client::text::Target, Failure> {
    args.access.target(args.via.as_ref().unwrap_or(&args.server), TIMEOUT)
}
