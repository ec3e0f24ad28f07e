//! What is said about a server: on the command line, in a TOML file, or in memcached's own words.

mod resolve;
mod words;

pub(crate) use resolve::ConfigError;

use clap::Args as _;
use guira_server::{Size, read_file};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// No configuration is as long.
const FILE_MAX: usize = 1 << 20;

/// What was said about a server; what was not said is `None`. The names are those of the command line, in a file too.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Told {
    /// Where to listen: IP:PORT, [v6]:PORT (port 0 takes a free one) or unix:PATH, after any of notls: btls: mtls: proto[ascii|binary]: tag[NAME]:; may be repeated [default: 127.0.0.1:11211]
    #[arg(long, value_name = "ADDR")]
    #[serde(deserialize_with = "words::list")]
    pub(crate) listen: Option<Vec<String>>,

    /// Where to take datagrams from (memcached's UDP frames): IP:PORT; may be repeated [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    #[serde(deserialize_with = "words::list")]
    pub(crate) udp: Option<Vec<String>>,

    /// Give each worker a UDP port of its own, counted up from the one named
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) udp_port_per_worker: Option<bool>,

    /// Where to take MICA's datagrams from (docs/protocol-mica.md): IP:PORT; each worker has a port, counted up from that one; may be
    /// repeated [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    #[serde(deserialize_with = "words::list")]
    pub(crate) mica: Option<Vec<String>>,

    /// Take MICA's datagrams that come by this interface past the kernel's network stack (AF_XDP; as root):
    /// NAME[:mode=auto|native|generic,copy=copy|zero,steering=every-queue|rules] [default: none]
    #[arg(long, value_name = "INTERFACE[:key=value,…]")]
    pub(crate) xdp: Option<String>,

    /// Serve MICA's datagrams of clients on this host, through memory that they share with the server: the UNIX socket where they
    /// meet it (docs/protocol-mica.md) [default: nowhere]
    #[arg(long, value_name = "PATH")]
    pub(crate) local: Option<String>,

    /// Permissions of UNIX sockets, in octal [default: 700]
    #[arg(long, value_name = "MODE")]
    pub(crate) unix_mode: Option<String>,

    /// Which protocols are spoken: auto, ascii or binary [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) protocol: Option<String>,

    /// Speak TLS on TCP, with this certificate and those that lead to its authority (PEM); listeners with notls: do not
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,

    /// The certificate's private key (PEM) [default: in the file of --tls-cert]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,

    /// Authorities that client certificates must come from (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<String>,

    /// Whether clients show a certificate: 0 none, 1 if they have one, 2 or 3 always [default: 0]
    #[arg(long, value_name = "MODE")]
    pub(crate) tls_verify: Option<String>,

    /// Oldest version of TLS: tlsv1.2 or tlsv1.3 [default: tlsv1.2]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls_min_version: Option<String>,

    /// Cipher suites, by the names of the standards or of OpenSSL, with colons between them [default: all]
    #[arg(long, value_name = "NAMES")]
    pub(crate) tls_ciphers: Option<String>,

    /// Let clients that come back resume their session
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) tls_resumption: Option<bool>,

    /// Ask every client for a user and password of this file, which has lines of the form user:password
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<String>,

    /// Become this user once everything that may need root has been read
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Threads that serve, each with an event loop of its own [default: one a processor]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,

    /// Keep each worker on a processor of its own
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) pin_workers: Option<bool>,

    /// Ceiling of the whole process, as a number with K, M, G, T or KiB, MiB, … [default: a quarter of the machine, at most 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,

    /// Engine: memc3, classic, fleec, memclock, mica, mica-store [default: memc3]
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,

    /// Index in place of the engine's own: cuckoo[:depth=N,paths=N,versions=N], chained[:versions=N], lock-free, locked-buckets,
    /// lossy[:partitions=1 to 256], bulk-chained[:partitions=1 to 256]
    #[arg(long, value_name = "NAME[:key=value,…]")]
    pub(crate) index: Option<String>,

    /// Replacement policy in place of the engine's own: clock[:bits=1|2], fifo, lru, lazy-lru[:interval=SECONDS,tail_reclaim=on|off],
    /// seg-lru[:hot_pct=N,warm_pct=N,hot_factor=X,warm_factor=X,temp_ttl=SECONDS,mode=flat|segmented],
    /// klru[:samples=N,priority=recency|frequency|hyperbolic], sieve, s3-fifo[:small_pct=N]; with lock-free bucket-clock[:bits=1 to 8];
    /// with lossy fifo, approx-lru, lru; with bulk-chained none
    #[arg(long, value_name = "NAME[:key=value,…]")]
    pub(crate) policy: Option<String>,

    /// Who may read and write a partition of mica: one worker (erew), one worker writes (crew), everybody (crcw) [default: crcw]
    #[arg(long, value_name = "MODE")]
    pub(crate) access: Option<String>,

    /// Largest item, counted as memcached's -I counts it: 1KiB to 1GiB [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_item_size: Option<Size>,

    /// Growth from one slab class to the next, as memcached's -f; more than 1; not with mica, which has no classes [default: 1.06]
    #[arg(long, value_name = "FACTOR")]
    pub(crate) growth_factor: Option<f64>,

    /// Bytes of key, value and flags that fit into the smallest chunk, as memcached's -n; not with mica [default: 16]
    #[arg(long, value_name = "BYTES")]
    pub(crate) smallest_item: Option<u32>,

    /// When memory is full, refuse to store instead of evicting
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_evictions: Option<bool>,

    /// Ask for huge pages, or do not [default: from 64MiB on]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) huge_pages: Option<bool>,

    /// Keep items and index in memory: never swap them out
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) lock_memory: Option<bool>,

    /// The most that the memory limit can be raised to while the server runs [default: four times the memory and at least 8GiB, at most the machine's]
    #[arg(long, value_name = "SIZE")]
    pub(crate) reserve: Option<Size>,

    /// Keep items here across an orderly stop (SIGTERM, SIGUSR1): a path, or a name for /dev/shm/guira-NAME
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) region: Option<String>,

    /// Connections at the same time [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<u64>,

    /// What becomes of one connection more: refuse (it is told so and closed) or wait [default: refuse]
    #[arg(long, value_name = "WHAT")]
    pub(crate) beyond_max: Option<String>,

    /// What all connections may hold of requests that have arrived in part and of replies that were not taken [default: a 128th of the memory, from 1MiB to 16MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) connection_memory: Option<Size>,

    /// Connections that wait to be accepted [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) backlog: Option<u32>,

    /// Close a connection that has sent nothing for so many seconds; 0 for never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle_timeout: Option<u32>,

    /// Let clients end the server by the command shutdown
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enable_shutdown: Option<bool>,

    /// Refuse flush_all
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_flush_all: Option<bool>,

    /// Refuse whatever lists keys: stats cachedump, stats detail, lru_crawler metadump and mgdump
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_dumping: Option<bool>,

    /// Refuse watch
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_watch: Option<bool>,

    /// Do without cas uniques, as memcached's -C: where one is told it is 0, and cas stores nothing
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_cas: Option<bool>,

    /// Kept of the log for each client that watches [default: 256KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) watcher_buffer: Option<Size>,

    /// Kept of the log for each worker, until it is handed out [default: 64KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) worker_log_buffer: Option<Size>,

    /// Count uses of keys by what comes before this character (stats detail), from the start [default: ':', once a client asks for it]
    #[arg(long, value_name = "CHAR")]
    pub(crate) prefix_delimiter: Option<char>,

    /// Do not learn from requests what more memory would be worth (stats mrc), which takes a hundredth of the memory, from 52MiB on
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) disable_advice: Option<bool>,

    /// Answer debugtime and debugitem: for tests of clients, never for production
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) test_commands: Option<bool>,
}

