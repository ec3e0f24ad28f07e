//! A router in front of servers that hang, die, are slow or far away, with clients and
//! configurations that are no better. Whatever happens, no request gets the reply to another.

mod client;
mod configurations;
mod crowd;
mod fleet;
mod lossy;
mod slow;
mod stops;

use crate::plan::Plan;

/// The failures of a stage.
type Failures = Vec<String>;

type Stage = fn(&Plan) -> Result<Failures, String>;

/// The stages and their names. A stage reports itself what it cannot do on this machine.
const STAGES: [(&str, Stage); 5] = [
    ("servers that hang and die", stops::run),
    ("configurations", configurations::run),
    ("a slow server", slow::run),
    ("clients that never read", crowd::run),
    ("packets that are lost", lossy::run),
];

/// Runs all stages. Returns what failed.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    println!("router: {}, {} replies, seed {}", plan.engine, plan.replies, plan.seed);
    let mut all = Vec::new();
    for (name, stage) in STAGES {
        println!("{name}:");
        let failures = stage(plan).unwrap_or_else(|error| vec![format!("{name}: {error}")]);
        failures.iter().for_each(|failure| println!("failure: {failure}"));
        all.extend(failures);
    }
    println!("router: {}, seed {}", if all.is_empty() { "passed" } else { "FAILED" }, plan.seed);
    Ok(all)
}

fn as_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
