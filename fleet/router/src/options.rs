//! What a router is started with.

use crate::client_limit::ClientLimit;
use crate::cluster::ClusterNode;
use crate::failures::Failures;
use crate::spool::LogOptions;
use crate::variations::Variations;
use guira_control::EtcdOptions;
use guira_discovery::Source;
use guira_routing::Settings;
use guira_serving::Listen;
use guira_transport::{TlsClientOptions, TlsName, TlsOptions};
use guira_upstream::{HealthOptions, Keepalive};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a router is started with.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    pub listen: Vec<Listen>,
    /// Connections that wait to be accepted.
    pub backlog: u32,
    /// Where gets in datagrams are taken.
    pub udp: Vec<SocketAddr>,
    /// Without it, clients do not speak TLS.
    pub client_tls: Option<TlsOptions>,
    pub server_tls: ServerTls,
    pub workers: usize,
    pub source: Source,
    /// Parameters for macros of the configuration; later ones take precedence, and the router's own.
    pub config_params: Vec<(String, String)>,
    pub variations: Variations,
    pub settings: Settings,
    pub identity: Identity,
    pub health: HealthOptions,
    pub keepalive: Option<Keepalive>,
    pub limits: Limits,
    pub failures: Failures,
    pub flushes: Flushes,
    pub operations: Operations,
    pub version: String,
    pub reloading: Reloading,
    /// The DNS server that names are looked up with, in place of the system's.
    pub dns_server: Option<SocketAddr>,
    /// Where pools are kept that configurations call `etcd:NAME`.
    pub etcd: Option<EtcdOptions>,
    /// How long a server is kept that has left the SRV record of its pool.
    pub srv_hold_down: Duration,
    /// The nodes that clients receive when they look for routers; the router's own addresses, if there are none.
    pub cluster_nodes: Vec<ClusterNode>,
    /// Where the admin listener is, and the file of the token that its clients show.
    pub admin: Option<Listen>,
    pub admin_token_file: Option<PathBuf>,
    /// The last good configuration on disk.
    pub dump: Option<Dump>,
    /// Deletes that fail are logged, unless there is nothing here.
    pub deletes: Option<LogOptions>,
    pub stats_files: Option<StatsFilesOptions>,
    /// As `stats` shows it.
    pub command_line: String,
    /// All options in effect, by name, as clients may ask for them.
    pub shown: Vec<(String, String)>,
}

/// The last good configuration on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    pub root: PathBuf,
    /// An older one is not used. Without it, any age is accepted.
    pub age_max: Option<Duration>,
}

/// Where statistics are written, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsFilesOptions {
    pub root: PathBuf,
    pub interval: Duration,
    /// A JSON file with the names of pools that are written too.
    pub pools: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct ServerTls {
    pub options: TlsClientOptions,
    /// What all servers are called; without it, each by its host.
    pub identity: Option<TlsName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub service: String,
    pub router: String,
}

/// How much may be under way; without limit where it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: u64,
    pub client_requests: u32,
    /// Requests of a worker that one server has not answered: the sum of both, if the first is not 0.
    pub server_inflight: u32,
    pub server_pending: u32,
    /// Requests of a worker, and clients of it that wait beyond that; further ones are refused.
    pub worker_inflight: u32,
    pub worker_throttled: u32,
    /// What all clients' requests in part, and replies that are not taken, may hold, in bytes; always limited.
    pub connection_memory: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    All,
    /// Gets; others are answered as by a NullRoute.
    Gets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    Refused,
    /// All servers of the configuration are flushed.
    PassedOn,
}

/// When a change of files is acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloading {
    /// How often files are looked at beside what the system says of itself.
    pub poll: Duration,
    /// How long is waited after a change, so that it is complete.
    pub delay: Duration,
    pub watches: Watches,
}

/// Whether files are watched, or read again only when a signal asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watches {
    Files,
    Nothing,
}

impl RouterOptions {
    pub(crate) fn client_limit(&self) -> ClientLimit {
        ClientLimit::of_process(self.workers, self.limits.connections, self.limits.connection_memory)
    }
}
