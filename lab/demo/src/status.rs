//! `/status.json`: what the page shows.

use guira_sync::histogram::Histogram;
use serde_json::{Value, json};

use crate::counts::Seen;
use crate::faults::KINDS;
use crate::metrics::named;
use crate::part::Part;
use crate::snapshot::Snapshot;
use crate::world::World;

pub(crate) fn json(world: &World) -> Value {
    let (sums, snapshot) = (world.sums(), world.snapshot());
    let parts = world.parts.iter().map(|part| part_json(world, &snapshot, part));
    let faults = world.events.each_fault(|fault| {
        let (lasted, seen) = fault.seen(&sums);
        json!({
            "at_ms": fault.at_ms,
            "what": fault.what,
            "is_over": fault.after.is_some(),
            "lasted_s": lasted.as_secs_f64(),
            "seen": seen_json(&seen),
        })
    });
    let events = world.events.events();
    let events = events.iter().map(|event| json!({ "at_ms": event.at_ms, "what": event.what }));
    let chaos = world.chaos().map(|chaos| {
        let outcome = chaos.outcome.as_ref();
        json!({
            "seed": chaos.seed,
            "is_over": outcome.is_some(),
            "summary": outcome.map(|outcome| outcome.summary.as_str()),
            "wrong": outcome.map(|outcome| &outcome.wrong),
        })
    });
    json!({
        "version": concat!("guira ", env!("CARGO_PKG_VERSION")),
        "ready": world.trouble(),
        "time_ns": u64::try_from(world.truth.history.now().as_nanos()).unwrap_or(u64::MAX),
        "folder": world.home.path().display().to_string(),
        "left_out": world.left_out,
        "stats": named(&sums),
        "latency": { "get": buckets(&sums.reads), "write": buckets(&sums.writes) },
        "slots": snapshot.slots,
        "leader": snapshot.leader,
        "lag_s": snapshot.lag_s,
        "owes_deletes": world.owes_deletes(),
        "parts": parts.collect::<Vec<_>>(),
        "kinds": KINDS.iter().map(|kind| json!({ "verb": kind.verb, "about": kind.about })).collect::<Vec<_>>(),
        "faults": faults,
        "events": events.collect::<Vec<_>>(),
        "wrong": world.events.all_wrong(),
        "chaos": chaos,
    })
}

fn buckets(histogram: &Histogram) -> Value {
    json!({ "buckets": histogram.buckets().collect::<Vec<_>>() })
}

fn seen_json(seen: &Seen) -> Value {
    let ms = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    json!({
        "requests": seen.reads + seen.writes + seen.failed,
        "reads": seen.reads,
        "failed": seen.failed,
        "misses": seen.misses,
        "retries": seen.retries,
        "stale": seen.stale,
        "wrong": seen.wrong,
        "median_ms": ms(seen.median),
        "p99_ms": ms(seen.p99),
    })
}

fn part_json(world: &World, snapshot: &Snapshot, part: &Part) -> Value {
    let figures =
        snapshot.caches.iter().find(|(name, _)| *name == part.name).and_then(|(_, figures)| *figures);
    let figures = figures.map(|[items, hits, misses, evictions]| {
        json!({ "items": items, "hits": hits, "misses": misses, "evictions": evictions })
    });
    let running = if part.is_running() { "up" } else { "down" };
    json!({
        "name": part.name,
        "role": part.role().name(),
        "address": part.relay().map(|relay| relay.address().to_string()),
        "state": world.events.state_of(&part.name).unwrap_or(running),
        "duty": snapshot.duty(part),
        "is_registered": snapshot.registered.contains(&part.name),
        "figures": figures,
        "verbs": KINDS.iter().filter(|kind| kind.breaks(part.role())).map(|kind| kind.verb).collect::<Vec<_>>(),
    })
}
