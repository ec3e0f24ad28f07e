//! The options of a server, one row each. The field of [`Options`], `guira serve --help`, the configuration file, `--print-config`,
//! docs/reference/options.md and the lines of `stats settings` follow from the row.
//!
//! ```text
//! /// What it does, for --help, docs/reference/options.md and the field.
//! name: Type = default, "NAME OF THE VALUE"
//!     , more_help(|| …)                             a text behind the help, if it comes from another table
//!     , names(|| …)                                 the names with which the value can begin, for shell completion
//!     , absent("the behaviour without the option")  if the default cannot be written as a value
//!     , must("be within", |value| …)                the allowed values, if the type allows more
//!     , example("value")                            where the default is no example, and the type no switch
//!     , stats("name" => value)                      its line in `stats settings`; the value in the type's syntax, if left out
//!     ;
//! ```

use super::value::{AdminAddress, Delimiter, FileMode, yes};
use super::{default_memory, listen_default, policies};
use crate::direct::Interface;
use crate::profile::Profile;
use crate::size::Size;
use guira_advice::Worth;
use guira_roster::{
    Choice, DEFAULT_ENGINE, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, RegionPlace, SHORT_LIVED_MAX,
};
use guira_sandbox::SystemCalls;
use guira_serving::{AtLimit, ClusterNode, Listen, Speaks};
use guira_transport::{CipherList, MinVersion, VerifyMode};
use std::net::SocketAddr;
use std::path::PathBuf;

