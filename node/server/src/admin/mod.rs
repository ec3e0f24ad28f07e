//! What is asked about the server rather than about its items: stats, flush_all, version, verbosity.

use crate::VERSION;
use crate::settings::Settings;
use crate::shared::{Shared, WorkerCount};
use guira_commands::CommandCount;
use guira_contract::{Engine, EngineStats};
use guira_protocol::ReplyBuffer;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The server, as a conversation may ask about it.
pub(crate) trait Admin: Send + Sync + fmt::Debug {
    /// Items stored now are gone at `at`.
    fn flush(&self, now: Seconds, at: Seconds);
    /// Answers `stats` with these arguments.
    fn stats(&self, arguments: &[u8], reply: &mut ReplyBuffer);
    /// Sets how much is logged.
    fn set_verbosity(&self, level: u32);
    /// The answer to `version`.
    fn version_line(&self) -> String {
        format!("VERSION {VERSION}")
    }
}

/// Answers for an engine.
pub(crate) struct EngineAdmin<E> {
    engine: E,
    shared: Arc<Shared>,
    settings: Settings,
    /// What the counters said when they were last reset.
    base: Mutex<Base>,
}

#[derive(Debug, Default)]
struct Base {
    commands: Vec<u64>,
    bytes_read: u64,
    bytes_written: u64,
    total_connections: u64,
}

impl<E> fmt::Debug for EngineAdmin<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EngineAdmin").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The most verbose level that is told apart.
const VERBOSITY_MAX: u32 = 2;

impl<E: Engine> EngineAdmin<E> {
    pub(crate) fn new(engine: E, shared: Arc<Shared>, settings: Settings) -> Self {
        EngineAdmin { engine, shared, settings, base: Mutex::default() }
    }

    fn reset(&self) {
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        base.commands = CommandCount::ALL.iter().map(|what| self.shared.command_sum(*what)).collect();
        base.bytes_read = self.shared.worker_sum(WorkerCount::BytesRead);
        base.bytes_written = self.shared.worker_sum(WorkerCount::BytesWritten);
        base.total_connections = self.shared.connections.total.load(Ordering::Relaxed);
        self.engine.reset_stats();
    }

    fn general(&self, out: &mut Lines<'_>) {
        let base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let (shared, connections) = (&self.shared, &self.shared.connections);
        process(out, shared);
        let current = connections.current.load(Ordering::Relaxed);
        out.stat("max_connections", connections.limit);
        out.stat("curr_connections", current);
        out.stat("total_connections", connections.total.load(Ordering::Relaxed) - base.total_connections);
        out.stat("rejected_connections", connections.rejected.load(Ordering::Relaxed));
        out.stat("connection_structures", current);
        out.stat("response_obj_oom", 0);
        out.stat("read_buf_oom", 0);
        out.stat("reserved_fds", 8 + 2 * shared.workers.len());
        for (index, what) in CommandCount::ALL.iter().enumerate() {
            let before = base.commands.get(index).copied().unwrap_or(0);
            out.stat(what.name(), shared.command_sum(*what).saturating_sub(before));
        }
        out.stat("auth_cmds", 0);
        out.stat("auth_errors", 0);
        out.stat("bytes_read", shared.worker_sum(WorkerCount::BytesRead) - base.bytes_read);
        out.stat("bytes_written", shared.worker_sum(WorkerCount::BytesWritten) - base.bytes_written);
        out.stat("limit_maxbytes", self.settings.memory);
        out.stat("accepting_conns", u32::from(current < connections.limit));
        out.stat("listen_disabled_num", connections.full.load(Ordering::Relaxed));
        out.stat("time_in_listen_disabled_us", 0);
        out.stat("threads", shared.workers.len());
        out.stat("conn_yields", shared.worker_sum(WorkerCount::Yields));
        engine(out, &self.engine.stats());
    }

