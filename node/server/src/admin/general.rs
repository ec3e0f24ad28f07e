//! `stats` and `stats reset`.

use super::{Admin, Lines};
use crate::VERSION;
use crate::shared::{Shared, WorkerCount};
use crate::worker::INPUT_BYTES;
use guira_commands::CommandCount;
use guira_contract::EngineStats;
use guira_sync::atomic::Ordering;
use guira_transport::{Resumption, TlsAcceptor, TlsFailure};
use std::sync::PoisonError;

/// What memcached counts of parts that are not here: lists in order of use and the thread that looks after them, chunks of long
/// items that are moved out of a page, network queues. Always 0, so that whoever computes with them finds a number.
const ABSENT: &[&str] = &[
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

impl Admin {
    pub(super) fn reset(&self) {
        let mut base = self.shared.since.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = &self.shared.connections;
        base.commands = CommandCount::ALL.iter().map(|what| self.shared.command_sum(*what)).collect();
        base.workers = WorkerCount::ALL.iter().map(|what| self.shared.worker_sum(*what)).collect();
        base.total_connections = connections.total.load(Ordering::Relaxed);
        base.rejected_connections = connections.rejected.load(Ordering::Relaxed);
        let (room, log) = (&self.shared.budget, &self.shared.hub.counts);
        for count in [
            &connections.full,
            &connections.waited_us,
            &room.closed_sending,
            &room.closed_receiving,
            &log.dropped,
            &log.written,
            &log.skipped,
            &log.sent,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.control.reset_stats();
        self.shared.prefixes.reset();
        if let Some(advisor) = &self.shared.advisor {
            advisor.reset();
        }
    }

    pub(super) fn general(&self, out: &mut Lines<'_>) {
        let base = self.shared.since.lock().unwrap_or_else(PoisonError::into_inner);
        let (shared, connections) = (&self.shared, &self.shared.connections);
        let worker = |what: WorkerCount| {
            shared.worker_sum(what) - base.workers.get(what as usize).copied().unwrap_or(0)
        };
        process(out, shared);
        let current = connections.current.load(Ordering::Relaxed);
        let total = connections.total.load(Ordering::Relaxed) - base.total_connections;
        let rejected = connections.rejected.load(Ordering::Relaxed) - base.rejected_connections;
        out.stat("max_connections", connections.max);
        out.stat("curr_connections", current);
        out.stat("total_connections", total);
        out.stat("rejected_connections", rejected);
        out.stat("connection_structures", current);
        let (held, pinned, allowed) = shared.budget.usage();
        // Replies are no objects, and connections have no buffers to read into: each worker has one for all of them, which is in use
        // only while it reads.
        let buffers = shared.workers.len();
        out.stat("response_obj_count", 0);
        out.stat("response_obj_bytes", 0);
        out.stat("read_buf_count", buffers);
        out.stat("read_buf_bytes", buffers * INPUT_BYTES);
        out.stat("read_buf_bytes_free", buffers * INPUT_BYTES);
        out.stat("response_obj_oom", shared.budget.closed_sending.load(Ordering::Relaxed));
        out.stat("read_buf_oom", shared.budget.closed_receiving.load(Ordering::Relaxed));
        out.stat("conn_memory_used", held);
        out.stat("conn_memory_pinned", pinned);
        out.stat("conn_memory_limit", allowed);
        out.stat("reserved_fds", 8 + 2 * shared.workers.len());
        for (index, what) in CommandCount::ALL.iter().enumerate() {
            let before = base.commands.get(index).copied().unwrap_or(0);
            out.stat(what.name(), shared.command_sum(*what).saturating_sub(before));
        }
        out.stat("auth_cmds", worker(WorkerCount::AuthCommands));
        out.stat("auth_errors", worker(WorkerCount::AuthErrors));
        if shared.options.idle_limit().is_some() {
            out.stat("idle_kicks", worker(WorkerCount::IdleKicks));
        }
        out.stat("bytes_read", worker(WorkerCount::BytesRead));
        out.stat("bytes_written", worker(WorkerCount::BytesWritten));
        for what in self.counts_of_datagrams() {
            out.stat(what.name(), worker(*what));
        }
        if self.control.partitioning().is_some() {
            out.stat("forwarded_requests", worker(WorkerCount::Forwarded));
        }
        out.stat("limit_maxbytes", self.memory.load(Ordering::Relaxed));
        out.stat("accepting_conns", u32::from(!connections.waiting.load(Ordering::Relaxed)));
        out.stat("listen_disabled_num", connections.full.load(Ordering::Relaxed));
        out.stat("time_in_listen_disabled_us", connections.waited_us.load(Ordering::Relaxed));
        out.stat("threads", shared.workers.len());
        out.stat("conn_yields", worker(WorkerCount::Yields));
        let log = &shared.hub.counts;
        for (name, count) in [
            ("log_worker_dropped", &log.dropped),
            ("log_worker_written", &log.written),
            ("log_watcher_skipped", &log.skipped),
            ("log_watcher_sent", &log.sent),
            ("log_watchers", &log.watchers),
        ] {
            out.stat(name, count.load(Ordering::Relaxed));
        }
        if let Some(tls) = &shared.tls {
            tell_tls(out, tls, shared.clock.now_unix());
        }
        let stats = self.control.stats();
        engine(out, &stats);
        self.region(out, &stats);
    }
}

impl Admin {
    /// What is to be told of the region, if there is one.
    fn region(&self, out: &mut Lines<'_>, stats: &EngineStats) {
        if let Some(dropped) = self.settings.dropped {
            out.stat("region_damaged_blocks", dropped.blocks);
            out.stat("region_dropped_items", dropped.items);
            out.stat("region_no_room", stats.region_no_room);
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

/// What is to be told of TLS.
fn tell_tls(out: &mut Lines<'_>, tls: &TlsAcceptor, now: u64) {
    let (counters, status) = (tls.counters(), tls.status());
    if tls.options().resumption == Resumption::Tickets {
        out.stat("ssl_new_sessions", counters.handshakes() - counters.resumed());
    }
    out.stat("ssl_resumed_sessions", counters.resumed());
    out.stat("ssl_handshake_errors", counters.failed_handshakes());
    out.stat("ssl_proto_errors", counters.failures(TlsFailure::Protocol));
    out.stat("time_since_server_cert_refresh", now.saturating_sub(status.loaded_at));
    out.stat("ssl_cert_reloads", status.reloads);
    out.stat("ssl_cert_reload_errors", status.failed_reloads);
    out.stat("ssl_cert_expires_in", status.not_after - now as i64);
}

/// What is to be told of the process.
fn process(out: &mut Lines<'_>, shared: &Shared) {
    out.stat("pid", std::process::id());
    out.stat("uptime", shared.started.elapsed().as_secs());
    out.stat("time", shared.clock.now_unix());
    out.stat("version", VERSION);
    out.stat("libevent", "none");
    out.stat("pointer_size", usize::BITS);
    let (user, system) = cpu_times();
    out.stat("rusage_user", user);
    out.stat("rusage_system", system);
}

/// User and system time of the process in seconds, as `stats` writes them.
fn cpu_times() -> (String, String) {
    // Fields 14 and 15 of /proc/self/stat, counted after the name, which may contain blanks: in hundredths of a second.
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let seconds = |index: usize| {
        let ticks: u64 = fields.get(index).and_then(|field| field.parse().ok()).unwrap_or(0);
        format!("{}.{:06}", ticks / 100, ticks % 100 * 10_000)
    };
    (seconds(11), seconds(12))
}

/// Metrics of the engine that are told elsewhere, or only if there is a region.
const TOLD_ELSEWHERE: &[&str] = &["memory_reserve", "policy_item_bytes", "region_no_room"];

/// The engine's metrics, by the names of its table, and what memcached tells besides.
fn engine(out: &mut Lines<'_>, stats: &EngineStats) {
    out.stat("hash_power_level", stats.index_slots.max(1).ilog2());
    out.stat("slab_reassign_last_busy_status", "none");
    out.stat("malloc_fails", 0);
    // Whoever stores makes room: no other thread does it.
    out.stat("direct_reclaims", stats.evictions);
    for (metric, value) in stats.rows().filter(|(metric, _)| !TOLD_ELSEWHERE.contains(&metric.name)) {
        out.stat(metric.name, value);
    }
    ABSENT.iter().for_each(|name| out.stat(name, 0));
}
