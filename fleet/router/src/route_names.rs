//! Paths through a tree as mcrouter prints them to `__mcrouter__.route_handles`: with its own names of handles, one blank for each level.

use crate::config::Plan;
use guira_routing::{DestinationId, Line};
use std::fmt::Write as _;

/// The first line: it chooses by the routing prefix.
const ROOT: &str = "root";

/// Handles by their names in configurations, and mcrouter's names. A handle that is missing has no other name.
const NAMES: &[(&str, &str)] = &[
    ("AllAsyncRoute", "all-async"),
    ("AllFastestRoute", "all-fastest"),
    ("AllInitialRoute", "all-initial"),
    ("AllMajorityRoute", "all-majority"),
    ("AllSyncRoute", "all-sync"),
    ("BigValueRoute", "big-value"),
    ("DevNullRoute", "devnull"),
    ("FailoverRoute", "failover"),
    ("FailoverWithExptimeRoute", "failover-exptime"),
    ("HashRoute", "hash"),
    ("KeyParseRoute", "key_parse"),
    ("KeySplitRoute", "keysplit"),
    ("LatencyInjectionRoute", "latency-injection"),
    ("LoggingRoute", "logging"),
    ("MigrateRoute", "migrate"),
    ("MissFailoverRoute", "miss-failover"),
    ("ModifyKeyRoute", "modify-key"),
    ("NullRoute", "null"),
    ("OperationSelectorRoute", "operation-selector"),
    ("RandomRoute", "random"),
    ("RateLimitRoute", "rate-limit"),
    ("ShadowRoute", "shadow"),
    ("ShardSplitRoute", "shard-split"),
    ("WarmUpRoute", "warm-up"),
];

pub(crate) fn path(lines: &[Line], plan: &Plan) -> String {
    let mut text = format!("{ROOT}\n");
    let mut pool = "";
    for line in lines {
        if let Some(name) = pool_of(line) {
            pool = name;
        }
        let name = match line.destination {
            Some(number) => server(number, pool, plan),
            None => name(line),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:width$}{name}", "", width = line.depth + 1);
    }
    text
}

fn pool_of(line: &Line) -> Option<&str> {
    line.reason.as_deref().filter(|_| line.handle == "PoolRoute")?.strip_prefix("pool ")
}

fn name(line: &Line) -> String {
    if let Some(pool) = pool_of(line) {
        return format!("asynclog:{pool}");
    }
    if let ("ErrorRoute", Some(name)) = (line.handle, line.reason.as_deref()) {
        return format!("error|{name}");
    }
    if let ("ModifyExptimeRoute", Some(reason)) = (line.handle, line.reason.as_deref()) {
        let value = reason.trim_start_matches("exptime: ");
        return match value.strip_prefix("at most ") {
            Some(most) => format!("modify-exptime|min|exptime={most}"),
            None => format!("modify-exptime|set|exptime={value}"),
        };
    }
    let known = NAMES.iter().find(|(own, _)| *own == line.handle);
    known.map_or(line.handle, |(_, mcrouter)| mcrouter).to_owned()
}

/// A server, with its place in its pool.
fn server(number: DestinationId, pool: &str, plan: &Plan) -> String {
    let pools = plan.pools.iter().filter(|known| pool.is_empty() || *known.name == *pool);
    let place = |servers: &[DestinationId]| servers.iter().position(|server| *server == number);
    let found = pools.filter_map(|pool| Some((&*pool.name, place(&pool.destinations)?))).next();
    let (pool, place) = found.unwrap_or((pool, 0));
    let timeout = plan.named().specs()[number.0 as usize].timeout.as_millis();
    format!(
        "host|pool={pool}|id={place}|ap={}|timeout={timeout}ms|keep_routing_prefix=false|msb=0",
        plan.access_point(number)
    )
}