    fn items(&self, out: &mut Lines<'_>) {
        for class in self.engine.stats().classes {
            let mut item = |name: &str, value: u64| out.stat(&format!("items:{}:{name}", class.id), value);
            item("number", class.used_chunks);
            item("evicted", class.evicted);
            item("mem_requested", class.used_chunks * class.chunk_size);
        }
    }

    fn slabs(&self, out: &mut Lines<'_>) {
        let stats = self.engine.stats();
        for class in &stats.classes {
            let mut slab = |name: &str, value: u64| out.stat(&format!("{}:{name}", class.id), value);
            slab("chunk_size", class.chunk_size);
            slab("chunks_per_page", class.chunks_per_page);
            slab("total_pages", class.pages);
            slab("total_chunks", class.used_chunks + class.free_chunks);
            slab("used_chunks", class.used_chunks);
            slab("free_chunks", class.free_chunks);
        }
        out.stat("active_slabs", stats.classes.len());
        out.stat("total_malloced", stats.memory_used - stats.index_bytes);
    }
}

impl<E: Engine> Admin for EngineAdmin<E> {
    fn flush(&self, now: Seconds, at: Seconds) {
        self.engine.flush(now, at);
    }

    fn stats(&self, arguments: &[u8], reply: &mut ReplyBuffer) {
        let text = String::from_utf8_lossy(arguments);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut out = Lines(reply);
        match words.as_slice() {
            [] => self.general(&mut out),
            ["settings"] => self.settings.tell(|name, value| out.stat(name, value)),
            ["items"] => self.items(&mut out),
            ["slabs"] => self.slabs(&mut out),
            ["reset"] => {
                self.reset();
                return reply.line("RESET");
            }
            _ => return reply.line("ERROR"),
        }
        reply.line("END");
    }

    fn set_verbosity(&self, level: u32) {
        self.shared.verbosity.store(level.min(VERBOSITY_MAX), Ordering::Relaxed);
    }
}

/// Writes `STAT` lines.
struct Lines<'a>(&'a mut ReplyBuffer);

impl Lines<'_> {
    fn stat(&mut self, name: &str, value: impl fmt::Display) {
        self.0.line(&format!("STAT {name} {value}"));
    }
}

/// What is to be told of the process.
fn process(out: &mut Lines<'_>, shared: &Shared) {
    out.stat("pid", std::process::id());
    out.stat("uptime", shared.started.elapsed().as_secs());
    out.stat("time", shared.clock.now_unix());
    out.stat("version", VERSION);
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

/// What is to be told of the engine, by memcached's names where it has one.
fn engine(out: &mut Lines<'_>, stats: &EngineStats) {
    let power = stats.index_slots.max(1).ilog2();
    out.stat("hash_power_level", power);
    out.stat("hash_bytes", stats.index_bytes);
    out.stat("hash_is_expanding", u32::from(stats.index_growing));
    out.stat("slabs_moved", stats.pages_moved);
    out.stat("slab_global_page_pool", stats.pages_free);
    out.stat("crawler_reclaimed", stats.crawler_reclaimed);
    out.stat("crawler_items_checked", stats.crawler_checked);
    out.stat("malloc_fails", 0);
    out.stat("bytes", stats.bytes);
    out.stat("curr_items", stats.items);
    out.stat("total_items", stats.total_items);
    out.stat("expired_unfetched", stats.expired_unfetched);
    out.stat("evicted_unfetched", stats.evicted_unfetched);
    out.stat("evictions", stats.evictions);
    out.stat("reclaimed", stats.reclaimed);
    out.stat("index_slots", stats.index_slots);
    out.stat("index_growths", stats.index_growths);
    out.stat("index_evictions", stats.index_evictions);
    out.stat("index_displacements", stats.displacements);
    out.stat("read_retries", stats.read_retries);
    out.stat("hand_steps", stats.hand_steps);
    out.stat("memory_limit", stats.memory_limit);
    out.stat("memory_used", stats.memory_used);
}
