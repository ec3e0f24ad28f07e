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
    /// The weight, 0 to 1, or `none`, which removes the weights of all slots.
    weight: Weight,
    #[command(flatten)]
    hashing: Hashing,
    /// Print the plan and exit.
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
            _ => text.parse().map(Which::One).map_err(|_| "use the number of a slot, or all".to_owned()),
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
            .ok_or_else(|| "use a number from 0 to 1, or none".to_owned())
    }
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(&args.pool)?;
    if pool.resize.is_some() {
        return Err(Failure::usage(format!("pool {} is being resized: finish the resize first", args.pool)));
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
                " {share} of the keys move (hash {}) and miss until they are filled. Their old values stay on the former servers: reverting the weight before they expire may return outdated values\n",
                args.hashing.name(&changed.slots)
            ));
        }
        (_, Err(error)) => return Err(error),
        (Err(error), _) => text.push_str(&format!(" cannot compute the keys that move: {error}\n")),
    }
    if !args.dry_run {
        store.change(&view, &args.pool, &changed, &[], None)?;
    }
    print(&text)
}

/// Sets weights. All slots have a weight, or none has: a missing weight counts as 1.
fn weigh(pool: &str, slots: &mut [Slot], which: Which, weight: Option<f64>) -> Result<(), Failure> {
    match (which, weight) {
        (Which::All, weight) => slots.iter_mut().for_each(|slot| slot.weight = weight),
        (Which::One(_), None) => {
            return Err(Failure::usage("either all slots have a weight or none has: use `all none`"));
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
