//! Lines of `stats` that are not counted by name: gauges, and what other parts of the server count. A row each, in memcached's order.

use crate::VERSION;
use crate::counters::{CounterValues, TOTAL_CONNECTIONS};
use crate::statistics::Statistics;
use crate::watch::Hub;
use crate::worker::INPUT_BYTES;
use guira_contract::{ClassStats, Dropped, EngineStats};
use guira_serving::Host;
use guira_sync::atomic::Ordering::Relaxed;
use guira_sync::clock::CoarseClock;
use guira_sync::metrics::{Kind, Metric, Unit};
use guira_transport::{Resumption, TlsAcceptor, TlsFailure};
use guira_web::Usage;

/// The sources of the values.
pub(super) struct Figures<'a> {
    pub(super) host: &'a Host,
    pub(super) clock: &'a CoarseClock,
    pub(super) hub: &'a Hub,
    pub(super) statistics: &'a Statistics,
    /// The counters since the last reset.
    pub(super) counted: CounterValues,
    pub(super) engine: &'a EngineStats,
    /// The ceiling of the process, in bytes.
    pub(super) memory: u64,
    /// The damage of the region, if there is one.
    pub(super) dropped: Option<Dropped>,
}

/// A line of `stats`.
pub(super) struct Line {
    pub(super) metric: Metric,
    /// The value, if the line applies.
    pub(super) value: fn(&Figures<'_>) -> Option<String>,
}

/// A line of `stats items` or `stats slabs`, for each class.
pub(super) struct ClassLine {
    pub(super) metric: Metric,
    pub(super) value: fn(&ClassStats) -> u64,
}

/// Makes a table of lines: `"name", Kind, Unit, "meaning" => value;`.
macro_rules! lines {
    ($(#[$doc:meta])* $NAME:ident: $Row:ident $wrap:ident; $($name:expr, $Kind:ident, $Unit:ident, $meaning:literal $(as $exported:literal)? => $value:expr;)*) => {
        $(#[$doc])*
        pub(super) const $NAME: &[$Row] = &[$($Row {
            metric: Metric {
                name: $name,
                unit: Unit::$Unit,
                kind: Kind::$Kind,
                meaning: $meaning,
                exported: guira_sync::exported!($($exported)?),
            },
            value: lines!(@$wrap $value),
        },)*];
    };
    (@always $value:expr) => {
        |figures| {
            let value: fn(&Figures<'_>) -> _ = $value;
            Some(value(figures).to_string())
        }
    };
    (@sometimes $value:expr) => {
        |figures| {
            let value: fn(&Figures<'_>) -> Option<_> = $value;
            value(figures).map(|value| value.to_string())
        }
    };
    (@of_class $value:expr) => { $value };
}

lines! {
    /// The lines before the counts of commands.
    FIRST: Line always;
    "pid", Gauge, Text, "Process id." => |_| guira_sync::host::process();
    "uptime", Gauge, Seconds, "Time since the start of the server." as "memcached_uptime_seconds" => |it| it.statistics.uptime().as_secs();
    "time", Gauge, Seconds, "Time since 1970." as "memcached_time_seconds" => |it| it.clock.now_unix();
    "version", Gauge, Text, "The compatible version of memcached, and Guira's version." as "memcached_version" => |_| VERSION;
    "libevent", Gauge, Text, "none: the server has its own event loop." => |_| "none";
    "pointer_size", Gauge, Count, "Bits of a pointer." => |_| usize::BITS;
    "rusage_user", Counter, Seconds, "User time of the process." as "memcached_process_user_cpu_seconds_total" => |_| Usage::now().user;
    "rusage_system", Counter, Seconds, "System time of the process." as "memcached_process_system_cpu_seconds_total" => |_| Usage::now().system;
    "max_connections", Gauge, Count, "Maximum connections." as "memcached_max_connections" => |it| it.host.connections.max();
    "curr_connections", Gauge, Count, "Connections." as "memcached_current_connections" => |it| it.host.connections.current.load(Relaxed);
    TOTAL_CONNECTIONS, Counter, Count, "Connections accepted." as "memcached_connections_total" => |it| it.counted.total_connections;
    "rejected_connections", Counter, Count, "Connections refused because there were too many." as "memcached_connections_rejected_total" => |it| it.counted.rejected_connections;
    "connection_structures", Gauge, Count, "The same as curr_connections." => |it| it.host.connections.current.load(Relaxed);
    // Replies are no objects, and connections have no buffers to read into: each worker has one for all of them, which is in use
    // only while it reads.
    "response_obj_count", Gauge, Count, "Always 0." => |_| 0;
    "response_obj_bytes", Gauge, Bytes, "Always 0." => |_| 0;
    "read_buf_count", Gauge, Count, "Input buffers: one for each worker." => |it| it.statistics.workers().len();
    "read_buf_bytes", Gauge, Bytes, "Size of the input buffers." => |it| it.statistics.workers().len() * INPUT_BYTES;
    "read_buf_bytes_free", Gauge, Bytes, "The same as read_buf_bytes." => |it| it.statistics.workers().len() * INPUT_BYTES;
    "response_obj_oom", Counter, Count, "Connections closed because unread replies used up connection-memory." => |it| it.host.budget.closed_sending.load(Relaxed);
    "read_buf_oom", Counter, Count, "Connections closed because partial requests used up connection-memory." => |it| it.host.budget.closed_receiving.load(Relaxed);
    "conn_memory_used", Gauge, Bytes, "Used part of connection-memory." => |it| it.host.budget.usage().0;
    "conn_memory_pinned", Gauge, Bytes, "Items that replies in progress keep in memory." => |it| it.host.budget.usage().1;
    "conn_memory_limit", Gauge, Bytes, "Memory limit of connections: connection-memory." => |it| it.host.budget.usage().2;
    "reserved_fds", Gauge, Count, "Descriptors reserved for other purposes than connections." => |it| 8 + 2 * it.statistics.workers().len();
}

lines! {
    /// The lines between the counts of workers and their `conn_yields`.
    LIMITS: Line always;
    "limit_maxbytes", Gauge, Bytes, "Memory limit of the whole process." as "memcached_limit_bytes" => |it| it.memory;
    "accepting_conns", Gauge, Flag, "Whether the server accepts connections." as "memcached_accepting_connections" => |it| u32::from(!it.host.connections.waiting.load(Relaxed));
    "listen_disabled_num", Counter, Count, "Times the limit of connections was reached." as "memcached_connections_listener_disabled_total" => |it| it.host.connections.full.load(Relaxed);
    "time_in_listen_disabled_us", Counter, Microseconds, "Time in which the server accepted no connections." => |it| it.host.connections.waited_us.load(Relaxed);
    "threads", Gauge, Count, "Workers." => |it| it.statistics.workers().len();
}

lines! {
    /// The lines behind the counts of the server.
    WATCHERS: Line always;
    "log_watchers", Gauge, Count, "Watching clients." => |it| it.hub.watchers();
    "system_calls_refused", Counter, Count, "System calls refused because they are not listed; with system-calls = listed." => |_| guira_sandbox::refused();
}

lines! {
    /// The lines of a server with TLS.
    TLS: Line sometimes;
    "ssl_new_sessions", Counter, Count, "Full handshakes; with tls-resumption." => |it| {
        Some(tls(it).filter(|tls| tls.options().resumption == Resumption::Tickets)?.counters().full())
    };
    "ssl_resumed_sessions", Counter, Count, "Handshakes that resumed a session; with TLS." => |it| Some(tls(it)?.counters().resumed());
    "ssl_handshake_errors", Counter, Count, "Handshakes that failed; with TLS." => |it| Some(tls(it)?.counters().failed_handshakes());
    "ssl_proto_errors", Counter, Count, "Connections closed because of a TLS protocol error; with TLS." => |it| Some(tls(it)?.counters().failures(TlsFailure::Protocol));
    "time_since_server_cert_refresh", Gauge, Seconds, "Time since the certificate was read; with TLS." => |it| Some(it.clock.now_unix().saturating_sub(tls(it)?.status().loaded_at));
    "ssl_cert_reloads", Counter, Count, "Reloads of the certificate; with TLS." => |it| Some(tls(it)?.status().reloads);
    "ssl_cert_reload_errors", Counter, Count, "Failed reloads of the certificate; with TLS." => |it| Some(tls(it)?.status().failed_reloads);
    "ssl_cert_expires_in", Gauge, Seconds, "Time until the certificate expires; with TLS." => |it| Some(tls(it)?.status().not_after - it.clock.now_unix() as i64);
}

lines! {
    /// Lines of memcached's engine that have the same value as something else here.
    ENGINE: Line always;
    "hash_power_level", Gauge, Count, "Base-2 logarithm of index_slots." => |it| it.engine.index_slots.max(1).ilog2();
    "slab_reassign_last_busy_status", Gauge, Text, "Always none." => |_| "none";
    "malloc_fails", Counter, Count, "Always 0." => |_| 0;
    // The thread that stores makes room: no other one does.
    "direct_reclaims", Counter, Count, "The same as evictions." as "memcached_direct_reclaims_total" => |it| it.engine.evictions;
}

lines! {
    /// The lines of a server with a region.
    REGION: Line sometimes;
    "region_damaged_blocks", Gauge, Count, "Blocks of the region that the start found damaged; with region." => |it| Some(it.dropped?.blocks);
    "region_dropped_items", Gauge, Count, "Items dropped with damaged blocks; with region." => |it| Some(it.dropped?.items);
    "region_no_room", Counter, Count, "Times the file system of the region was full; with region." => |it| it.dropped.map(|_| it.engine.region_no_room);
}

lines! {
    /// The lines before the counts of a class in `stats items`.
    ITEMS: ClassLine of_class;
    "number", Gauge, Count, "Items." as "memcached_slab_current_items" => |class| class.items;
    // All items are of one kind: memcached's cold ones, which are evicted next.
    "number_cold", Gauge, Count, "The same as number." as "memcached_slab_cold_items" => |class| class.items;
    "age_hot", Gauge, Seconds, "Always 0." as "memcached_slab_hot_age_seconds" => |_| 0;
    "age_warm", Gauge, Seconds, "Always 0." as "memcached_slab_warm_age_seconds" => |_| 0;
    "age", Gauge, Seconds, "Time since the last use of the item that is next to be evicted." as "memcached_slab_items_age_seconds" => |class| class.age;
    "mem_requested", Gauge, Bytes, "Size of the items." as "memcached_slab_mem_requested_bytes" => |class| class.bytes;
}

lines! {
    ITEMS_LAST: ClassLine of_class;
    "direct_reclaims", Counter, Count, "The same as evicted." => |class| class.counts.evicted;
}

lines! {
    /// The lines before the counts of commands in `stats slabs`.
    SLABS: ClassLine of_class;
    "chunk_size", Gauge, Bytes, "Size of a chunk." as "memcached_slab_chunk_size_bytes" => |class| class.chunk_size;
    "chunks_per_page", Gauge, Count, "Chunks per page." as "memcached_slab_chunks_per_page" => |class| class.chunks_per_page;
    "total_pages", Gauge, Count, "Pages." as "memcached_slab_current_pages" => |class| class.pages;
    "total_chunks", Gauge, Count, "Chunks." as "memcached_slab_current_chunks" => |class| class.used_chunks + class.free_chunks;
    "used_chunks", Gauge, Count, "Chunks in use, or reserved by a worker." as "memcached_slab_chunks_used" => |class| class.used_chunks;
    "free_chunks", Gauge, Count, "Free chunks." as "memcached_slab_chunks_free" => |class| class.free_chunks;
    "age_weight_ppm", Gauge, Count, "Weight of the age of this class's items, in millionths of the largest weight: items of a class with a lower weight stay longer." => |class| class.age_weight_ppm;
    "free_chunks_end", Gauge, Count, "Always 0." as "memcached_slab_chunks_free_end" => |_| 0;
}

lines! {
    /// The lines behind all classes in `stats slabs`.
    SLABS_LAST: Line always;
    "active_slabs", Gauge, Count, "Classes that have pages." => |it| it.engine.classes.len();
    "total_malloced", Gauge, Bytes, "Memory of all pages." as "memcached_malloced_bytes" => |it| it.engine.memory_used.saturating_sub(it.engine.index_bytes);
}

fn tls<'a>(figures: &Figures<'a>) -> Option<&'a TlsAcceptor> {
    figures.host.tls.as_ref()
}
