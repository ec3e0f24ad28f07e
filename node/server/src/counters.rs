//! The counters of the server, beside those of commands and the engine: one row each. The rows
//! define `stats`, docs/reference/metrics.md, which counters `stats reset` resets, and which last
//! across a restart.

use guira_commands::CommandCount;
use guira_serving::TrafficCount;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::counters::Counters;

guira_sync::counters! {
    /// Counters of each worker; `stats` shows their sums.
    pub(crate) enum WorkerCount {
        AuthCommands = "auth_cmds", Count, "Logins.";
        AuthErrors = "auth_errors", Count, "Logins that failed.";
        IdleKicks = "idle_kicks", Count, "Connections closed because they were idle; with idle-timeout.";
        BytesRead = "bytes_read", Bytes, "Received from clients." as "memcached_read_bytes_total";
        BytesWritten = "bytes_written", Bytes, "Sent to clients." as "memcached_written_bytes_total";
        Datagrams = "udp_datagrams", Count, "Datagrams received; with udp.";
        MicaDatagrams = "mica_datagrams", Count, "MICA's datagrams received, by all paths; with mica or local.";
        MicaRequests = "mica_requests", Count, "Requests in MICA's datagrams; with mica or local.";
        MicaMalformed = "mica_malformed", Count, "MICA's datagrams that are truncated, too long, forged, or of another version; with mica or local.";
        MicaDropped = "mica_dropped", Count, "MICA's datagrams that the kernel dropped because they arrived faster than they were received; with mica or local.";
        MicaUnsent = "mica_unsent", Count, "Replies to MICA's datagrams that the system did not send; with mica or local.";
        MicaMoved = "mica_moved", Count, "MICA's datagrams from clients with another directory; with mica or local.";
        MicaMisdirected = "mica_misdirected", Count, "Requests in MICA's datagrams that belong to another worker; with mica or local.";
        Forwarded = "forwarded_requests", Count, "Requests executed for other workers; with mica.";
        Yields = "conn_yields", Count, "Turns of connections that ended with work left." as "memcached_connections_yielded_total";
    }
}

guira_sync::counters! {
    pub(crate) enum ServerCount {
        WorkerDropped = "log_worker_dropped", Count, "Log lines of workers that did not fit into the buffer.";
        WorkerWritten = "log_worker_written", Count, "Log lines written by workers.";
        WatcherSkipped = "log_watcher_skipped", Count, "Log lines that did not fit into a watcher's buffer.";
        WatcherSent = "log_watcher_sent", Count, "Log lines sent to watchers.";
        Takeovers = "takeovers", Count, "Successful takeovers up to this server; with takeover.";
        TakeoversFailed = "takeovers_failed", Count, "Takeovers that failed after the new server was ready, so that this server continued; with takeover.";
        ConnectionsTakenOver = "connections_taken_over", Count, "Connections taken over from previous servers; with takeover.";
        AuthFileErrors = "auth_file_reload_errors", Count, "Failed reloads of the auth file, after which the previous users remain.";
    }
}

impl WorkerCount {
    /// The matching counter of connections, if there is one.
    pub(crate) fn traffic(self) -> Option<TrafficCount> {
        match self {
            WorkerCount::BytesRead => Some(TrafficCount::BytesRead),
            WorkerCount::BytesWritten => Some(TrafficCount::BytesWritten),
            WorkerCount::Yields => Some(TrafficCount::Yields),
            WorkerCount::AuthCommands => Some(TrafficCount::AuthCommands),
            WorkerCount::AuthErrors => Some(TrafficCount::AuthErrors),
            WorkerCount::IdleKicks => Some(TrafficCount::IdleKicks),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct WorkerCounters(Counters<{ WorkerCount::COUNT }>);

impl WorkerCounters {
    /// Only the worker calls this.
    pub(crate) fn add(&self, counter: WorkerCount, amount: u64) {
        self.0.add(counter as usize, amount);
    }

    pub(crate) fn get(&self, counter: WorkerCount) -> u64 {
        self.0.get(counter as usize)
    }
}

/// The counters that any thread may add to. Relaxed: nothing follows from them.
#[derive(Debug)]
pub(crate) struct ServerCounters([AtomicU64; ServerCount::COUNT]);

impl Default for ServerCounters {
    fn default() -> Self {
        ServerCounters(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl ServerCounters {
    pub(crate) fn add(&self, counter: ServerCount, amount: u64) {
        self.0[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, counter: ServerCount) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

/// The values of all counters of the server, in the order of their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterValues {
    pub(crate) commands: [u64; CommandCount::COUNT],
    pub(crate) workers: [u64; WorkerCount::COUNT],
    pub(crate) server: [u64; ServerCount::COUNT],
    pub(crate) total_connections: u64,
    pub(crate) rejected_connections: u64,
}

impl Default for CounterValues {
    fn default() -> Self {
        CounterValues {
            commands: [0; CommandCount::COUNT],
            workers: [0; WorkerCount::COUNT],
            server: [0; ServerCount::COUNT],
            total_connections: 0,
            rejected_connections: 0,
        }
    }
}

impl CounterValues {
    /// These values less those of `since`.
    pub(crate) fn after(&self, since: &CounterValues) -> CounterValues {
        fn less<const N: usize>(all: [u64; N], since: [u64; N]) -> [u64; N] {
            std::array::from_fn(|index| all[index].saturating_sub(since[index]))
        }
        CounterValues {
            commands: less(self.commands, since.commands),
            workers: less(self.workers, since.workers),
            server: less(self.server, since.server),
            total_connections: self.total_connections.saturating_sub(since.total_connections),
            rejected_connections: self.rejected_connections.saturating_sub(since.rejected_connections),
        }
    }

    /// The counters that last, by name. The same name means the same in every version.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let commands = CommandCount::ALL.into_iter().map(CommandCount::name).zip(self.commands);
        let workers = WorkerCount::ALL.into_iter().map(WorkerCount::name).zip(self.workers);
        let server = ServerCount::ALL.into_iter().map(ServerCount::name).zip(self.server);
        let connections = [(TOTAL_CONNECTIONS, self.total_connections)];
        commands.chain(workers).chain(server).chain(connections)
    }
}

/// The name of the count of connections, which the acceptor counts.
pub(crate) const TOTAL_CONNECTIONS: &str = "total_connections";
