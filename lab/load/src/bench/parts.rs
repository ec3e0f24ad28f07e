//! The table of the bench: a row for each property that is measured besides the loads.

use super::driver::Bench;
use super::idle::Case;
use super::memory::{self, measure_all, production, small, stamped, sweep};
use super::{
    Results, delete_prefix, dump, fairness, idle, instructions, misses, open_loop, routers, takeover,
};
use crate::error::LoadError;
use crate::server::Wire;

/// A property that is measured, with the code that measures it and stores the result.
#[derive(Debug)]
pub struct Part {
    pub name: &'static str,
    /// A short description for the list of parts.
    pub about: &'static str,
    pub when: When,
    pub(super) run: fn(&mut Bench<'_>, &mut Results) -> Result<(), LoadError>,
}

/// When a part runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only by name: it takes long, or starts more than servers. With its options for the list of
    /// parts.
    Named(&'static str),
}

/// All parts, in the order in which they run.
pub static PARTS: [Part; 15] = [
    Part {
        name: "open",
        about: "open loop of gets over 50 connections at half of memcached's saturated rate: p99.9",
        when: When::Always,
        run: |bench, results| open_loop::run(bench).map(|rows| results.open = rows),
    },
    Part {
        name: "memory",
        about: "resident size / curr_items after 25 M distinct sets (16 + 32 bytes) into 1 GiB",
        when: When::Always,
        run: |bench, results| {
            let case = small("memory", memory::allowed(bench.scale()), memory::keys(bench.scale()));
            measure_all(&[case], bench).map(|rows| results.memory.extend(rows))
        },
    },
    Part {
        name: "memory-stamped",
        about: "memory, with 4-byte flags and an exptime",
        when: When::Always,
        run: |bench, results| {
            let case = stamped("memory-stamped", memory::allowed(bench.scale()), memory::keys(bench.scale()));
            measure_all(&[case], bench).map(|rows| results.memory.extend(rows))
        },
    },
    Part {
        name: "memory-sizes",
        about: "memory, for 20 memory limits between 0.5 and 2 GiB",
        when: When::Named(""),
        run: |bench, results| {
            let cases = sweep(memory::allowed(bench.scale()), memory::keys(bench.scale()));
            measure_all(&cases, bench).map(|rows| results.memory.extend(rows))
        },
    },
    Part {
        name: "items",
        about: "number of items of CacheLib's kvcache_reg at equal resident size",
        when: When::Always,
        run: |bench, results| {
            let case = production(memory::allowed(bench.scale()))?;
            memory::measure_at_equal_size(&case, bench).map(|rows| results.equal = rows)
        },
    },
    Part {
        name: "idle-connections",
        about: "resident bytes per connection, for 10,000 connections that are idle after one request",
        when: When::Always,
        run: |bench, results| {
            let case = Case { name: "idle-connections", connections: idle::MANY, wire: Wire::Tcp };
            idle::run(case, bench).map(|rows| results.idle.extend(rows))
        },
    },
    Part {
        name: "idle-connections-tls",
        about: "idle-connections, for 1,000 connections with TLS",
        when: When::Always,
        run: |bench, results| {
            // Fewer connections, since each needs a handshake.
            let case = Case { name: "idle-connections-tls", connections: idle::MANY / 10, wire: Wire::Tls };
            idle::run(case, bench).map(|rows| results.idle.extend(rows))
        },
    },
    Part {
        name: "metadump",
        about: "get32 over 10 M items, without and with a concurrent lru_crawler metadump all",
        when: When::Always,
        run: |bench, results| dump::run(bench).map(|rows| results.dumped = rows),
    },
    Part {
        name: "fairness",
        about: "p99 of a client with single gets while other clients send heavy requests",
        when: When::Named(""),
        run: |bench, results| fairness::run(bench).map(|rows| results.fairness = rows),
    },
    Part {
        name: "misses",
        about: "misses on real traces, compared with memcached at equal resident size",
        when: When::Named("; --traces"),
        run: |bench, results| misses::run(bench).map(|rows| results.missed = rows),
    },
    Part {
        name: "delete-prefix",
        about: "delete by prefix of 1 M of 10 M items under load, by engine",
        when: When::Named("; --engines"),
        run: |bench, results| delete_prefix::run(bench).map(|rows| results.deleted = rows),
    },
    Part {
        name: "takeover",
        about: "longest wait of a client during a takeover of 3.4 M items of 1 KiB, by engine",
        when: When::Named("; --engines"),
        run: |bench, results| takeover::run(bench).map(|rows| results.taken_over = rows),
    },
    Part {
        name: "instructions",
        about: "instructions per operation, by engine, under valgrind",
        when: When::Named("; --engines, --against"),
        run: |bench, results| instructions::run(bench).map(|rows| results.counted = rows),
    },
    Part {
        name: "router-latency",
        about: "latency that routers add to gets at a tenth of nutcracker's saturated rate",
        when: When::Named("; --routers"),
        run: |bench, results| routers::latency(bench).map(|rows| results.routed.latency = rows),
    },
    Part {
        name: "router-idle",
        about: "resident bytes of a router per client, for 10,000 idle clients",
        when: When::Named("; --routers"),
        run: |bench, results| routers::idle(bench).map(|rows| results.routed.idle = rows),
    },
];
