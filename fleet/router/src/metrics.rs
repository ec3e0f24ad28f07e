//! The `/metrics` page of a router: the lines of `stats`, and rows by operation, outcome, pool and
//! server.

use crate::config::Plan;
use crate::counters::GROUPS;
use crate::shared::Shared;
use crate::spool::LogCount;
use crate::stats::{Figures, OPS, OUTCOMES, STATS, Shown, Stat};
use crate::upstream::{Counted, STATES, Server, ServerCount};
use guira_control::ControlCount;
use guira_discovery::NameCount;
use guira_serving::TrafficCount;
use guira_sync::atomic::Ordering;
use guira_sync::metrics::{Kind, Metric, Unit};
use guira_upstream::Tko;
use guira_web::{Exposition, Form, MetricTable, metric_name};
use std::collections::HashSet;

guira_web::families! {
    /// All families without a line in `stats`.
    pub FAMILIES;
    UP = "guira_router_up" [], "gauge", "1: the router replies.";
    READY = "guira_router_ready" [], "gauge", "Whether /ready returns 200.";
    INFO = "guira_router_info" ["version", "service", "router"], "gauge", "1: the version and the names of the router.";
    REQUESTS = "guira_router_requests_total" ["op"], "counter", "Client requests; each key counts.";
    REPLIES = "guira_router_replies_total" ["outcome"], "counter", "Replies to clients; each key counts.";
    CLIENTS_ACCEPTED = "guira_router_client_connections_total" [], "counter", "Accepted client connections.";
    CLIENTS_REJECTED = "guira_router_client_connections_rejected_total" [], "counter", "Client connections refused because of connection-limit.";
    READ = "guira_router_client_read_bytes_total" [], "counter", "Received from clients.";
    WRITTEN = "guira_router_client_written_bytes_total" [], "counter", "Sent to clients.";
    ROUNDS = "guira_router_worker_rounds_total" ["worker"], "counter", "Rounds of a worker: polls of its sockets.";
    CONFIG_OK = "guira_router_config_ok" [], "gauge", "Whether the last load of the configuration succeeded; if not, the previous one is in effect.";
    CONFIG_INFO = "guira_router_config_info" ["md5"], "gauge", "1: the configuration in effect.";
    CONFIG_WARNINGS = "guira_router_config_warnings" [], "gauge", "Warnings about the configuration in effect.";
    CONNECTIONS = "guira_router_connections" ["state"], "gauge", "Connections to servers, one per worker and server.";
    DURATION = "guira_router_server_duration_seconds" ["command"], "histogram", "Latency of servers: from the start of the round that reads a request to the start of the round that reads its reply. One request at a time per connection is measured.";
    SERVERS = "guira_router_servers" [], "gauge", "Servers of the configuration. Only the first 500 are shown individually.";
    SERVER_REPLIES = "guira_router_server_replies_total" ["server", "outcome"], "counter", "Requests to the server by outcome; tko: not sent, because the server is marked as failed.";
    SERVER_CONNECTIONS = "guira_router_server_connections" ["server", "state"], "gauge", "Connections to the server, one per worker.";
    SERVER_TKO = "guira_router_server_tko" ["server", "reason"], "gauge", "Whether the server is marked as failed: by timeouts (soft), or because it is unreachable (hard).";
    SERVER_PENDING = "guira_router_server_pending_requests" ["server"], "gauge", "Requests waiting to be sent to the server.";
    SERVER_INFLIGHT = "guira_router_server_inflight_requests" ["server"], "gauge", "Requests sent to the server and waiting for a reply.";
    SERVER_LATENCY = "guira_router_server_latency_seconds" ["server"], "gauge", "Latency of the server: a moving average over about the last 16 measurements of a worker.";
    POOL_SERVERS = "guira_router_pool_servers" ["pool"], "gauge", "Servers of the pool. Pools without a route, and pools after the first 500, are not shown.";
    POOL_TKO = "guira_router_pool_tko_servers" ["pool"], "gauge", "Servers of the pool that are marked as failed.";
    POOL_REQUESTS = "guira_router_pool_requests_total" ["pool"], "counter", "Requests to the present and former servers of the pool, through any pool.";
    POOL_ERRORS = "guira_router_pool_errors_total" ["pool"], "counter", "Failed requests to servers of the pool.";
}

/// The most servers and pools that have rows of their own.
pub(crate) const SHOWN_MAX: usize = 500;

const PREFIX: &str = "guira_router_";
const SERVER_PREFIX: &str = "guira_router_server_";

/// Names in `stats` that stand for several lines.
const PATTERNS: [(&str, &str, Option<&str>); 4] = [
    ("cmd_OP_count", "Client requests, by operation.", Some("guira_router_requests_total{op=OP}")),
    (
        "result_error_count",
        "Failures returned to clients. result_error_all_count: failed requests to servers.",
        None,
    ),
    (
        "result_OUTCOME_count",
        "Replies to clients, by outcome.",
        Some("guira_router_replies_total{outcome=OUTCOME}"),
    ),
    (
        "result_OUTCOME_all_count",
        "Failed requests to servers, by outcome.",
        Some("guira_router_server_replies_total{outcome=OUTCOME}"),
    ),
];

