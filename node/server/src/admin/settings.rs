//! `stats settings`.

use super::Admin;
use super::derived::start_of;
use super::text::Lines;
use crate::options::yes;
use guira_contract::{Dropped, Opening};
use guira_roster::Choice;
use guira_sync::atomic::{AtomicU32, Ordering};
use guira_transport::Address;
use std::net::SocketAddr;

/// The settings of a server that are fixed at its start.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) choice: Choice,
    tcp_port: u16,
    pub(super) udp_port: u16,
    listen: String,
    unix_path: Option<String>,
    mica: String,
    /// The state of the region when it was opened, if there is one.
    found: Option<Opening>,
    /// The level that clients have set. Relaxed: it is only shown.
    verbosity: AtomicU32,
}

const VERBOSITY_MAX: u32 = 2;

/// The order of the lines: memcached's, and then Guira's own. Names that are not here come after them.
const ORDER: &[&str] = &[
    "maxbytes",
    "maxconns",
    "tcpport",
    "udpport",
    "mica",
    "xdp",
    "local",
    "inter",
    "verbosity",
    "oldest",
    "evictions",
    "domain_socket",
    "umask",
    "shutdown_command",
    "growth_factor",
    "chunk_size",
    "memory_file",
    "num_threads",
    "num_threads_per_udp",
    "stat_key_prefix",
    "detail_enabled",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "cas_enabled",
    "tcp_backlog",
    "binding_protocol",
    "auth_enabled_sasl",
    "auth_enabled_ascii",
    "item_size_max",
    "maxconns_fast",
    "hashpower_init",
    "slab_reassign",
    "slab_automove",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "tail_repair_time",
    "flush_enabled",
    "dump_enabled",
    "watch_enabled",
    "hash_algorithm",
    "lru_maintainer_thread",
    "lru_segmented",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temp_lru",
    "temporary_ttl",
    "idle_timeout",
    "ssl_enabled",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_verify_mode",
    "ssl_keyformat",
    "ssl_ciphers",
    "ssl_wbuf_size",
    "ssl_ca_cert",
    "ssl_session_cache",
    "ssl_kernel_tls",
    "ssl_min_version",
    "read_buf_mem_limit",
    "track_sizes",
    "inline_ascii_response",
    "num_napi_ids",
    "client_flags_size",
    "advice_enabled",
];

/// Settings of memcached that are always the same here.
const FIXED: &[(&str, &str)] = &[
    ("oldest", "0"),
    // None was given: the index finds its own.
    ("hashpower_init", "0"),
    ("slab_reassign", "yes"),
    // There is nothing to repair: items are not referenced across requests.
    ("tail_repair_time", "0"),
    ("hash_algorithm", "rapidhash"),
    ("track_sizes", "yes"),
    ("inline_ascii_response", "no"),
    ("num_napi_ids", "0"),
    ("client_flags_size", "4"),
];

/// The fixed settings of a server with TLS.
const FIXED_OF_TLS: &[(&str, &str)] =
    &[("ssl_keyformat", "1"), ("ssl_wbuf_size", "16384"), ("ssl_kernel_tls", "no")];

impl Settings {
    /// The settings of a server that has this engine and listens at these addresses. `found` is the state of its region.
    pub(crate) fn new(
        choice: Choice,
        addresses: &[Address],
        udp: &[SocketAddr],
        mica: &[SocketAddr],
        found: Option<Opening>,
    ) -> Self {
        let tcp_port = addresses.iter().find_map(|address| match address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        });
        let unix_path = addresses.iter().find_map(|address| match address {
            Address::Unix(path) => Some(path.display().to_string()),
            Address::Tcp(_) => None,
        });
        Settings {
            choice,
            tcp_port: tcp_port.unwrap_or(0),
            udp_port: udp.first().map_or(0, SocketAddr::port),
            listen: addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(","),
            unix_path,
            mica: mica.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","),
            found,
            verbosity: AtomicU32::new(0),
        }
    }

    pub(super) fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level.min(VERBOSITY_MAX), Ordering::Relaxed);
    }

    pub(super) fn listen(&self) -> &str {
        &self.listen
    }

    /// The damage of the region when it was opened, if there is one.
    pub(super) fn dropped(&self) -> Option<Dropped> {
        self.found.as_ref().map(Opening::dropped)
    }

    /// Whether the start was warm, what it found of a region, and how many items.
    pub(super) fn start(&self) -> (&'static str, &'static str, u64) {
        start_of(self.found.as_ref())
    }
}

impl Admin {
    pub(super) fn show_settings(&self, out: &mut Lines<'_>) {
        let fixed = if self.host.tls.is_some() { FIXED_OF_TLS } else { &[] };
        let fixed = FIXED.iter().chain(fixed).map(|(name, value)| (*name, (*value).to_owned()));
        let all = self.options.settings().chain(self.current_settings()).chain(self.verbs.lru.settings());
        let mut all: Vec<(&str, String)> = all.chain(fixed).collect();
        let place = |name: &str| ORDER.iter().position(|other| *other == name).unwrap_or(ORDER.len());
        all.sort_by_cached_key(|(name, _)| place(name));
        all.iter().for_each(|(name, value)| out.stat(name, value));
        self.verbs.policy.show(out);
    }

    /// Settings that clients have changed since the start, or that the server determined.
    fn current_settings(&self) -> [(&'static str, String); 14] {
        let (settings, crawler) = (&self.settings, &self.verbs.crawler);
        let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise } else { text }.to_owned();
        [
            ("maxbytes", self.verbs.memory.bytes().to_string()),
            ("tcpport", settings.tcp_port.to_string()),
            ("udpport", settings.udp_port.to_string()),
            ("mica", or(&settings.mica, "none")),
            ("inter", settings.listen.clone()),
            ("verbosity", settings.verbosity.load(Ordering::Relaxed).to_string()),
            ("domain_socket", or(settings.unix_path.as_deref().unwrap_or_default(), "NULL")),
            ("stat_key_prefix", self.observers.prefixes.delimiter().to_string()),
            ("detail_enabled", yes(self.observers.prefixes.is_on())),
            ("slab_automove", self.verbs.slabs.automove().to_string()),
            ("lru_crawler", yes(crawler.is_enabled())),
            ("lru_crawler_sleep", crawler.sleep().to_string()),
            ("lru_crawler_tocrawl", crawler.tocrawl().to_string()),
            // Wanted, and there is memory for it.
            ("advice_enabled", yes(self.observers.advisor.is_some())),
        ]
    }
}
