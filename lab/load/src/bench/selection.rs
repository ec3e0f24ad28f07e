//! Which parts of the bench are run.

use std::time::Duration;

use super::delete_prefix;
use super::dump;
use super::fairness;
use super::idle;
use super::instructions;
use super::loads::{self, LoadSpec};
use super::memory::{self, Case};
use super::misses;
use super::routers;
use super::takeover;
use crate::error::LoadError;
use crate::server::Wire;

const GIB: u64 = 1 << 30;
const KEYS: u64 = 25_000_000;
/// A short bench allows this part of the memory and sets this part of the keys.
const QUICK_PART: u64 = 16;

const OPEN: &str = "open";
const MEMORY: &str = "memory";
const MEMORY_STAMPED: &str = "memory-stamped";
const MEMORY_SIZES: &str = "memory-sizes";
const ITEMS: &str = "items";
const IDLE: &str = "idle-connections";
const IDLE_TLS: &str = "idle-connections-tls";
const METADUMP: &str = "metadump";
const FAIRNESS: &str = "fairness";
const MISSES: &str = "misses";
const DELETE_PREFIX: &str = "delete-prefix";
const TAKEOVER: &str = "takeover";
const INSTRUCTIONS: &str = "instructions";
const ROUTER_LATENCY: &str = "router-latency";
const ROUTER_IDLE: &str = "router-idle";

/// Parts that take long, or start more than servers: they are run only when they are named. So are the loads of routers.
const LONG: [&str; 8] =
    [MEMORY_SIZES, MISSES, FAIRNESS, DELETE_PREFIX, TAKEOVER, INSTRUCTIONS, ROUTER_LATENCY, ROUTER_IDLE];

/// The engines of the parts that compare engines, unless others are named.
const ENGINES: [&str; 4] = ["memc3", "classic", "fleec", "mica"];

/// Requests of each trace in a short bench.
const QUICK_REQUESTS: u64 = 20_000;

const IDLE_CONNECTIONS: usize = 10_000;
/// Fewer: each needs a handshake.
const IDLE_TLS_CONNECTIONS: usize = 1000;

/// The load that dumps run beside, and what the servers hold in it.
const DUMP_LOAD: &str = "get32";
const DUMP_KEYS: u64 = 10_000_000;
const DUMP_MEMORY: u64 = 2 * GIB;
/// What the servers hold beside long values while one client asks for little.
const FAIRNESS_KEYS: u64 = 500_000;
const DUMP_DURATION: Duration = Duration::from_secs(5);
const DUMP_DURATION_QUICK: Duration = Duration::from_secs(1);
/// What the servers hold before a delete by prefix, and how long the load is measured before and after it.
const DELETE_KEYS: u64 = 10_000_000;
const DELETE_MEMORY: u64 = 2 * GIB;
const DELETE_DURATION: Duration = Duration::from_secs(15);
const DELETE_DURATION_QUICK: Duration = Duration::from_millis(500);

/// What the servers hold of which others take over: items of 1 KiB, with all that belongs to them somewhat less than 4 GiB.
const TAKEOVER_KEYS: u64 = 3_400_000;
const TAKEOVER_MEMORY: u64 = 4 * GIB;
const TAKEOVER_DURATION: Duration = Duration::from_secs(4);

/// The name of the load that the open loop sends.
const OPEN_LOAD: &str = "get1";

/// How much of a record is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    Quick,
}

#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Closed loops, measured in operations per second of processor time.
    pub loads: Vec<LoadSpec>,
    pub open: Option<LoadSpec>,
    pub memory: Vec<Case>,
    /// Items held at equal resident size.
    pub equal: Vec<Case>,
    pub idle: Vec<idle::Case>,
    /// A load beside dumps of all keys.
    pub dump: Option<dump::Case>,
    /// A client that asks for little beside others.
    pub fairness: Option<fairness::Plan>,
    /// Real traces at equal resident size.
    pub misses: Option<misses::Plan>,
    /// A delete by prefix beside a load.
    pub delete_prefix: Option<delete_prefix::Case>,
    pub takeover: Option<takeover::Case>,
    pub instructions: Option<instructions::Plan>,
    pub routers: routers::Plan,
}

