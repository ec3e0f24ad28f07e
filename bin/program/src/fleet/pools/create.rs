//! `guira fleet create`.

use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_control::{Pool, Rules, Store};

/// Arguments of `guira fleet create`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the pool.
    pool: String,
    /// Number of slots.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// Time that a server must be down before a spare takes its slot.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    hold_down: Span,
    /// Maximum servers replaced within that time; 0: never replace. If more than this, and more than a tenth of the
    /// pool, are down, none is replaced.
    #[arg(long, value_name = "N", default_value = "1")]
    at_once: u32,
    /// Minimum servers that drain, resize and upgrade leave in service.
    #[arg(long, value_name = "N", default_value = "0")]
    minimum: u32,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let hold_down_s = super::hold_down_s(args.hold_down)?;
    let pool = Pool::of_empty_slots(
        args.slots as usize,
        Rules { hold_down_s, at_once: args.at_once, minimum: args.minimum },
    );
    store.create(&args.pool, &pool)?;
    print(&format!("created pool {} with {} empty slots\n", args.pool, args.slots))
}
