//! `stats` and `stats reset`.

use super::lines::{ENGINE, FIRST, Figures, LIMITS, Line, REGION, TLS, WATCHERS};
use super::{Admin, Lines};
use crate::counters::{ServerCount, WorkerCount};
use guira_commands::CommandCount;
use guira_contract::EngineStats;
use guira_sync::atomic::Ordering;
use std::sync::PoisonError;

/// What memcached counts of parts that are not here: lists in order of use and the thread that maintains them, chunks of long
/// items that are moved out of a page, network queues. Always 0, for programs that compute with them.
pub(super) const ABSENT: &[&str] = &[
    "lrutail_reflocked",
    "lru_bumps_dropped",
    "lru_maintainer_juggles",
    "evicted_active",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_busy_nomem",
    "round_robin_fallback",
    "unexpected_napi_ids",
];

/// Metrics of the engine that are shown elsewhere, or only if there is a region.
pub(super) const ELSEWHERE: &[&str] = &["memory_reserve", "policy_item_bytes", "region_no_room"];

impl Admin {
    pub(super) fn reset(&self) {
        let mut since = self.shared.since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = self.shared.counter_values();
        let (connections, budget) = (&self.shared.connections, &self.shared.budget);
        for count in
            [&connections.full, &connections.waited_us, &budget.closed_sending, &budget.closed_receiving]
        {
            count.store(0, Ordering::Relaxed);
        }
        self.control.reset_stats();
        self.shared.prefixes.reset();
        if let Some(advisor) = &self.shared.advisor {
            advisor.reset();
        }
    }

    /// What the values of lines are taken from.
    pub(super) fn figures<'a>(&'a self, engine: &'a EngineStats) -> Figures<'a> {
        Figures {
            shared: &self.shared,
            counted: self.shared.counted(),
            engine,
            memory: self.memory.load(Ordering::Relaxed),
            dropped: self.settings.dropped,
        }
    }

    pub(super) fn general(&self, out: &mut Lines<'_>) {
        let stats = self.control.stats();
        let figures = self.figures(&stats);
        out.lines(FIRST, &figures);
        for what in CommandCount::ALL {
            out.stat(what.name(), figures.counted.commands[what as usize]);
        }
        let worker = |out: &mut Lines<'_>, what: WorkerCount| {
            out.stat(what.name(), figures.counted.workers[what as usize]);
        };
        for what in WorkerCount::ALL {
            if what != WorkerCount::Yields && self.is_shown(what) {
                worker(out, what);
            }
        }
        out.lines(LIMITS, &figures);
        worker(out, WorkerCount::Yields);
        for what in ServerCount::ALL {
            out.stat(what.name(), figures.counted.server[what as usize]);
        }
        [WATCHERS, TLS, ENGINE].into_iter().for_each(|lines| out.lines(lines, &figures));
        for (metric, value) in stats.rows().filter(|(metric, _)| !ELSEWHERE.contains(&metric.name)) {
            out.stat(metric.name, value);
        }
        ABSENT.iter().for_each(|name| out.stat(name, 0));
        out.lines(REGION, &figures);
    }

    /// Whether the server counts this at all: what belongs to an option that is not used is not shown.
    fn is_shown(&self, what: WorkerCount) -> bool {
        match what {
            WorkerCount::IdleKicks => self.shared.options.idle_limit().is_some(),
            WorkerCount::Datagrams => self.settings.udp_port != 0,
            WorkerCount::MicaDatagrams
            | WorkerCount::MicaRequests
            | WorkerCount::MicaMalformed
            | WorkerCount::MicaDropped
            | WorkerCount::MicaUnsent
            | WorkerCount::MicaMoved
            | WorkerCount::MicaMisdirected => self.shared.options.serves_mica(),
            WorkerCount::Forwarded => self.control.partitioning().is_some(),
            _ => true,
        }
    }

    /// How many of MICA's datagrams each worker finds at once: `worker:size`, where a size stands for those down to half of it.
    pub(super) fn bursts(&self, out: &mut Lines<'_>) {
        for (worker, sizes) in self.shared.bursts.iter().enumerate() {
            for (most, count) in sizes.counts() {
                out.stat(&format!("{worker}:{most}"), count);
            }
        }
    }
}

impl Lines<'_> {
    pub(super) fn lines(&mut self, lines: &[Line], figures: &Figures<'_>) {
        for line in lines {
            if let Some(value) = (line.value)(figures) {
                self.stat(line.metric.name, value);
            }
        }
    }
}