/// The first of two that was said, for every field named.
macro_rules! first_said {
    ($first:ident, $second:ident: $($field:ident),+ $(,)?) => {
        Told { $($field: $first.$field.or($second.$field)),+ }
    };
}

impl Told {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read, is no TOML, or has names or values that do not exist; the error tells the line.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = read_file(path, FILE_MAX).map_err(unreadable)?;
        let text = String::from_utf8(text).map_err(|error| unreadable(io::Error::other(error)))?;
        Self::from_text(&text).map_err(|message| ConfigError::File { path: path.to_owned(), message })
    }

    /// Reads TOML; or tells what is wrong with it, and where.
    fn from_text(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| words::plain(&error.to_string()))
    }

    /// What was said here, and where nothing was said, what `other` says.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        first_said!(self, other:
            listen, udp, udp_port_per_worker, mica, xdp, local, unix_mode, protocol, tls_cert, tls_key, tls_ca, tls_verify,
            tls_min_version, tls_ciphers, tls_resumption, auth_file, user, workers, pin_workers, memory, engine, index,
            policy, access, max_item_size, growth_factor, smallest_item,
            disable_evictions, huge_pages, lock_memory, reserve, region, max_connections, beyond_max, connection_memory, backlog, idle_timeout, enable_shutdown,
            disable_flush_all, disable_dumping, disable_watch, disable_cas, watcher_buffer, worker_log_buffer, prefix_delimiter, disable_advice, test_commands,
        )
    }

    /// The same as a TOML file, with a comment for each option that was not said and has no value that could be written.
    pub(crate) fn to_toml(&self) -> String {
        let said = toml::to_string(self).unwrap_or_default();
        let is_said = |name: &str| said.lines().any(|line| line.split(" = ").next() == Some(name));
        let mut comments = String::new();
        for option in Self::augment_args(clap::Command::new("")).get_arguments() {
            let name = option.get_long().unwrap_or_default();
            if !is_said(name) {
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let default = help.rsplit_once("[default: ").and_then(|(_, rest)| rest.strip_suffix(']'));
                let is_switch = option.get_value_names().is_some_and(|names| names == ["BOOL"]);
                let otherwise = if is_switch { "false" } else { "none" };
                comments += &format!("# {name}: {}\n", default.unwrap_or(otherwise));
            }
        }
        format!("{said}\n# Not said; what stands for them:\n{comments}")
    }
}
