//! `guira fleet rules`.

use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_control::{Rules, Store};

/// Arguments of `guira fleet rules`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// Time that a server must be down before a spare takes its slot.
    #[arg(long, value_name = "TIME")]
    hold_down: Option<Span>,
    /// Maximum servers replaced within that time; 0: never replace. If more than this, and more than a tenth of the
    /// pool, are down, none is replaced.
    #[arg(long, value_name = "N")]
    at_once: Option<u32>,
    /// Minimum servers that drain, resize and upgrade leave in service.
    #[arg(long, value_name = "N")]
    minimum: Option<u32>,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let mut pool = view.pool(&args.pool)?.clone();
    let before = pool.rules;
    pool.rules = Rules {
        hold_down_s: args.hold_down.map(super::hold_down_s).transpose()?.unwrap_or(before.hold_down_s),
        at_once: args.at_once.unwrap_or(before.at_once),
        minimum: args.minimum.unwrap_or(before.minimum),
    };
    if pool.rules != before {
        store.change(&view, &args.pool, &pool, &[], None)?;
    }
    print(&format!("pool {}: {}\n", args.pool, super::describe(pool.rules)))
}