impl Selection {
    /// The parts named in `only`; all but the long ones when it is empty.
    ///
    /// # Errors
    /// When a name is unknown.
    pub fn named(only: &[String], scale: Scale) -> Result<Self, LoadError> {
        let all = loads::all()?;
        let known: Vec<&str> = names(&all);
        if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(LoadError::Options(format!(
                "unknown part {unknown:?}; use some of {}",
                known.join(", ")
            )));
        }
        let is_named = |name: &str| only.iter().any(|other| other == name);
        let is_extra = |name: &str| LONG.contains(&name) || loads::FEW.contains(&name);
        let wanted = |name: &str| is_named(name) || (only.is_empty() && !is_extra(name));
        let (part, dump_duration, delete_duration, limit) = match scale {
            Scale::Full => (1, DUMP_DURATION, DELETE_DURATION, None),
            Scale::Quick => (QUICK_PART, DUMP_DURATION_QUICK, DELETE_DURATION_QUICK, Some(QUICK_REQUESTS)),
        };
        let (memory, keys) = (GIB / part, KEYS / part);
        let mut cases = Vec::new();
        if wanted(MEMORY) {
            cases.push(memory::small(MEMORY, memory, keys));
        }
        if wanted(MEMORY_STAMPED) {
            cases.push(memory::stamped(MEMORY_STAMPED, memory, keys));
        }
        if wanted(MEMORY_SIZES) {
            cases.extend(memory::sweep(memory, keys));
        }
        let dump = all.iter().find(|spec| spec.name == DUMP_LOAD && wanted(METADUMP));
        let idle = [
            idle::Case { name: IDLE, connections: IDLE_CONNECTIONS, wire: Wire::Tcp },
            idle::Case { name: IDLE_TLS, connections: IDLE_TLS_CONNECTIONS, wire: Wire::Tls },
        ];
        Ok(Self {
            dump: dump.map(|spec| dump::case(spec, DUMP_KEYS / part, DUMP_MEMORY / part, dump_duration)),
            fairness: wanted(FAIRNESS).then_some(fairness::Plan { keys: FAIRNESS_KEYS / part }),
            misses: wanted(MISSES).then_some(misses::Plan { folder: None, limit }),
            delete_prefix: wanted(DELETE_PREFIX).then(|| delete_prefix::Case {
                keys: DELETE_KEYS / part,
                memory: DELETE_MEMORY / part,
                duration: delete_duration,
                engines: ENGINES.map(str::to_owned).to_vec(),
            }),
            takeover: wanted(TAKEOVER).then(|| takeover::Case {
                keys: TAKEOVER_KEYS / part,
                memory: TAKEOVER_MEMORY / part,
                duration: TAKEOVER_DURATION,
                engines: ENGINES.map(str::to_owned).to_vec(),
            }),
            instructions: wanted(INSTRUCTIONS)
                .then(|| instructions::Plan { against: None, engines: ENGINES.map(str::to_owned).to_vec() }),
            routers: routers::Plan {
                loads: routers::loads().into_iter().filter(|spec| is_named(spec.name)).collect(),
                latency: wanted(ROUTER_LATENCY).then(|| routers::loads()[0].clone()),
                idle: wanted(ROUTER_IDLE).then_some(idle::Case {
                    name: ROUTER_IDLE,
                    connections: IDLE_CONNECTIONS,
                    wire: Wire::Tcp,
                }),
            },
            idle: idle.into_iter().filter(|case| wanted(case.name)).collect(),
            open: all.iter().find(|spec| spec.name == OPEN_LOAD && wanted(OPEN)).cloned(),
            loads: all
                .into_iter()
                .filter(|spec| wanted(spec.name))
                .map(|spec| LoadSpec { settle: spec.settle / part, ..spec })
                .collect(),
            memory: cases,
            equal: if wanted(ITEMS) { vec![memory::production(memory)?] } else { Vec::new() },
        })
    }
}

/// Every name that can be selected.
fn names(loads: &[LoadSpec]) -> Vec<&str> {
    let parts = [
        OPEN,
        MEMORY,
        MEMORY_STAMPED,
        MEMORY_SIZES,
        ITEMS,
        IDLE,
        IDLE_TLS,
        METADUMP,
        FAIRNESS,
        MISSES,
        DELETE_PREFIX,
        TAKEOVER,
        INSTRUCTIONS,
        ROUTER_LATENCY,
        ROUTER_IDLE,
    ];
    let of_routers = routers::loads().map(|spec| spec.name);
    loads.iter().map(|spec| spec.name).chain(parts).chain(of_routers).collect()
}

