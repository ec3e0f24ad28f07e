//! What a server is started with.

use crate::direct::Interface;
use crate::size::Size;
use crate::watch::LogBuffers;
use guira_commands::Uniques;
use guira_contract::Switch;
use guira_roster::{Choice, Eviction, HugePages, RegionPlace, Residence};
use guira_serving::{Beyond, Listen, Placement, Speaks};
use guira_transport::{Address, TlsOptions};
use rustix::process::{Resource, getrlimit};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen for connections.
    pub listen: Vec<Listen>,
    /// Where to listen for datagrams.
    pub udp: Vec<SocketAddr>,
    /// How workers share the UDP ports.
    pub udp_ports: UdpPorts,
    /// Where to take MICA's datagrams from: for each worker a port, from this one on.
    pub mica: Vec<SocketAddr>,
    /// The interface that these datagrams are taken from past the kernel's network stack.
    pub xdp: Option<Interface>,
    /// Where clients on the same host find the rings for MICA's datagrams.
    pub local: Option<PathBuf>,
    /// Permissions of UNIX sockets.
    pub unix_mode: u32,
    /// Connections that nobody has accepted yet.
    pub backlog: u32,
    /// Which protocols are spoken, where a listener says nothing else.
    pub speaks: Speaks,
    /// TLS, for all connections over TCP whose listener says nothing else.
    pub tls: Option<TlsOptions>,
    /// Users and passwords; with it nobody may do anything before telling one.
    pub auth_file: Option<PathBuf>,
    /// Threads; at least one.
    pub workers: usize,
    /// Where workers run.
    pub placement: Placement,
    /// The ceiling of the whole process.
    pub memory: Size,
    /// The engine.
    pub engine: Choice,
    /// How it uses memory.
    pub storage: Storage,
    /// The largest item, as memcached counts it.
    pub max_item_size: Size,
    /// How many connections there may be, and how long they may be idle.
    pub connections: ConnectionLimits,
    /// What clients may do besides storing and reading.
    pub permissions: Permissions,
    /// Whether items have cas uniques.
    pub uniques: Uniques,
    /// How much of the log is kept for those who watch.
    pub log: LogBuffers,
    /// Keys are counted by what comes before this byte from the start, and not only once a client asks for it.
    pub prefix_delimiter: Option<u8>,
    /// Whether it is learnt from requests what more memory would be worth.
    pub advice: Switch,
}

/// How an engine uses memory.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Growth from one slab class to the next; the engine's own if `None`.
    pub factor: Option<f64>,
    /// Bytes of key, value and flags that fit into the smallest chunk; the engine's own if `None`.
    pub smallest_item: Option<usize>,
    /// What happens when memory is full.
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages; as suits the size if `None`.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out.
    pub residence: Residence,
    /// The most that the memory limit can be raised to; as suits the machine if `None`.
    pub reserve: Option<Size>,
    /// Where items last when the server does not.
    pub region: Option<RegionPlace>,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            factor: None,
            smallest_item: None,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
            reserve: None,
            region: None,
        }
    }
}

impl Options {
    /// Whether MICA's datagrams are served.
    pub(crate) fn serves_mica(&self) -> bool {
        !self.mica.is_empty() || self.local.is_some()
    }
}

/// How workers share UDP ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpPorts {
    /// All have the same; the system deals out the clients.
    #[default]
    Shared,
    /// Worker *n* has the port *n* above the one that is given.
    PerWorker,
}

/// How many connections there may be, and how long they may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at the same time.
    pub max: u64,
    /// What becomes of one more.
    pub beyond: Beyond,
    /// How long a connection may send nothing.
    pub idle: Option<Duration>,
    /// What all of them may hold of requests and replies under way; as suits the memory if `None`.
    pub memory: Option<Size>,
}

/// What clients may do besides storing and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// `shutdown`.
    pub shutdown: bool,
    /// `flush_all`.
    pub flush_all: bool,
    /// `stats cachedump`, `stats detail`, `lru_crawler metadump` and `mgdump`.
    pub dump: bool,
    /// `watch`.
    pub watch: bool,
    /// `debugtime` and `debugitem`.
    pub test: bool,
}

/// The address unless another is given: memcached's port, and nobody else's business.
const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 11211);

/// More than this is not taken unasked.
const DEFAULT_MEMORY_MAX: usize = 1 << 30;

impl Default for Options {
    fn default() -> Self {
        let traits = guira_serving::ListenTraits::default();
        Options {
            listen: vec![Listen { traits, address: Address::Tcp(DEFAULT_LISTEN), optional: false }],
            udp: Vec::new(),
            udp_ports: UdpPorts::default(),
            mica: Vec::new(),
            xdp: None,
            local: None,
            unix_mode: 0o700,
            backlog: 1024,
            speaks: Speaks::default(),
            tls: None,
            auth_file: None,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            placement: Placement::default(),
            memory: default_memory(),
            engine: Choice::default(),
            storage: Storage::default(),
            max_item_size: Size(1 << 20),
            connections: ConnectionLimits { max: 1024, beyond: Beyond::default(), idle: None, memory: None },
            permissions: Permissions {
                shutdown: false,
                flush_all: true,
                dump: true,
                watch: true,
                test: false,
            },
            uniques: Uniques::Kept,
            log: LogBuffers::default(),
            prefix_delimiter: None,
            advice: Switch::On,
        }
    }
}

/// A quarter of the machine, at most 1 GiB.
fn default_memory() -> Size {
    Size((machine_memory().unwrap_or(1 << 30) / 4).min(DEFAULT_MEMORY_MAX))
}

/// So much address space is reserved in any case, so that a cache that was started small can be made larger.
const RESERVE_LEAST: usize = 8 << 30;

/// How much address space nobody misses: none where the system counts it as memory.
pub(crate) fn address_space_to_spare(options: &Options) -> usize {
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let is_limited = |what| getrlimit(what).current.is_some();
    let is_counted = overcommit.trim() == "2"
        || options.storage.residence == Residence::Locked
        || is_limited(Resource::As)
        || is_limited(Resource::Fsize);
    if is_counted { 0 } else { RESERVE_LEAST }
}

/// Bytes of memory that the machine has.
pub(crate) fn machine_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    total.map(|kibibytes| kibibytes * 1024)
}
