//! `stats settings`.

use super::{Admin, Lines};
use crate::options::{Options, UdpPorts};
use crate::shared::WorkerCount;
use guira_commands::Uniques;
use guira_contract::Dropped;
use guira_roster::{DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, RegionPlace};
use guira_serving::{Beyond, Speaks};
use guira_sync::atomic::Ordering;
use guira_transport::{Address, CipherList, Resumption, TlsOptions};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The settings of a server, as far as they do not change.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    tcp_port: u16,
    udp_port: u16,
    listen: String,
    unix_path: Option<String>,
    mica: String,
    /// What was damaged of the region when it was opened, if there is one.
    pub(super) dropped: Option<Dropped>,
}

impl Settings {
    /// What is counted of datagrams, as far as they are served: memcached's are, or MICA's.
    pub(super) fn counts_of_datagrams(&self) -> &'static [WorkerCount] {
        const ALL: [WorkerCount; 8] = [
            WorkerCount::Datagrams,
            WorkerCount::MicaDatagrams,
            WorkerCount::MicaRequests,
            WorkerCount::MicaMalformed,
            WorkerCount::MicaDropped,
            WorkerCount::MicaUnsent,
            WorkerCount::MicaMoved,
            WorkerCount::MicaMisdirected,
        ];
        match (self.udp_port != 0, self.options.serves_mica()) {
            (false, false) => &[],
            (true, false) => &ALL[..1],
            (false, true) => &ALL[1..],
            (true, true) => &ALL,
        }
    }

    /// Where MICA's datagrams are taken from.
    fn tell_datagrams(&self, out: &mut Lines<'_>) {
        out.stat("mica", if self.mica.is_empty() { "none" } else { &self.mica });
        out.stat("xdp", self.options.xdp.as_ref().map_or("none".to_owned(), ToString::to_string));
        out.stat(
            "local",
            self.options.local.as_ref().map_or("none".to_owned(), |path| path.display().to_string()),
        );
    }

    /// The settings of a server that was started with `options` and listens at these addresses. `dropped` is what was damaged of its region.
    pub(crate) fn new(
        options: &Options,
        addresses: &[Address],
        udp: &[SocketAddr],
        mica: &[SocketAddr],
        dropped: Option<Dropped>,
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
            options: options.clone(),
            tcp_port: tcp_port.unwrap_or(0),
            udp_port: udp.first().map_or(0, SocketAddr::port),
            listen: addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(","),
            unix_path,
            mica: mica.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","),
            dropped,
        }
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

impl Admin {
    pub(super) fn tell_settings(&self, out: &mut Lines<'_>) {
        let Settings { options, .. } = &self.settings;
        let permissions = options.permissions;
        let relaxed = Ordering::Relaxed;
        out.stat("maxbytes", self.memory.load(relaxed));
        out.stat("maxconns", options.connections.max);
        out.stat("tcpport", self.settings.tcp_port);
        out.stat("udpport", self.settings.udp_port);
        self.settings.tell_datagrams(out);
        out.stat("inter", &self.settings.listen);
        out.stat("verbosity", self.shared.verbosity.load(relaxed));
        out.stat("oldest", 0);
        let storage = &options.storage;
        out.stat("evictions", if storage.eviction == Eviction::On { "on" } else { "off" });
        out.stat("domain_socket", self.settings.unix_path.as_deref().unwrap_or("NULL"));
        out.stat("umask", format!("{:o}", options.unix_mode));
        out.stat("shutdown_command", yes(permissions.shutdown));
        if options.engine.has_classes() {
            out.stat("growth_factor", format!("{:.2}", storage.factor.unwrap_or(DEFAULT_FACTOR)));
            out.stat("chunk_size", storage.smallest_item.unwrap_or(DEFAULT_SMALLEST_ITEM));
        }
        let region = storage.region.as_ref().map_or("NULL".to_owned(), RegionPlace::to_string);
        out.stat("memory_file", region);
        out.stat("num_threads", options.workers);
        let shared_ports = options.udp_ports == UdpPorts::Shared;
        out.stat("num_threads_per_udp", if shared_ports { options.workers } else { 1 });
        out.stat("stat_key_prefix", self.shared.prefixes.delimiter());
        out.stat("detail_enabled", yes(self.shared.prefixes.is_on()));
        out.stat("watcher_logbuf_size", options.log.watcher);
        out.stat("worker_logbuf_size", options.log.worker);
        out.stat("cas_enabled", yes(options.uniques == Uniques::Kept));
        out.stat("tcp_backlog", options.backlog);
        out.stat("binding_protocol", options.speaks.name());
        // Users are the same in both protocols; who may log in is a question of which is spoken.
        let file = options.auth_file.as_ref().map(|path| path.display().to_string());
        out.stat("auth_enabled_sasl", yes(file.is_some() && options.speaks != Speaks::Text));
        let ascii = file.as_deref().filter(|_| options.speaks != Speaks::Binary);
        out.stat("auth_enabled_ascii", ascii.unwrap_or("no"));
        out.stat("item_size_max", options.max_item_size.0);
        out.stat("maxconns_fast", yes(options.connections.beyond == Beyond::Refused));
        // None was given: the index finds its own.
        out.stat("hashpower_init", 0);
        out.stat("slab_reassign", "yes");
        out.stat("slab_automove", self.automove.load(relaxed));
        out.stat("lru_crawler", yes(self.crawler.load(relaxed)));
        out.stat("lru_crawler_sleep", self.crawler_sleep.load(relaxed));
        out.stat("lru_crawler_tocrawl", self.crawler_tocrawl.load(relaxed));
        // There is nothing to repair: no item is held by anybody.
        out.stat("tail_repair_time", 0);
        out.stat("flush_enabled", yes(permissions.flush_all));
        out.stat("dump_enabled", yes(permissions.dump));
        out.stat("watch_enabled", yes(permissions.watch));
        out.stat("hash_algorithm", "rapidhash");
        self.tell_lru(out);
        out.stat("idle_timeout", options.connections.idle.map_or(0, |idle| idle.as_secs()));
        out.stat("ssl_enabled", yes(options.tls.is_some()));
        if let Some(tls) = &options.tls {
            of_tls(out, tls);
        }
        out.stat("read_buf_mem_limit", options.connections.memory.map_or(0, |size| size.0));
        out.stat("track_sizes", "yes");
        out.stat("inline_ascii_response", "no");
        out.stat("num_napi_ids", 0);
        out.stat("client_flags_size", size_of::<u32>());
        out.stat("advice_enabled", yes(self.shared.advisor.is_some()));
        self.tell_engine(out);
    }
}

fn of_tls(out: &mut Lines<'_>, tls: &TlsOptions) {
    let name =
        |path: &Option<PathBuf>| path.as_ref().map_or("NULL".to_owned(), |path| path.display().to_string());
    out.stat("ssl_chain_cert", tls.chain.display());
    out.stat("ssl_key", name(&tls.key));
    out.stat("ssl_verify_mode", tls.verify.number());
    out.stat("ssl_keyformat", 1);
    let all = tls.ciphers == CipherList::default();
    out.stat("ssl_ciphers", if all { "NULL".to_owned() } else { tls.ciphers.to_string() });
    out.stat("ssl_wbuf_size", 16 << 10);
    out.stat("ssl_ca_cert", name(&tls.authorities));
    out.stat("ssl_session_cache", yes(tls.resumption == Resumption::Tickets));
    out.stat("ssl_kernel_tls", "no");
    out.stat("ssl_min_version", tls.min_version);
}