/// A word in a line of `stats servers`, its meaning, and its name in `/metrics`.
const WORDS: [(&str, &str, &str); 6] = [
    ("avg_latency_us", "Latency of the server, in microseconds.", SERVER_LATENCY.name),
    ("pending_reqs", "Requests waiting to be sent to the server.", SERVER_PENDING.name),
    ("inflight_reqs", "Requests sent to the server and waiting for a reply.", SERVER_INFLIGHT.name),
    (
        "soft_tko, hard_tko",
        "The server is marked as failed: by timeouts (soft), or because it is unreachable (hard).",
        SERVER_TKO.name,
    ),
    (
        "new, up, down, closed",
        "Connections to the server: never opened, open, failed, or closed because they were idle.",
        SERVER_CONNECTIONS.name,
    ),
    ("OUTCOME", "Requests by outcome; outcomes without requests are omitted.", SERVER_REPLIES.name),
];

/// All metrics, for docs/reference/metrics.md.
pub fn metric_tables() -> Vec<MetricTable> {
    let row =
        |name, meaning| Metric { name, unit: Unit::Count, kind: Kind::Counter, meaning, exported: None };
    let lines: Vec<Metric> = STATS.iter().map(|stat| stat.metric).collect();
    let exported = STATS.iter().map(name).collect();
    let patterns = PATTERNS.map(|(name, meaning, _)| row(name, meaning)).to_vec();
    let exported_patterns = PATTERNS.map(|(_, _, exported)| exported.map(str::to_owned)).to_vec();
    let words = WORDS.map(|(name, meaning, _)| Metric {
        kind: if name == "OUTCOME" { Kind::Counter } else { Kind::Gauge },
        unit: if name == "avg_latency_us" { Unit::Microseconds } else { Unit::Count },
        ..row(name, meaning)
    });
    let table = |command, scope, metrics, exported| MetricTable {
        command,
        scope,
        metrics,
        exported,
        absent: Vec::new(),
    };
    let logged = LogCount::ROWS.iter().map(|row| metric_name(row, PREFIX)).collect();
    let looked_up = NameCount::ROWS.iter().map(|row| metric_name(row, PREFIX)).collect();
    let of_etcd = ControlCount::ROWS.iter().map(|row| metric_name(row, PREFIX)).collect();
    let counted = ServerCount::ROWS.iter().map(|row| metric_name(row, SERVER_PREFIX)).collect();
    vec![
        table("stats", "router", lines, exported),
        table("stats", "logged deletes", LogCount::ROWS.to_vec(), logged),
        table("stats", "names in DNS", NameCount::ROWS.to_vec(), looked_up),
        table("stats", "pools in etcd", ControlCount::ROWS.to_vec(), of_etcd),
        table("stats", "operations and failures", patterns, exported_patterns),
        table(
            "stats servers",
            "a line for each server",
            words.to_vec(),
            WORDS.map(|(_, _, exported)| Some(exported.to_owned())).to_vec(),
        ),
        table("/metrics", "each server", ServerCount::ROWS.to_vec(), counted),
    ]
}

fn name(stat: &Stat) -> Option<String> {
    if stat.shown == Shown::InStats { None } else { metric_name(&stat.metric, PREFIX) }
}

pub(crate) fn text(shared: &Shared, form: Form, is_ready: bool) -> String {
    let figures = Figures::of(shared);
    let mut out = Exposition::default();
    out.sample(UP, &[], 1);
    out.sample(READY, &[], u32::from(is_ready));
    let identity = &shared.about.identity;
    out.sample(INFO, &[env!("CARGO_PKG_VERSION"), &identity.service, &identity.router], 1);
    for stat in STATS {
        if let Some(name) = name(stat) {
            out.row(&stat.metric, &name, help(stat), &[], &(stat.value)(&figures));
        }
    }
    add_counters(&mut out, LogCount::ROWS, LogCount::ALL.map(|counter| shared.counts.log.get(counter)));
    add_counters(&mut out, NameCount::ROWS, NameCount::ALL.map(|counter| shared.counts.names.get(counter)));
    add_counters(
        &mut out,
        ControlCount::ROWS,
        ControlCount::ALL.map(|counter| shared.counts.pools.get(counter)),
    );
    add_clients(&mut out, &figures);
    add_config(&mut out, &figures);
    for (state, connections) in STATES.iter().zip(figures.states) {
        out.sample(CONNECTIONS, &[state], connections);
    }
    for (group, (_, name)) in GROUPS.iter().enumerate() {
        out.histogram(DURATION.name, DURATION.meaning, &[("command", name)], &figures.sums.times(group));
    }
    add_servers(&mut out, &figures.plan);
    add_pools(&mut out, &figures);
    out.text(form)
}

fn add_counters(out: &mut Exposition, rows: &[Metric], values: impl IntoIterator<Item = u64>) {
    for (row, value) in rows.iter().zip(values) {
        if let Some(name) = metric_name(row, PREFIX) {
            out.row(row, &name, row.meaning, &[], &value.to_string());
        }
    }
}

