//! `guira fleet break`.

use std::path::PathBuf;
use std::time::Duration;

use guira_demo::{KINDS, LENGTH, Region, Wanted};

use super::up::report;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;

/// The kind for a series of random faults.
const RANDOM: &str = "random";
/// Default duration of random faults.
const RANDOM_LENGTH: Duration = Duration::from_secs(60);
/// Time between two polls for the end of a fault.
const POLL: Duration = Duration::from_millis(500);

/// How much later than planned a fault may end.
const LATE: Duration = Duration::from_secs(60);

const NOTES: &str = "Examples:
  guira fleet break kill node-1 --for 20s --wait
  guira fleet break cut database
  guira fleet break random --for 10m --seed 7

Exit codes: 1 if no region runs on this machine or the region refuses, 3 if a reply was wrong or a
delete was lost (with --wait, and of random faults).";

/// Arguments of `guira fleet break`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(super) struct Args {
    /// The fault, or `random` for a series of random faults.
    #[arg(required_unless_present = "list")]
    kind: Option<String>,
    /// A part, such as node-1, or a role, such as node, of which the region chooses a part [default: any part that can have
    /// this fault]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    what: Option<String>,
    /// Duration of the fault [default: 10s, or 1m for random]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Span>,
    /// Seed of random faults.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Wait for the end of the fault, and print its effect on users.
    #[arg(long)]
    wait: bool,
    /// The folder of the region, if several run on this machine.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// List the faults and the roles that can have them.
    #[arg(long)]
    list: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let Some(kind) = args.kind.as_deref().filter(|_| !args.list) else {
        return print(&list());
    };
    if args.seed.is_some() && kind != RANDOM {
        return Err(Failure::usage("--seed is for random faults"));
    }
    let region = Region::find(args.folder.as_deref())?;
    if kind == RANDOM {
        return at_random(args, &region);
    }
    let length = args.length.map_or(LENGTH, |length| length.0);
    let begun = region.break_one(&Wanted { kind, what: args.what.as_deref(), length, seed: None })?;
    print(&format!("{begun} for {length:?}\n"))?;
    if !args.wait {
        return Ok(());
    }
    for _ in 0..(length + LATE).div_duration_f64(POLL) as u64 {
        std::thread::sleep(POLL);
        if let Some(found) = region.report(&begun)? {
            let wrong =
                (found.wrong > 0).then(|| format!("{} replies were wrong: see the page", found.wrong));
            return report(&format!("{}\n", found.summary), wrong.as_slice());
        }
    }
    Err(Failure::new(format!("the region has not reported the end of {begun}: see its page")))
}

fn at_random(args: &Args, region: &Region) -> Result<(), Failure> {
    if args.what.is_some() {
        return Err(Failure::usage("`random` chooses parts itself: remove the part"));
    }
    let length = args.length.map_or(RANDOM_LENGTH, |length| length.0);
    let seed = region.break_at_random(length, args.seed)?;
    print(&format!("random faults for {length:?}, seed {seed}\n"))?;
    loop {
        std::thread::sleep(POLL);
        if let Some((summary, wrong)) = region.outcome()? {
            return report(&summary, &wrong);
        }
    }
}

fn list() -> String {
    let lines = KINDS.iter().map(|kind| {
        let roles: Vec<&str> = kind.roles().collect();
        format!("{:7} {}\n        of {}\n", kind.verb, kind.about, roles.join(", "))
    });
    lines.collect::<String>() + "random  a series of random faults\n"
}
