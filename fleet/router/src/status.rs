//! `/status.json`: what the page of the admin listener shows. docs/guide/replacing-mcrouter.md describes it.

use crate::config::{Plan, Source};
use crate::counters::GROUPS;
use crate::metrics::{SHOWN_MAX, named};
use crate::shared::Shared;
use crate::stats::{self, Figures, OPS, OUTCOMES, STATS};
use crate::upstream::{STATES, Server, ServerCount};
use guira_routing::{Group, Outcome};
use guira_sync::metrics::Unit;
use guira_upstream::Tko;
use guira_web::{Reading, object};
use serde_json::{Map, Value, json};

/// The state of the router; `fault` is why it is not ready, if it is not.
pub(crate) fn json(shared: &Shared, fault: Option<String>) -> Value {
    let figures = Figures::of(shared);
    let plan: &Plan = &figures.plan;
    let servers = named(plan);
    let shown = servers.iter().take(SHOWN_MAX).map(|(name, server)| server_json(name, server));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "time_ns": u64::try_from(shared.about.started.past.elapsed().as_nanos()).unwrap_or(u64::MAX),
        "ready": fault,
        "service": shared.about.identity.service,
        "router": shared.about.identity.router,
        "stats": stats_json(&figures),
        "config": config_json(&figures),
        "latency": latency_json(&figures),
        "server_count": servers.len(),
        "servers_out": servers.iter().filter(|(_, server)| !server.health.is_up()).count(),
        "servers": shown.collect::<Vec<_>>(),
        "pools": pools_json(&figures),
    })
}

/// The series of the page's charts; [`readings`] has their values.
pub(crate) const SERIES: [&str; 5] = ["gets", "updates", "others", "failed", "refused"];

/// Readings of [`SERIES`].
pub(crate) fn readings(shared: &Shared) -> Vec<Reading> {
    let figures = Figures::of(shared);
    let sums = figures.sums;
    let of = |is_in: fn(Group) -> bool| {
        Reading::Total(OPS.into_iter().filter(|op| is_in(op.group())).map(|op| sums.of_op(op)).sum())
    };
    let of_servers = |outcomes: fn(Outcome) -> bool| {
        let outcomes = OUTCOMES.into_iter().filter(|(_, outcome)| outcomes(*outcome));
        outcomes.map(|(_, outcome)| figures.of_servers(outcome)).sum()
    };
    vec![
        of(|group| group == Group::Get),
        of(|group| group == Group::Update),
        of(|group| !matches!(group, Group::Get | Group::Update)),
        Reading::Share { part: stats::errors(sums), whole: sums.answered() },
        Reading::Share { part: of_servers(Outcome::is_error), whole: of_servers(|_| true) },
    ]
}

/// The lines of `stats` that are numbers, with operations and outcomes by their names.
fn stats_json(figures: &Figures<'_>) -> Value {
    let mut lines = Map::new();
    for stat in STATS.iter().filter(|stat| stat.metric.unit != Unit::Text) {
        let value = (stat.value)(figures).parse::<f64>().map_or(Value::Null, Value::from);
        lines.insert(stat.metric.name.to_owned(), value);
    }
    for op in OPS {
        lines.insert(format!("op_{}", op.name()), figures.sums.of_op(op).into());
    }
    for (name, outcome) in OUTCOMES {
        lines.insert(format!("outcome_{name}"), figures.sums.of_outcome(outcome).into());
    }
    Value::Object(lines)
}

fn config_json(figures: &Figures<'_>) -> Value {
    let (config, shared) = (&figures.config, figures.shared);
    let file = match &shared.about.source {
        Source::File(path) => Some(path.display().to_string()),
        Source::Text(_) => None,
    };
    json!({
        "file": file,
        "md5": figures.plan.digest,
        "age": config.since.age(),
        "tried": config.last_attempt.age(),
        "attempts": config.attempts,
        "failures": config.failures,
        "error": config.error,
        "warnings": figures.plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn latency_json(figures: &Figures<'_>) -> Value {
    let of_group = |(group, (_, name)): (usize, &(_, &str))| {
        let histogram = figures.sums.times(group);
        let buckets: Vec<(u64, u64)> = histogram.buckets().collect();
        ((*name).to_owned(), json!({ "sum_ns": histogram.sum_ns(), "buckets": buckets }))
    };
    object(GROUPS.iter().enumerate().map(of_group)).into()
}

fn server_json(name: &str, server: &Server) -> Value {
    let meters = server.meters();
    let of = |outcome: Outcome| meters.outcome(outcome);
    let states = STATES.iter().zip(meters.states());
    let states = object(states.map(|(state, count)| ((*state).to_owned(), count.into())));
    let tko = server.health.tko().map(|why| match why {
        Tko::Soft => "soft",
        Tko::Hard => "hard",
    });
    json!({
        "server": name,
        "states": states,
        "tko": tko,
        "failures_in_a_row": server.health.failures_in_a_row(),
        "latency_us": meters.latency(),
        "pending": meters.pending(),
        "inflight": meters.inflight(),
        "requests": meters.count(ServerCount::Requests),
        "found": of(Outcome::Found),
        "notfound": of(Outcome::NotFound),
        "errors": server.errors(),
        "refused": of(Outcome::Tko),
        "bytes_sent": meters.count(ServerCount::BytesSent),
        "bytes_received": meters.count(ServerCount::BytesReceived),
    })
}

fn pools_json(figures: &Figures<'_>) -> Vec<Value> {
    let plan: &Plan = &figures.plan;
    let shown = plan.pools.iter().take(SHOWN_MAX).map(|pool| {
        let counts = figures.pools.counts(plan, pool);
        json!({
            "pool": &*pool.name,
            "servers": plan.servers_of(pool).count(),
            "tko": plan.servers_of(pool).filter(|server| !server.health.is_up()).count(),
            "requests": counts.requests,
            "errors": counts.errors,
            "refused": counts.refused,
        })
    });
    shown.collect()
}
