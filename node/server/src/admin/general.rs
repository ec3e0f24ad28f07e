//! `stats` and `stats reset`.

use super::Admin;
use super::lines::{ENGINE, FIRST, Figures, LIMITS, Line, REGION, TLS, WATCHERS};
use super::text::Lines;
use crate::counters::{ServerCount, WorkerCount};
use guira_commands::CommandCount;
use guira_contract::EngineStats;
use guira_sync::atomic::Ordering;
use guira_sync::metrics::{Kind, Metric, Unit};

/// Counters of memcached for parts that Guira lacks: LRU lists and their maintainer thread, long
/// items in chunks, network queues. Always 0, for programs that use them.
pub(super) const ABSENT: &[Metric] = &[
    absent("lrutail_reflocked", None),
    absent("lru_bumps_dropped", None),
    absent("lru_maintainer_juggles", None),
    absent("evicted_active", None),
    absent("moves_to_cold", Some("memcached_lru_crawler_moves_to_cold_total")),
    absent("moves_to_warm", Some("memcached_lru_crawler_moves_to_warm_total")),
    absent("moves_within_lru", Some("memcached_lru_crawler_moves_within_lru_total")),
    absent("slab_reassign_inline_reclaim", None),
    absent("slab_reassign_busy_items", None),
    absent("slab_reassign_busy_deletes", None),
    absent("slab_reassign_busy_nomem", None),
    absent("round_robin_fallback", None),
    absent("unexpected_napi_ids", None),
];

/// A figure of memcached's that is always 0 here. Where the exporter shows it, so does `/metrics`.
pub(super) const fn absent(name: &'static str, exported: Option<&'static str>) -> Metric {
    Metric { name, unit: Unit::Count, kind: Kind::Counter, meaning: "Always 0.", exported }
}

/// Metrics of the engine that are shown elsewhere, or only if there is a region.
pub(super) const ELSEWHERE: &[&str] = &["memory_reserve", "policy_item_bytes", "region_no_room"];

impl Admin {
    pub(super) fn reset(&self) {
        let _no_other_reset = self.statistics.reset();
        let (connections, budget) = (&self.host.connections, &self.host.budget);
        for count in
            [&connections.full, &connections.waited_us, &budget.closed_sending, &budget.closed_receiving]
        {
            count.store(0, Ordering::Relaxed);
        }
        self.control.reset_stats();
        self.observers.prefixes.reset();
        if let Some(advisor) = &self.observers.advisor {
            advisor.reset();
        }
        if let Some(top_keys) = &self.observers.top_keys {
            top_keys.reset(self.clock.now());
        }
        // Last: earlier values must not come back.
        self.differences.reset();
    }

    /// The figures from which the values of the lines are computed.
    pub(super) fn figures<'a>(&'a self, engine: &'a EngineStats) -> Figures<'a> {
        Figures {
            host: &self.host,
            clock: &self.clock,
            hub: &self.observers.hub,
            statistics: &self.statistics,
            counted: self.statistics.counted(),
            engine,
            memory: self.verbs.memory.bytes(),
            dropped: self.settings.dropped(),
        }
    }

    pub(super) fn general(&self, out: &mut Lines<'_>) {
        let stats = self.control.stats();
        let figures = self.figures(&stats);
        self.each_general(&figures, |metric, value| out.stat(metric.name, value));
    }

    /// Passes all lines of `stats` to `emit`, in memcached's order.
    pub(super) fn each_general(&self, figures: &Figures<'_>, mut emit: impl FnMut(&Metric, &str)) {
        let counted = &figures.counted;
        of_lines(FIRST, figures, &mut emit);
        for (metric, value) in CommandCount::ROWS.iter().zip(counted.commands) {
            emit(metric, &value.to_string());
        }
        let workers = WorkerCount::ROWS.iter().zip(counted.workers);
        for ((metric, value), what) in workers.zip(WorkerCount::ALL) {
            if what != WorkerCount::Yields && self.is_shown(what) {
                emit(metric, &value.to_string());
            }
        }
        of_lines(LIMITS, figures, &mut emit);
        let yields = WorkerCount::Yields as usize;
        emit(&WorkerCount::ROWS[yields], &counted.workers[yields].to_string());
        for (metric, value) in ServerCount::ROWS.iter().zip(counted.server) {
            emit(metric, &value.to_string());
        }
        [WATCHERS, TLS, ENGINE].into_iter().for_each(|lines| of_lines(lines, figures, &mut emit));
        for (metric, value) in figures.engine.rows().filter(|(row, _)| !ELSEWHERE.contains(&row.name)) {
            emit(metric, &value.to_string());
        }
        ABSENT.iter().for_each(|metric| emit(metric, "0"));
        of_lines(REGION, figures, &mut emit);
    }

    /// Whether the server counts this at all: what belongs to an option that is not used is not shown.
    fn is_shown(&self, what: WorkerCount) -> bool {
        match what {
            WorkerCount::IdleKicks => self.options.idle_limit().is_some(),
            WorkerCount::Datagrams => self.settings.udp_port != 0,
            WorkerCount::MicaDatagrams
            | WorkerCount::MicaRequests
            | WorkerCount::MicaMalformed
            | WorkerCount::MicaDropped
            | WorkerCount::MicaUnsent
            | WorkerCount::MicaMoved
            | WorkerCount::MicaMisdirected => self.options.serves_mica(),
            WorkerCount::Forwarded => self.control.partitioning().is_some(),
            _ => true,
        }
    }

    /// How many of MICA's datagrams each worker finds at once: `worker:size`, where a size stands for those down to half of it.
    pub(super) fn bursts(&self, out: &mut Lines<'_>) {
        for (index, worker) in self.statistics.workers().iter().enumerate() {
            for (most, count) in worker.bursts.counts() {
                out.stat(&format!("{index}:{most}"), count);
            }
        }
    }
}

/// Passes lines with their values to `emit`.
pub(super) fn of_lines(lines: &[Line], figures: &Figures<'_>, emit: &mut impl FnMut(&Metric, &str)) {
    for line in lines {
        if let Some(value) = (line.value)(figures) {
            emit(&line.metric, &value);
        }
    }
}

impl Lines<'_> {
    pub(super) fn lines(&mut self, lines: &[Line], figures: &Figures<'_>) {
        of_lines(lines, figures, &mut |metric, value| self.stat(metric.name, value));
    }
}
