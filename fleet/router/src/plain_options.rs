//! A router without anything special, for tests and simulated regions.

use crate::config::Source;
use crate::failures::{Detail, Failed, Failures, Syntax};
use crate::options::{Flushes, Identity, Limits, Operations, Reloading, RouterOptions, ServerTls, Watches};
use crate::variations::{ShardSplits, Variations};
use guira_routing::Settings;
use guira_sandbox::SystemCalls;
use guira_transport::TlsClientOptions;
use guira_upstream::HealthOptions;
use std::time::Duration;

/// One worker with this configuration; `timeout` is the limit for a reply of a server.
pub fn plain_options(config: String, timeout: Duration) -> RouterOptions {
    let settings = Settings::plain("/././", timeout);
    let health = HealthOptions {
        timeouts_until_tko: Some(3),
        soft_tkos_max: 0,
        probe_initial: Duration::from_secs(10),
        probe_max: Duration::from_secs(60),
        inactive_after: Duration::ZERO,
    };
    let limits = Limits {
        connections: 1,
        client_requests: 1,
        server_inflight: 0,
        server_pending: 0,
        worker_inflight: 0,
        worker_throttled: 0,
        connection_memory: 1 << 20,
    };
    RouterOptions {
        dns_server: None,
        etcd: None,
        cluster_nodes: Vec::new(),
        srv_hold_down: Duration::ZERO,
        listen: Vec::new(),
        udp: Vec::new(),
        client_tls: None,
        server_tls: ServerTls { options: TlsClientOptions::trusting(None), identity: None },
        failures: Failures {
            gets: Failed::AreErrors,
            arithmetic: Failed::AreErrors,
            detail: Detail::Cause,
            syntax: Syntax::Memcached,
        },
        flushes: Flushes::Refused,
        operations: Operations::All,
        version: "1.0.0 mcrouter".to_owned(),
        backlog: 16,
        keepalive: None,
        config_params: Vec::new(),
        variations: Variations { runtime_vars: None, shard_splits: ShardSplits::Used },
        admin: None,
        admin_token_file: None,
        workers: 1,
        source: Source::Text(config),
        settings,
        identity: Identity { service: "s".into(), router: "r".into() },
        health,
        limits,
        reloading: Reloading { poll: Duration::ZERO, delay: Duration::ZERO, watches: Watches::Nothing },
        dump: None,
        deletes: None,
        stats_files: None,
        system_calls: SystemCalls::All,
        command_line: String::new(),
        shown: Vec::new(),
    }
}
