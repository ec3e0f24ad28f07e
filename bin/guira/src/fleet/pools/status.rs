//! `guira fleet status`.

use super::course::{self, Share};
use super::shares;
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Handover, Pool, Servers, Slot, Stage, Store, View};
use std::time::Duration;

/// How long it is looked how many gets servers have something for.
const SAMPLE: Duration = Duration::from_secs(1);

/// Arguments of `guira fleet status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// These pools only.
    pools: Vec<String>,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let leader = view.leader().unwrap_or("none: lost servers are not replaced");
    let mut text = format!("revision {}, leader {}\n", view.revision(), leader.escape_debug());
    let asked = args.pools.iter().map(String::as_str);
    let names: Vec<&str> = if args.pools.is_empty() { view.names().collect() } else { asked.collect() };
    if names.is_empty() {
        text.push_str("there is no pool yet: `guira fleet create` makes one\n");
    }
    // One that cannot be read hides no other.
    let mut unreadable = Ok(());
    for name in names {
        match view.pool(name) {
            Ok(pool) => text.push_str(&table(&view, name, pool, &course::servers(&args.access, pool)?)),
            Err(error) => unreadable = unreadable.and(Err(error.into())),
        }
    }
    print(&text)?;
    unreadable
}

fn table(view: &View, name: &str, pool: &Pool, servers: &Servers) -> String {
    let mut text = format!(
        "\npool {name}: {} slots, {}\n{:>6}  {:24} {:10} {:>6}  state\n",
        pool.slots.len(),
        super::told(pool.rules),
        "slot",
        "server",
        "zone",
        "weight"
    );
    if let Some(resize) = pool.resize {
        let stage = match resize.stage {
            Stage::Announced => "is announced",
            Stage::Warming => "is under way: new slots are filled from those before",
            Stage::Ending => "ends: the slots before are not asked any more",
        };
        let told = format!("\nthe resize from {} to {} slots {stage}", resize.from, resize.to);
        text.insert_str(text.trim_end().rfind('\n').unwrap_or(0), &told);
    }
    let warmth = warmth(pool, servers);
    for (number, slot) in pool.slots.iter().enumerate() {
        let server = slot.server.as_deref().unwrap_or("-");
        let weight = slot.weight.map_or("-".to_owned(), |weight| weight.to_string());
        let zone = slot.zone.as_deref().unwrap_or("-");
        let state = state(view, name, slot, warmth[number]);
        text.push_str(&format!("{number:>6}  {server:24} {zone:10} {weight:>6}  {state}\n"));
    }
    let mut row = |server: &str, zone: Option<&str>, state: &str| {
        let zone = zone.unwrap_or("-");
        text.push_str(&format!("{:>6}  {server:24} {zone:10} {:>6}  {state}\n", "-", "-"));
    };
    for (number, slot) in pool.slots.iter().enumerate() {
        let Some(Handover { other, stage, .. }) = &slot.handover else { continue };
        let gone = if view.is_registered(name, other) { "" } else { ", gone" };
        let what = if *stage == Stage::Announced { "gets" } else { "had" };
        let zone = view.registered(name).find(|one| one.server == *other).and_then(|one| one.zone.as_deref());
        row(other, zone, &format!("{what} slot {number}{gone}"));
    }
    for spare in view.registered(name).filter(|one| pool.slot_of(&one.server).is_none()) {
        let state = if spare.is_empty { "spare" } else { "to be emptied" };
        row(&spare.server, spare.zone.as_deref(), state);
    }
    text
}

fn state(view: &View, name: &str, slot: &Slot, warmth: Option<f64>) -> String {
    let Some(server) = &slot.server else { return "empty".to_owned() };
    let present = if view.is_registered(name, server) { "serves" } else { "gone" };
    match &slot.handover {
        None => present.to_owned(),
        Some(handover) => {
            let warm = warmth.map(|share| format!(" {}", shares::percent(share))).unwrap_or_default();
            let how = match handover.stage {
                Stage::Announced => format!("goes to {}", handover.other),
                Stage::Warming => format!("warming{warm} from {}", handover.other),
                Stage::Ending => format!("leaves {}", handover.other),
            };
            format!("{present}, {how}")
        }
    }
}

/// By slot: of what either of its two servers had within a moment, what the new one had, if it is being filled and both answer.
fn warmth(pool: &Pool, servers: &Servers) -> Vec<Option<f64>> {
    let warming = |slot: &Slot| {
        let former = slot.handover.as_ref().filter(|handover| handover.stage == Stage::Warming)?;
        Some([slot.server.clone()?, former.other.clone()])
    };
    let pairs: Vec<Option<[String; 2]>> = pool.slots.iter().map(warming).collect();
    let mut all: Vec<Share> = pairs.iter().map(|_| Share::default()).collect();
    if pairs.iter().all(Option::is_none) {
        return vec![None; pairs.len()];
    }
    for look in 0..2 {
        if look > 0 {
            std::thread::sleep(SAMPLE);
        }
        for (share, pair) in all.iter_mut().zip(&pairs) {
            let Some([new, former]) = pair else { continue };
            if let (Ok(new), Ok(former)) = (course::hits(servers, new), course::hits(servers, former)) {
                share.look([new, former]);
            }
        }
    }
    all.iter().map(|share| share.now().map(|(share, _)| share)).collect()
}
