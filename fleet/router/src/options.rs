//! The options of a router.

use crate::client_limit::ClientLimit;
use crate::failures::Failures;
use crate::spool::LogOptions;
use crate::variations::Variations;
use guira_control::EtcdOptions;
use guira_discovery::Source;
use guira_routing::Settings;
use guira_sandbox::SystemCalls;
use guira_serving::{ClusterNode, Listen};
use guira_transport::{TlsClientOptions, TlsName, TlsOptions};
use guira_upstream::{HealthOptions, Keepalive};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a router.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    pub listen: Vec<Listen>,
    /// The length of the queue of unaccepted connections.
    pub backlog: u32,
    /// The addresses for gets in datagrams.
    pub udp: Vec<SocketAddr>,
    /// Without it, no client uses TLS.
    pub client_tls: Option<TlsOptions>,
    pub server_tls: ServerTls,
    pub workers: usize,
    pub source: Source,
    /// Parameters for macros of the configuration. Later ones override earlier ones and those of
    /// the router.
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
    /// The DNS server to use instead of the system's.
    pub dns_server: Option<SocketAddr>,
    /// The etcd cluster with the pools that configurations name as `etcd:NAME`.
    pub etcd: Option<EtcdOptions>,
    /// The time after which a server that has left its pool's SRV record is dropped.
    pub srv_hold_down: Duration,
    /// The nodes that clients discover as routers; the router's own addresses if empty.
    pub cluster_nodes: Vec<ClusterNode>,
    /// The address of the admin listener, and the file with the token that its clients send.
    pub admin: Option<Listen>,
    pub admin_token_file: Option<PathBuf>,
    /// Where the last valid configuration is saved.
    pub dump: Option<Dump>,
    /// The log of failed deletes; `None` logs none.
    pub deletes: Option<LogOptions>,
    pub stats_files: Option<StatsFilesOptions>,
    /// The calls that the router may make once it serves.
    pub system_calls: SystemCalls,
    /// As `stats` shows it.
    pub command_line: String,
    /// All options in effect, by name, for clients that request them.
    pub shown: Vec<(String, String)>,
}

/// Where the last valid configuration is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    pub root: PathBuf,
    /// An older configuration is not used; `None` accepts any age.
    pub age_max: Option<Duration>,
}

/// The files of statistics, and the interval of writing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsFilesOptions {
    pub root: PathBuf,
    pub interval: Duration,
    /// A JSON file with the names of the pools to include.
    pub pools: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct ServerTls {
    pub options: TlsClientOptions,
    /// The name in the certificates of all servers; `None` is the host of each.
    pub identity: Option<TlsName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub service: String,
    pub router: String,
}

/// Limits; 0 is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: u64,
    pub client_requests: u32,
    /// Requests of a worker without a reply from one server: the sum of both, if the first is not
    /// 0.
    pub server_inflight: u32,
    pub server_pending: u32,
    /// Requests of a worker in flight, and the clients that wait beyond that; further ones are
    /// refused.
    pub worker_inflight: u32,
    pub worker_throttled: u32,
    /// The bytes that partial requests and unread replies of all clients may take; always limited.
    pub connection_memory: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    All,
    /// Gets; other requests are answered as by a NullRoute.
    Gets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    Refused,
    /// All servers of the configuration are flushed.
    PassedOn,
}

/// How changes of files are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloading {
    /// The interval of checks in addition to the system's notifications.
    pub poll: Duration,
    /// The wait after a change, so that it is complete.
    pub delay: Duration,
    pub watches: Watches,
}

/// Whether files are watched, or read again on a signal only.
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
