//! The rows of `/metrics`, which also give the figures of `/status.json`.

use guira_web::{Exposition, Family, Form};

use crate::counts::{Count, Sums};
use crate::part::Part;
use crate::world::World;

guira_web::families! {
    FAMILIES;
    UP = "guira_demo_up" [], "gauge", "1: the region runs.";
    LATENCY = "guira_demo_duration_seconds" ["what"], "histogram", "Time that users wait for a read, or for a write with its delete.";
    CLIENT = "guira_demo_client_total" ["count"], "counter", "Counters of the users' look-aside clients, by name.";
    PART = "guira_demo_part_up" ["part"], "gauge", "Whether the process runs without a fault.";
    SLOT = "guira_demo_slot" ["slot", "part"], "gauge", "1: the part serves the slot.";
    LAG = "guira_demo_lag_seconds" [], "gauge", "The lag of the invalidator, while it is known.";
}

/// All metrics, for docs/reference/metrics.md.
pub fn families() -> Vec<Family> {
    let rows = Count::ROWS.iter().map(|row| Family::counter(row, &[]));
    FAMILIES.iter().copied().chain(rows).collect()
}

/// Whether a part runs and has no fault.
fn is_well(world: &World, part: &Part) -> bool {
    part.is_running() && world.events.state_of(&part.name).is_none()
}

pub(crate) fn text(world: &World, form: Form) -> String {
    let (mut out, sums) = (Exposition::default(), world.sums());
    out.sample(UP, &[], 1);
    for (what, histogram) in [("read", &sums.reads), ("write", &sums.writes)] {
        out.histogram(LATENCY.name, LATENCY.meaning, &[(LATENCY.labels[0], what)], histogram);
    }
    for (name, value) in &sums.clients {
        out.sample(CLIENT, &[name], value);
    }
    for part in &world.parts {
        out.sample(PART, &[&part.name], u32::from(is_well(world, part)));
    }
    let snapshot = world.snapshot();
    for (slot, part) in snapshot.slots.iter().enumerate() {
        if let Some(part) = part {
            out.sample(SLOT, &[&slot.to_string(), part], 1);
        }
    }
    if let Some(lag) = snapshot.lag_s {
        out.sample(LAG, &[], lag);
    }
    for (count, row) in Count::ALL.into_iter().zip(Count::ROWS) {
        out.sample(Family::counter(row, &[]), &[], sums.counts[count as usize]);
    }
    out.text(form)
}

/// The counters by name, for `/status.json`.
pub(crate) fn named(sums: &Sums) -> serde_json::Map<String, serde_json::Value> {
    let own =
        Count::ALL.into_iter().map(|count| (count.name().to_owned(), sums.counts[count as usize].into()));
    let clients = sums.clients.iter().map(|(name, value)| (format!("client_{name}"), (*value).into()));
    own.chain(clients).collect()
}