/// A line for each part: its name and what it is.
///
/// # Errors
/// Never in practice: the loads are constants.
pub fn described() -> Result<Vec<(String, String)>, LoadError> {
    let about = |spec: &LoadSpec| {
        let when = if loads::FEW.contains(&spec.name) { " (only when named)" } else { "" };
        format!("{}{when}", spec.about)
    };
    let mut lines: Vec<(String, String)> =
        loads::all()?.iter().map(|spec| (spec.name.to_owned(), about(spec))).collect();
    lines.extend(
        [
            (OPEN, "open loop of gets over 50 connections at half of memcached's saturated rate: p99.9"),
            (MEMORY, "resident size / curr_items after 25 M distinct sets (16 + 32 bytes) into 1 GiB"),
            (MEMORY_STAMPED, "memory, with 4-byte flags and an exptime"),
            (MEMORY_SIZES, "memory, for 20 memory limits between 0.5 and 2 GiB (only when named)"),
            (ITEMS, "number of items of CacheLib's kvcache_reg at equal resident size"),
            (IDLE, "resident bytes per connection, for 10,000 connections that are idle after one request"),
            (IDLE_TLS, "idle-connections, for 1,000 connections with TLS"),
            (METADUMP, "get32 over 10 M items, without and with a concurrent lru_crawler metadump all"),
            (FAIRNESS, "p99 of a client with single gets while other clients send heavy requests (only when named)"),
            (MISSES, "misses on real traces, compared with memcached at equal resident size (only when named; --traces)"),
            (DELETE_PREFIX, "delete by prefix of 1 M of 10 M items under load, by engine (only when named; --engines)"),
            (TAKEOVER, "longest wait of a client during a takeover of 3.4 M items of 1 KiB, by engine (only when named; --engines)"),
            (INSTRUCTIONS, "instructions per operation, by engine, under valgrind (only when named; --engines, --against)"),
            (ROUTER_LATENCY, "latency that routers add to gets at a tenth of nutcracker's saturated rate (only when named; --routers)"),
            (ROUTER_IDLE, "resident bytes of a router per client, for 10,000 idle clients (only when named; --routers)"),
        ]
        .map(|(name, about)| (name.to_owned(), about.to_owned())),
    );
    let of_routers = |spec: &LoadSpec| {
        (
            spec.name.to_owned(),
            format!("routers with four servers: {} (only when named; --routers)", spec.about),
        )
    };
    lines.extend(routers::loads().iter().map(of_routers));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{Scale, Selection, described};

    fn named(only: &[&str]) -> Selection {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        Selection::named(&only, Scale::Full).unwrap()
    }

    #[test]
    fn parts_are_found_by_name_and_unknown_ones_refused() {
        let some = named(&["set32", "get1"]);
        assert_eq!(some.loads.iter().map(|spec| spec.name).collect::<Vec<_>>(), ["get1", "set32"]);
        assert!(
            some.open.is_none() && some.memory.is_empty() && some.equal.is_empty() && some.idle.is_empty()
        );
        let error = Selection::named(&["get33".to_owned()], Scale::Full).unwrap_err().to_string();
        assert!(error.contains("get32") && error.contains("memory-sizes"), "{error}");
    }

    #[test]
    fn everything_but_the_long_parts_is_the_default() {
        let all = named(&[]);
        assert_eq!((all.memory.len(), all.equal.len(), all.open.is_some()), (2, 1, true));
        assert_eq!((all.idle.len(), all.dump.is_some(), all.misses.is_some()), (2, true, false));
        assert!(
            named(&["fairness"]).fairness.is_some_and(|plan| plan.keys == 500_000) && all.fairness.is_none()
        );
        assert!(named(&["misses"]).misses.is_some_and(|plan| plan.limit.is_none()));
        assert!(all.delete_prefix.is_none() && all.takeover.is_none() && all.instructions.is_none());
        let deleted = named(&["delete-prefix"]).delete_prefix.unwrap();
        assert_eq!((deleted.keys, deleted.engines.len()), (10_000_000, 4));
        assert!(named(&["instructions"]).instructions.is_some_and(|plan| plan.against.is_none()));
        let dumped = named(&["metadump"]).dump.unwrap().load;
        assert_eq!((dumped.data.keys, dumped.pipeline), (10_000_000, 32));
        assert_eq!(named(&["memory-sizes"]).memory.len(), 20);
        assert!(all.loads.iter().all(|spec| !spec.name.ends_with("-few")));
        assert_eq!(named(&["set32-few"]).loads[0].data.keys, 10_000);
        assert_eq!(described().unwrap().len(), all.loads.len() + 21);
    }

    #[test]
    fn routers_are_measured_only_when_they_are_named() {
        let all = named(&[]).routers;
        assert!(all.loads.is_empty() && all.latency.is_none() && all.idle.is_none());
        let some = named(&["router-mget100", "router-idle"]);
        assert!(some.loads.is_empty());
        assert_eq!(some.routers.loads.iter().map(|spec| spec.name).collect::<Vec<_>>(), ["router-mget100"]);
        assert!(some.routers.idle.is_some_and(|case| case.connections == 10_000));
        assert!(named(&["router-latency"]).routers.latency.is_some_and(|spec| spec.name == "router-get1"));
    }
}
