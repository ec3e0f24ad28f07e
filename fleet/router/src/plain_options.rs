//! A router without anything special, for tests.

use crate::config::Source;
use crate::options::{FailedGets, Flushes, Identity, Limits, Reloading, RouterOptions, ServerTls, Watches};
use guira_routing::Settings;
use guira_transport::{NameCheck, Resumption, TlsClientOptions};
use guira_upstream::Health;
use std::time::Duration;

/// One worker, that goes by this configuration, and whose servers may take twenty seconds.
pub(crate) fn plain_options(config: String) -> RouterOptions {
    let settings = Settings::plain("/././", Duration::from_secs(20));
    let health = Health {
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
    let no_tls = TlsClientOptions {
        chain: None,
        key: None,
        authorities: None,
        names: NameCheck::Skipped,
        resumption: Resumption::Off,
    };
    RouterOptions {
        dns_server: None,
        etcd: None,
        cluster_nodes: Vec::new(),
        srv_hold_down: Duration::ZERO,
        listen: Vec::new(),
        udp: Vec::new(),
        client_tls: None,
        server_tls: ServerTls { options: no_tls, identity: None },
        failed_gets: FailedGets::AreErrors,
        flushes: Flushes::Refused,
        admin: None,
        admin_token_file: None,
        workers: 1,
        source: Source::Text(config),
        settings,
        identity: Identity { service: "s".into(), router: "r".into() },
        health,
        limits,
        reloading: Reloading { poll: Duration::ZERO, delay: Duration::ZERO, watches: Watches::Nothing },
        dump_root: None,
        deletes: None,
        command_line: String::new(),
        shown: Vec::new(),
    }
}
