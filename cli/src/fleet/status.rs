//! `guira fleet status`.

use crate::failure::Failure;
use crate::run::print;
use guira_control::{Pool, Store, View};

/// Arguments of `guira fleet status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// These pools only.
    pools: Vec<String>,
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = store.view()?;
    let leader = view.leader().unwrap_or("none: lost servers are not replaced");
    let mut text = format!("revision {}, leader {leader}\n", view.revision());
    let asked = args.pools.iter().map(String::as_str);
    let names: Vec<&str> = if args.pools.is_empty() { view.names().collect() } else { asked.collect() };
    for name in names {
        text.push_str(&table(&view, name, view.pool(name)?));
    }
    print(&text)
}

fn table(view: &View, name: &str, pool: &Pool) -> String {
    let rules = pool.rules;
    let mut text = format!(
        "\npool {name}: {} slots, replaced after {} s, {} at once\n{:>6}  {:24} {:10} {:>6}  state\n",
        pool.slots.len(),
        rules.hold_down_s,
        rules.at_once,
        "slot",
        "server",
        "zone",
        "weight"
    );
    for (number, slot) in pool.slots.iter().enumerate() {
        let server = slot.server.as_deref().unwrap_or("-");
        let state = match &slot.server {
            None => "empty",
            Some(_) if view.registered(name).any(|one| slot.is_served_by(&one.server)) => "serves",
            Some(_) => "gone",
        };
        let weight = slot.weight.map_or("-".to_owned(), |weight| weight.to_string());
        let zone = slot.zone.as_deref().unwrap_or("-");
        text.push_str(&format!("{number:>6}  {server:24} {zone:10} {weight:>6}  {state}\n"));
    }
    for spare in view.registered(name).filter(|one| pool.slot_of(&one.server).is_none()) {
        let state = if spare.is_empty { "spare" } else { "to be emptied" };
        let zone = spare.zone.as_deref().unwrap_or("-");
        text.push_str(&format!("{:>6}  {:24} {zone:10} {:>6}  {state}\n", "-", spare.server, "-"));
    }
    text
}
