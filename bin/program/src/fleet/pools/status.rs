//! `guira fleet status`.

use super::course::{self, Share};
use super::shares;
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Handover, Pool, Servers, Slot, Stage, Store, View};
use std::time::Duration;

/// Time between the two polls of hits.
const SAMPLE: Duration = Duration::from_secs(1);

/// Arguments of `guira fleet status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show these pools only.
    pools: Vec<String>,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let leader = view.leader().unwrap_or("none: failed servers are not replaced");
    let mut text = format!("revision {}, leader {}\n", view.revision(), leader.escape_debug());
    let named = args.pools.iter().map(String::as_str);
    let names: Vec<&str> = if args.pools.is_empty() { view.names().collect() } else { named.collect() };
    if names.is_empty() {
        text.push_str("no pools: create one with `guira fleet create`\n");
    }
    // An unreadable pool must not hide the others.
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
        super::describe(pool.rules),
        "slot",
        "server",
        "zone",
        "weight"
    );
    if let Some(resize) = pool.resize {
        let stage = match resize.stage {
            Stage::Announced => "is announced",
            Stage::Warming => "is in progress: the new slots are filled from the previous ones",
            Stage::Ending => "ends: the former servers receive no more requests",
        };
        let line = format!("\nthe resize from {} to {} slots {stage}", resize.from, resize.to);
        text.insert_str(text.trim_end().rfind('\n').unwrap_or(0), &line);
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
        let down = if view.is_registered(name, other) { "" } else { ", down" };
        let role = if *stage == Stage::Announced { "takes" } else { "leaves" };
        let zone = view.registered(name).find(|one| one.server == *other).and_then(|one| one.zone.as_deref());
        row(other, zone, &format!("{role} slot {number}{down}"));
    }
    for spare in view.registered(name).filter(|one| pool.slot_of(&one.server).is_none()) {
        let state = if spare.is_empty { "spare" } else { "to be flushed" };
        row(&spare.server, spare.zone.as_deref(), state);
    }
    text
}

fn state(view: &View, name: &str, slot: &Slot, warmth: Option<f64>) -> String {
    let Some(server) = &slot.server else { return "empty".to_owned() };
    let present = if view.is_registered(name, server) { "serves" } else { "down" };
    match &slot.handover {
        None => present.to_owned(),
        Some(handover) => {
            let warm = warmth.map(|share| format!(" {}", shares::percent(share))).unwrap_or_default();
            let how = match handover.stage {
                Stage::Announced => format!("moving to {}", handover.other),
                Stage::Warming => format!("warming{warm} from {}", handover.other),
                Stage::Ending => format!("leaving {}", handover.other),
            };
            format!("{present}, {how}")
        }
    }
}

/// By slot, the new server's share of the hits of both servers, if the slot is being filled and both servers reply.
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
    for poll in 0..2 {
        if poll > 0 {
            guira_sync::thread::sleep(SAMPLE);
        }
        for (share, pair) in all.iter_mut().zip(&pairs) {
            let Some([new, former]) = pair else { continue };
            if let (Ok(new), Ok(former)) = (course::hits(servers, new), course::hits(servers, former)) {
                share.add([new, former]);
            }
        }
    }
    all.iter().map(|share| share.now().map(|(share, _)| share)).collect()
}