/// Families with several rows, and their meanings.
const SHARED_FAMILIES: [(&str, &str); 3] = [
    ("guira_router_tko_servers{", "Servers that are marked as failed."),
    ("guira_router_failover_errors_total{", "Failures in failover routes, except those of the last child."),
    ("guira_router_failover_collisions_total{", "Children that DeterministicOrderPolicy passed over."),
];

/// All rows of a family have one meaning.
fn help(stat: &Stat) -> &'static str {
    let exported = stat.metric.exported.unwrap_or_default();
    let family = SHARED_FAMILIES.iter().find(|(name, _)| exported.starts_with(name));
    family.map_or(stat.metric.meaning, |(_, meaning)| meaning)
}

fn add_clients(out: &mut Exposition, figures: &Figures<'_>) {
    let (sums, host) = (figures.sums, &figures.shared.host);
    for op in OPS {
        out.sample(REQUESTS, &[op.name()], sums.of_op(op));
    }
    for (name, outcome) in OUTCOMES {
        out.sample(REPLIES, &[name], sums.of_outcome(outcome));
    }
    out.sample(CLIENTS_ACCEPTED, &[], host.connections.total.load(Ordering::Relaxed));
    out.sample(CLIENTS_REJECTED, &[], host.connections.rejected.load(Ordering::Relaxed));
    out.sample(READ, &[], host.traffic_sum(TrafficCount::BytesRead));
    out.sample(WRITTEN, &[], host.traffic_sum(TrafficCount::BytesWritten));
    for (worker, rounds) in sums.rounds().enumerate() {
        out.sample(ROUNDS, &[&worker.to_string()], rounds);
    }
}

fn add_config(out: &mut Exposition, figures: &Figures<'_>) {
    out.sample(CONFIG_OK, &[], u32::from(figures.config.error.is_none()));
    out.sample(CONFIG_INFO, &[&figures.plan.digest], 1);
    out.sample(CONFIG_WARNINGS, &[], figures.plan.warnings.len());
}

fn add_servers(out: &mut Exposition, plan: &Plan) {
    let servers = named(plan);
    out.sample(SERVERS, &[], servers.len());
    let former = plan.former();
    for (name, server) in servers.iter().take(SHOWN_MAX) {
        add_server(out, name, server, former.get(name));
    }
}

/// The servers of the configuration with unique names: the address, unless a server is reached in
/// several ways.
pub(crate) fn named(plan: &Plan) -> Vec<(String, &Server)> {
    let mut known = HashSet::new();
    let of = |(address, server): (String, _)| {
        let more = (2..).map(|way| format!("{address} ({way})"));
        let mut names = std::iter::once(address.clone()).chain(more);
        let name = names.find(|name| known.insert(name.clone())).unwrap_or(address);
        (name, server)
    };
    plan.in_use().into_iter().map(of).collect()
}

/// Adds the rows of a server. They include the counts that its address had in
/// `former`, so that counters continue when a timeout is changed.
fn add_server(out: &mut Exposition, name: &str, server: &Server, former: Option<&Counted>) {
    let meters = server.meters();
    let mut ever = meters.counted();
    former.iter().for_each(|former| ever.add(former));
    for count in ServerCount::ALL {
        let row = &ServerCount::ROWS[count as usize];
        if let Some(whole) = metric_name(row, SERVER_PREFIX) {
            out.row(row, &whole, row.meaning, &[("server", name)], &ever.count(count).to_string());
        }
    }
    for (outcome, requests) in OUTCOMES.map(|(name, outcome)| (name, ever.outcome(outcome))) {
        if requests > 0 {
            out.sample(SERVER_REPLIES, &[name, outcome], requests);
        }
    }
    for (state, connections) in STATES.iter().zip(meters.states()) {
        out.sample(SERVER_CONNECTIONS, &[name, state], connections);
    }
    for (reason, tko) in [("soft", Tko::Soft), ("hard", Tko::Hard)] {
        out.sample(SERVER_TKO, &[name, reason], u32::from(server.health.tko() == Some(tko)));
    }
    out.sample(SERVER_PENDING, &[name], meters.pending());
    out.sample(SERVER_INFLIGHT, &[name], meters.inflight());
    if let Some(micros) = meters.latency() {
        out.sample(SERVER_LATENCY, &[name], micros / 1e6);
    }
}

fn add_pools(out: &mut Exposition, figures: &Figures<'_>) {
    let plan: &Plan = &figures.plan;
    for pool in plan.pools.iter().take(SHOWN_MAX) {
        let name = [&*pool.name];
        let counts = figures.pools.counts(plan, pool);
        out.sample(POOL_SERVERS, &name, plan.servers_of(pool).count());
        out.sample(POOL_TKO, &name, plan.servers_of(pool).filter(|server| !server.health.is_up()).count());
        out.sample(POOL_REQUESTS, &name, counts.requests);
        out.sample(POOL_ERRORS, &name, counts.errors);
    }
}