super::options! {
    "Addresses" {
        /// Address to listen on: IP:PORT, [v6]:PORT (port 0 takes a free port) or unix:PATH, with the optional
        /// prefixes notls: btls: mtls: proto[ascii|binary]: tag[NAME]:; may be repeated
        listen: Vec<Listen> = listen_default(), "ADDR";

        /// Address for memcached's UDP frames: IP:PORT; may be repeated
        udp: Vec<SocketAddr> = Vec::new(), "ADDR", absent("nowhere"), example("127.0.0.1:11211");

        /// Give each worker its own UDP port, counting up from the given one
        udp_port_per_worker: bool = false, "BOOL",
            stats("num_threads_per_udp" => |o| Some(if o.udp_port_per_worker { 1 } else { o.workers }.to_string()));

        /// Address for MICA's datagrams (docs/reference/protocol-mica.md): IP:PORT; worker n uses PORT + n; may be
        /// repeated
        mica: Vec<SocketAddr> = Vec::new(), "ADDR", absent("nowhere"), example("127.0.0.1:11311");

        /// Receive the MICA datagrams of this interface by AF_XDP, past the kernel's network stack (as root):
        /// NAME[:mode=auto|native|generic]
        xdp: Option<Interface> = None, "INTERFACE[:mode=MODE]", example("eth0"),
            stats("xdp" => |o| Some(o.xdp.as_ref().map_or("none".to_owned(), ToString::to_string)));

        /// Serve MICA's datagrams to clients on this host through shared memory: the UNIX socket for their connections
        /// (docs/reference/protocol-mica.md)
        local: Option<PathBuf> = None, "PATH", absent("nowhere"), example("/run/guira/local"),
            stats("local" => |o| Some(o.local.as_ref().map_or("none".to_owned(), |path| path.display().to_string())));

        /// Take over from the running server with the same PATH, if there is one: its sockets, its connections without
        /// TLS, and the region; then listen at PATH for a successor. Not with mica, xdp and local
        takeover: Option<PathBuf> = None, "PATH", absent("no takeover"), example("/run/guira/takeover"),
            stats("takeover" => |o| Some(o.takeover.as_ref().map_or("none".to_owned(), |path| path.display().to_string())));

        /// Permissions of UNIX sockets, in octal
        unix_mode: FileMode = FileMode(0o700), "MODE", stats("umask");

        /// Maximum connections that wait to be accepted
        backlog: u32 = 1024, "N", stats("tcp_backlog");

        /// Protocols: auto, ascii or binary
        protocol: Speaks = Speaks::Any, "NAME", stats("binding_protocol" => |o| Some(o.protocol.name().to_owned()));

        /// A node in the reply to `config get cluster`, by which clients of ElastiCache find all nodes: HOST:PORT; a name
        /// stands for all its addresses; may be repeated
        cluster_nodes: Vec<ClusterNode> = Vec::new(), "HOST:PORT",
            absent("no reply but ERROR; with profile elasticache, this server's own addresses"), example("cache1.example:11211");
    }

    "Admin listener" {
        /// Serve metrics, readiness and a page over HTTP: IP:PORT or [v6]:PORT, a PORT on 127.0.0.1, or unix:PATH,
        /// with the optional prefixes notls: btls: mtls:; with tls-cert it uses TLS
        admin: Option<AdminAddress> = None, "[IP:]PORT", absent("nowhere"), example("127.0.0.1:9150");

        /// Require the token in this file for metrics (Authorization: Bearer …)
        admin_token_file: Option<PathBuf> = None, "FILE", absent("no token"), example("/etc/guira/admin-token");
    }

    "TLS and users" {
        /// Use TLS on TCP with this certificate and its chain (PEM); not on listeners with notls:
        tls_cert: Option<PathBuf> = None, "FILE", absent("no TLS"), example("/etc/guira/server.pem"),
            stats("ssl_enabled" => |o| Some(yes(o.tls_cert.is_some()))), stats("ssl_chain_cert" => |o| o.show_tls(&o.tls_cert));

        /// The certificate's private key (PEM)
        tls_key: Option<PathBuf> = None, "FILE", absent("in the file of tls-cert"), example("/etc/guira/server.key"),
            stats("ssl_key" => |o| o.show_tls(&o.tls_key));

        /// Authorities for client certificates (PEM)
        tls_ca: Option<PathBuf> = None, "FILE", example("/etc/guira/ca.pem"), stats("ssl_ca_cert" => |o| o.show_tls(&o.tls_ca));

        /// Client certificates: 0 none, 1 optional, 2 or 3 required
        tls_verify: VerifyMode = VerifyMode::None, "MODE", stats("ssl_verify_mode" => |o| o.show_tls(&o.tls_verify));

        /// Minimum TLS version: tlsv1.2 or tlsv1.3
        tls_min_version: MinVersion = MinVersion::Tls12, "VERSION",
            stats("ssl_min_version" => |o| o.show_tls(&o.tls_min_version));

        /// Cipher suites, separated by colons, by their standard or OpenSSL names
        tls_ciphers: Option<CipherList> = None, "NAMES", absent("all"), example("TLS_AES_256_GCM_SHA384"),
            stats("ssl_ciphers" => |o| o.show_tls(&o.tls_ciphers.clone().filter(|list| *list != CipherList::default())));

        /// Let returning clients resume their session
        tls_resumption: bool = false, "BOOL", stats("ssl_session_cache" => |o| o.show_tls(&o.tls_resumption));

        /// Require a login by a user of this file, which has lines of the form user:password
        auth_file: Option<PathBuf> = None, "FILE", absent("no login"), example("/etc/guira/users"),
            // Both protocols share the users; the enabled protocols decide which of them requires a
            // login.
            stats("auth_enabled_sasl" => |o| Some(yes(o.auth_file.is_some() && o.protocol != Speaks::Text))),
            stats("auth_enabled_ascii" => |o| {
                let file = o.auth_file.as_ref().filter(|_| o.protocol != Speaks::Binary);
                Some(file.map_or("no".to_owned(), |path| path.display().to_string()))
            });

        /// Change to this user once everything that may need root has been read
        user: Option<String> = None, "NAME", example("guira");

        /// System calls that the server may make once it serves: all, or those that it needs (listed). Other calls then
        /// return an error and are logged (docs/reference/system-calls.md)
        system_calls: SystemCalls = SystemCalls::All, "WHICH", names(|| vec!["all", "listed"]), stats("system_calls");
    }

    "Threads and memory" {
        /// Worker threads, each with its own event loop
        workers: usize = guira_sync::thread::available_parallelism().map_or(1, usize::from), "N", absent("one per processor"),
            must("1 to 1024", |workers| (1..=1024).contains(workers)), stats("num_threads");

        /// Pin each worker to its own processor
        pin_workers: bool = false, "BOOL";

        /// Memory limit of the whole process, as a number with K, M, G, T or KiB, MiB, …
        memory: Size = default_memory(), "SIZE", absent("a quarter of the machine, or of what its container may have, at most 1GiB");

        /// Maximum to which the memory limit can be raised while the server runs
        reserve: Option<Size> = None, "SIZE",
            absent("four times the memory and at least 8GiB, at most the machine's"), example("64GiB");

        /// Keep items here across an orderly stop (SIGTERM, SIGUSR1): a path, or a name for /dev/shm/guira-NAME
        region: Option<RegionPlace> = None, "NAME|PATH", example("main"), stats("memory_file");

        /// Request huge pages
        huge_pages: Option<bool> = None, "BOOL", absent("from 64MiB on");

        /// Lock items and index in memory, so that they are never swapped out
        lock_memory: bool = false, "BOOL";
    }

    "Engine" {
        /// Engine:
        engine: String = DEFAULT_ENGINE.to_owned(), "NAME",
            more_help(|| format!(" {}", Choice::names().collect::<Vec<_>>().join(", "))),
            names(|| Choice::names().collect());

        /// Index instead of the engine's default: cuckoo[:depth=N,paths=N,versions=N], chained[:versions=N],
        /// lock-free, locked-buckets, lossy[:partitions=1 to 256], bulk-chained[:partitions=1 to 256]
        index: Option<String> = None, "NAME[:key=value,…]", absent("the engine's own"), example("cuckoo:depth=5");

        /// Eviction policy instead of the engine's default. With lock-free and locked-buckets: bucket-clock[:bits=1 to
        /// 8]. With lossy: fifo, approx-lru, lru. With bulk-chained: none. With cuckoo and chained, one of these, with
        /// its options as key=value:
        policy: Option<String> = None, "NAME[:key=value,…]", more_help(policies), names(|| Choice::policies().map(|(name, _)| name).collect()),
            absent("auto with memc3 and classic, the engine's own with others"), example("s3-fifo:small_pct=10");

        /// Access of workers to a partition of mica: one worker reads and writes (erew), one worker writes and all
        /// read (crew), all read and write (crcw)
        access: Option<String> = None, "MODE", names(|| vec!["erew", "crew", "crcw"]), absent("crcw, with mica and mica-store"), example("erew");

        /// Maximum size of an item, counted as with memcached's -I: 1KiB to 1GiB
        max_item_size: Size = Size(1 << 20), "SIZE", must("1KiB to 1GiB", |size| (1024..=1 << 30).contains(&size.0)),
            stats("item_size_max");

        /// Growth factor of slab classes, as memcached's -f; above 1; not with mica, which has no classes
        growth_factor: f64 = DEFAULT_FACTOR, "FACTOR",
            must("above 1 and at most 1024", |factor| *factor > 1.0 && *factor <= 1024.0),
            stats("growth_factor" => |o| o.of_engine("growth-factor", format!("{:.2}", o.growth_factor)));

        /// Bytes of key, value and flags that fit into the smallest chunk, as with memcached's -n; not with mica
        smallest_item: u32 = DEFAULT_SMALLEST_ITEM as u32, "BYTES",
            stats("chunk_size" => |o| o.of_engine("smallest-item", o.smallest_item.to_string()));

        /// Remove items with a lifetime of at most this many seconds in the second in which they expire; 0 leaves them
        /// to the crawler. Uses a 200th of the memory. Not with mica and mica-store
        short_lived: u32 = 0, "SECONDS", must("at most 600", |seconds| *seconds <= SHORT_LIVED_MAX),
            stats("short_lived" => |o| o.of_engine("short-lived", o.short_lived.to_string()));

        /// When memory is full, refuse stores instead of evicting
        disable_evictions: bool = false, "BOOL",
            stats("evictions" => |o| Some(if o.disable_evictions { "off" } else { "on" }.to_owned()));

        /// Disable cas uniques, as memcached's -C: they are shown as 0, and cas stores nothing
        disable_cas: bool = false, "BOOL", stats("cas_enabled" => |o| Some(yes(!o.disable_cas)));
    }

    "Leases" {
        /// Minimum milliseconds between two lease tokens for a key
        lease_interval: u32 = 10_000, "MILLISECONDS",
            must("from 1 to 3600000", |interval| (1..=3_600_000).contains(interval)), stats("lease_interval");

        /// Keep deleted values for this many seconds as stale values, which lease-get and mg see; 0 keeps none
        stale_values: u32 = 0, "SECONDS", stats("stale_values");

        /// Use the number after the key of a delete, which memcached ignores: clients cannot add the key for this many
        /// seconds
        delete_hold_off: bool = false, "BOOL", stats("delete_hold_off");
    }

    "Connections" {
        /// Maximum concurrent connections
        max_connections: u64 = 1024, "N", must("at least 1", |max| *max > 0), stats("maxconns");

        /// Treatment of connections above the maximum: refuse (an error, then closed) or wait
        beyond_max: AtLimit = AtLimit::Refused, "WHAT",
            stats("maxconns_fast" => |o| Some(yes(o.beyond_max == AtLimit::Refused)));

        /// Memory of all connections together for partial requests and unread replies
        connection_memory: Option<Size> = None, "SIZE", absent("a 128th of the memory, from 1MiB to 16MiB; a 32nd of less than 32MiB, at least 256KiB"), example("32MiB"),
            // One request that has arrived in part must find room.
            must("at least 64KiB", |size| size.is_none_or(|size| size.0 >= 64 << 10)),
            stats("read_buf_mem_limit" => |o| Some(o.connection_memory.map_or(0, |size| size.0).to_string()));

        /// Close a connection that has been idle for this many seconds; 0: never
        idle_timeout: u32 = 0, "SECONDS", stats("idle_timeout");

        /// At a stop, wait at most this many seconds for requests and replies in progress
        drain_timeout: u32 = 5, "SECONDS", must("at most 3600", |seconds| *seconds <= 3600), stats("drain_timeout");
    }

    "Permissions of clients" {
        /// Allow the command shutdown
        enable_shutdown: bool = false, "BOOL", stats("shutdown_command");

        /// Refuse flush_all
        disable_flush_all: bool = false, "BOOL", stats("flush_enabled" => |o| Some(yes(!o.disable_flush_all)));

        /// Refuse commands that list keys: stats cachedump, stats detail, lru_crawler metadump and mgdump
        disable_dumping: bool = false, "BOOL", stats("dump_enabled" => |o| Some(yes(!o.disable_dumping)));

        /// Refuse watch
        disable_watch: bool = false, "BOOL", stats("watch_enabled" => |o| Some(yes(!o.disable_watch)));

        /// Refuse what a service refuses, for tests of applications: none, elasticache (nodes) or elasticache-serverless,
        /// which needs tls-cert (docs/guide/from-elasticache.md)
        profile: Profile = Profile::None, "NAME", names(Profile::names), example("elasticache"), stats("profile");

        /// Enable debugtime and debugitem: for tests of clients, never in production
        test_commands: bool = false, "BOOL";
    }

    "Logs and advice" {
        /// Size of the log buffer of each watching client
        watcher_buffer: Size = Size(256 << 10), "SIZE", stats("watcher_logbuf_size");

        /// Size of each worker's log buffer
        worker_log_buffer: Size = Size(64 << 10), "SIZE", stats("worker_logbuf_size");

        /// Count requests by the key prefix that ends at this character (stats detail), from the start
        prefix_delimiter: Option<Delimiter> = None, "CHAR", absent("':', once a client asks for it"), example("/");

        /// Disable the sampling of requests for the choice of the policy and, from 43MiB on, for stats mrc; this saves
        /// a sixty-fourth of the memory. The policy auto then keeps its first policy
        disable_advice: bool = false, "BOOL";

        /// Aim of the policy auto and of the division of memory among item sizes: objects, few reads that miss, or
        /// bytes, few bytes that are missed
        worth: Worth = Worth::Objects, "AIM", names(|| Worth::NAMES.to_vec()), stats("worth");

        /// Disable the sampling of requests for the most requested keys (stats topkeys); disable-dumping implies it
        disable_top_keys: bool = false, "BOOL", stats("top_keys_enabled" => |o| Some(yes(o.shows_top_keys())));
    }
}
