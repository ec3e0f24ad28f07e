//! `guira fleet create`.

use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_control::{Pool, Rules, Store};

/// Arguments of `guira fleet create`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its name.
    pool: String,
    /// How many slots it has.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// How long a server has to be gone before a spare takes its slot.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    hold_down: Span,
    /// How many are replaced within that time; when more are gone, or a tenth of the pool, none is. 0: none ever is.
    #[arg(long, value_name = "N", default_value = "1")]
    at_once: u32,
    /// The fewest servers that drain, resize and upgrade leave in service.
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
    print(&format!("pool {} has {} slots, which have no servers yet\n", args.pool, args.slots))
}
