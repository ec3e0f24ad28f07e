//! `guira fleet replace`.

use super::course;
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::Store;

/// Arguments of `guira fleet replace`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// The slot.
    slot: usize,
    /// The spare that takes the slot [default: the first one that replies]
    #[arg(long, value_name = "SERVER")]
    with: Option<String>,
    /// Fail unless this server has the slot, for example because the leader has already replaced it.
    #[arg(long, value_name = "SERVER")]
    from: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Print the plan and exit.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(&args.pool)?;
    let slots = pool.slots.len();
    let Some(slot) = pool.slots.get(args.slot) else {
        return Err(Failure::usage(format!("pool {} has the slots 0 to {}", args.pool, slots - 1)));
    };
    if slot.handover.is_some() {
        return Err(Failure::usage(format!(
            "slot {} is being drained: run `guira fleet drain` to finish the drain",
            args.slot
        )));
    }
    if let Some(from) = args.from.as_deref().filter(|from| slot.server.as_deref() != Some(from)) {
        let server = slot.server.as_deref().unwrap_or("no server");
        return Err(Failure::usage(format!("slot {} is served by {server}, not by {from}", args.slot)));
    }
    let servers = course::servers(&args.access, pool)?;
    let check = |server: &str| servers.greet(server).map_err(course::failed(server));
    let spare = super::spare(&view, &args.pool, args.with.as_deref(), |spare| check(&spare.server))?;
    let former = slot.server.as_deref().unwrap_or("no server");
    let what = format!(
        "slot {} of pool {}: {former} -> {}. The new server is empty: the keys of the slot, 1 of {slots}, miss until they are filled. No other keys move\n",
        args.slot, args.pool, spare.server
    );
    print(&what)?;
    if !args.dry_run {
        course::empty(store, &servers, &[spare])?;
        store.give(&view, &args.pool, args.slot, spare, None)?;
    }
    Ok(())
}
