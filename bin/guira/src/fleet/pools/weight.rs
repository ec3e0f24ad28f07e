//! `guira fleet weight`.

use super::course;
use super::shares::{self, Hashing};
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Slot, Store};

/// Arguments of `guira fleet weight`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// The slot, or `all` slots.
    slot: Which,
    /// Its weight, 0 to 1; none takes the weights of all slots away.
    weight: Weight,
    #[command(flatten)]
    hashing: Hashing,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    All,
    One(usize),
}

#[derive(Clone, Copy, Debug)]
struct Weight(Option<f64>);

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Which::All),
            _ => text.parse().map(Which::One).map_err(|_| "give the number of a slot, or all".to_owned()),
        }
    }
}

impl std::str::FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Weight(None));
        }
        let weight = text.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
        weight
            .map(|weight| Weight(Some(weight)))
            .ok_or_else(|| "give a number from 0 to 1, or none".to_owned())
    }
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(&args.pool)?;
    if pool.resize.is_some() {
        return Err(Failure::usage(format!("pool {} is being resized: end that first", args.pool)));
    }
    course::check_no_drain(&args.pool, pool)?;
    let mut changed = pool.clone();
    weigh(&args.pool, &mut changed.slots, args.slot, args.weight.0)?;
    if changed.slots.iter().all(|slot| slot.weight == Some(0.0)) {
        return Err(Failure::usage(format!("pool {} would have no slot with a weight above 0", args.pool)));
    }
    let mut text = format!("pool {}:", args.pool);
    match (args.hashing.selector(&args.pool, &pool.slots), args.hashing.selector(&args.pool, &changed.slots))
    {
        (Ok(before), Ok(after)) => {
            let share = shares::percent(shares::share(shares::moves(&before, &after).len()));
            text.push_str(&format!(
                " {share} of the keys by {} move, and are misses until they are filled. What is left of them where they were is found again, and may be outdated, if the weight is taken back before it expires\n",
                args.hashing.name()
            ));
        }
        (_, Err(error)) => return Err(error),
        (Err(error), _) => text.push_str(&format!(" which keys move is not known, since before {error}\n")),
    }
    if !args.dry_run {
        store.change(&view, &args.pool, &changed, &[], None)?;
    }
    print(&text)
}

/// All slots have a weight, or none has: those that had none count as 1.
fn weigh(pool: &str, slots: &mut [Slot], which: Which, weight: Option<f64>) -> Result<(), Failure> {
    match (which, weight) {
        (Which::All, weight) => slots.iter_mut().for_each(|slot| slot.weight = weight),
        (Which::One(_), None) => {
            return Err(Failure::usage("all slots have a weight, or none has: say all none"));
        }
        (Which::One(number), Some(weight)) => {
            slots.iter_mut().for_each(|slot| slot.weight = slot.weight.or(Some(1.0)));
            let last = slots.len() - 1;
            let slot = slots.get_mut(number);
            let slot =
                slot.ok_or_else(|| Failure::usage(format!("pool {pool} has the slots 0 to {last}")))?;
            slot.weight = Some(weight);
        }
    }
    Ok(())
}
