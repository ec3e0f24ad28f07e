//! The configuration: where its text comes from, and what workers make of it.

use crate::running::{RouterOptions, ServerTls};
use crate::upstream::{Secure, Server};
use guira_routing::config::{
    Address as Named, ConfigError, Globals, Json, Loaded, Security, Sources, Value, load,
};
use guira_routing::hash::spooky;
use guira_routing::{BuiltPool, Destinations, Settings, Tree, build};
use guira_serving::Causes;
use guira_sync::atomic::AtomicU32;
use guira_transport::{Address, TlsConnector, TlsError};
use md5::{Digest, Md5};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Text(String),
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("server {address}: {reason}")]
    Server { address: String, reason: String },
    #[error("no TLS to servers: {reason}")]
    Tls { reason: String },
}

const FILE: &str = "file:";
/// No configuration is larger.
const BYTES_MAX: u64 = 32 << 20;

impl Source {
    /// What `--config` says: `file:PATH`, a path, or the configuration itself.
    pub fn named(text: &str) -> Self {
        match text.strip_prefix(FILE) {
            Some(path) => Source::File(path.into()),
            None if text.trim_start().starts_with(['{', '/']) && text.contains('{') => {
                Source::Text(text.to_owned())
            }
            None => Source::File(text.into()),
        }
    }

    /// As errors name it.
    fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Text(_) => "config-str".to_owned(),
        }
    }
}

/// The texts that a configuration was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) main: String,
    /// By the names that the configuration has for them; or why one could not be read.
    pub(crate) others: BTreeMap<String, Result<String, String>>,
}

impl Sources for Texts {
    fn read(&self, name: &str) -> Result<String, String> {
        self.others.get(name).cloned().unwrap_or_else(|| Err("it was not read before".to_owned()))
    }
}

/// Reads files, and keeps what it has read.
struct Files {
    folder: PathBuf,
    texts: RefCell<Texts>,
    seen: RefCell<Vec<(PathBuf, Option<String>)>>,
}

impl Sources for Files {
    fn read(&self, name: &str) -> Result<String, String> {
        if let Some(known) = self.texts.borrow().others.get(name) {
            return known.clone();
        }
        // A name without `file:` is relative to the configuration, as in mcrouter.
        let path = name.strip_prefix(FILE).map_or_else(|| self.folder.join(name), PathBuf::from);
        let text = read(&path).map_err(|error| error.to_string());
        self.seen.borrow_mut().push((path, text.as_ref().ok().cloned()));
        self.texts.borrow_mut().others.insert(name.to_owned(), text.clone());
        text
    }
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe might never end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("has more than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// The numbers of all servers that each pool has ever had, by its name.
type Members = BTreeMap<String, BTreeSet<usize>>;

/// A configuration that was found right, and all that a worker needs to make its own tree of it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) json: Json,
    pub(crate) texts: Texts,
    /// All that were ever named: a worker gives them the same numbers.
    destinations: Destinations,
    pub(crate) servers: Vec<Server>,
    /// Those that routes name.
    pub(crate) pools: Vec<BuiltPool>,
    members: Members,
    /// What makes TLS connections to servers, if there are any.
    pub(crate) connector: Option<TlsConnector>,
    pub(crate) digest: String,
    pub(crate) warnings: Vec<ConfigError>,
}

impl Plan {
    /// A tree of its own for a worker.
    pub(crate) fn tree(&self, settings: &Settings) -> Result<Tree, ConfigError> {
        let mut destinations = self.destinations.clone();
        build(&self.json, &self.texts, settings, &mut destinations).map(|built| built.tree)
    }

    /// Servers and logs by their numbers.
    pub(crate) fn named(&self) -> &Destinations {
        &self.destinations
    }

    /// Servers as configurations write them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, u32)> {
        let servers = self.servers.iter().map(|server| server.timeout_ms);
        self.destinations.specs().iter().map(|spec| spec.address.to_string()).zip(servers)
    }

    /// The servers that the configuration sends requests to, with their addresses as it writes them.
    pub(crate) fn in_use(&self) -> Vec<(String, &Server)> {
        let mut numbers: Vec<usize> = self.pools.iter().flat_map(numbers).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| (self.address(number), &self.servers[number])).collect()
    }

    /// Those of one pool.
    pub(crate) fn servers_of<'a>(&'a self, pool: &'a BuiltPool) -> impl Iterator<Item = &'a Server> {
        numbers(pool).map(|number| &self.servers[number])
    }

    /// Those of one pool, and those that it had: what is counted of them together never becomes less.
    pub(crate) fn servers_ever_of(&self, pool: &BuiltPool) -> impl Iterator<Item = &Server> {
        self.members.get(&*pool.name).into_iter().flatten().map(|number| &self.servers[*number])
    }

    /// The servers that the configuration sends nothing to, or not in this way any more, by their addresses.
    pub(crate) fn former(&self) -> HashMap<String, Vec<&Server>> {
        let used: HashSet<usize> = self.pools.iter().flat_map(numbers).collect();
        let mut former: HashMap<String, Vec<&Server>> = HashMap::new();
        for (number, server) in self.servers.iter().enumerate().filter(|(number, _)| !used.contains(number)) {
            former.entry(self.address(number)).or_default().push(server);
        }
        former
    }

    fn address(&self, number: usize) -> String {
        self.destinations.specs()[number].address.to_string()
    }
}

fn numbers(pool: &BuiltPool) -> impl Iterator<Item = usize> {
    pool.destinations.iter().map(|number| number.0 as usize)
}

/// What a configuration says, before its servers are looked up.
#[derive(Debug)]
pub(crate) struct Draft {
    json: Json,
    pub(crate) tree: Tree,
    pools: Vec<BuiltPool>,
    pub(crate) destinations: Destinations,
    pub(crate) warnings: Vec<ConfigError>,
}

/// Loads configurations one after the other.
#[derive(Debug)]
pub(crate) struct Loader {
    source: Source,
    settings: Settings,
    globals: Globals,
    workers: usize,
    destinations: Destinations,
    servers: Vec<Server>,
    members: Members,
    /// How many of them are out for their timeouts.
    slow: Arc<AtomicU32>,
    server_tls: ServerTls,
    /// Made when a configuration has a server that speaks TLS.
    connector: Option<TlsConnector>,
    /// The files that the last attempt has read, or tried to, with their texts.
    seen: Vec<(PathBuf, Option<String>)>,
}

impl Loader {
    pub(crate) fn new(options: &RouterOptions) -> Self {
        Loader {
            source: options.source.clone(),
            settings: options.settings.clone(),
            globals: globals(options),
            workers: options.workers,
            destinations: Destinations::default(),
            servers: Vec::new(),
            members: Members::new(),
            slow: Arc::default(),
            server_tls: options.server_tls.clone(),
            connector: None,
            seen: Vec::new(),
        }
    }

    /// The files that the last attempt has read, or tried to.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.seen.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Whether a file has another content by now.
    pub(crate) fn is_outdated(&self) -> bool {
        self.seen.iter().any(|(path, text)| read(path).ok() != *text)
    }

    /// Reads the source and everything that it names.
    pub(crate) fn load(&mut self) -> Result<Plan, LoadError> {
        let (main, files) = self.open()?;
        let plan = self.make(&main, &files);
        self.seen.extend(files.seen.into_inner());
        let (plan, texts) = (plan?, files.texts.into_inner());
        Ok(Plan { texts, ..plan })
    }

    /// The same, without looking servers up: what is made of it serves nobody.
    pub(crate) fn draft(mut self) -> Result<Draft, LoadError> {
        let (main, files) = self.open()?;
        self.build(&main, &files)
    }

    fn open(&mut self) -> Result<(String, Files), LoadError> {
        let (main, folder) = match &self.source {
            Source::Text(text) => {
                self.seen.clear();
                (text.clone(), PathBuf::new())
            }
            Source::File(path) => {
                let text = read(path);
                self.seen = vec![(path.clone(), text.as_ref().ok().cloned())];
                let reason = |error: io::Error| LoadError::Unreadable {
                    path: path.clone(),
                    reason: error.to_string(),
                };
                (text.map_err(reason)?, path.parent().unwrap_or(Path::new("")).to_owned())
            }
        };
        let texts = RefCell::new(Texts { main: main.clone(), others: BTreeMap::new() });
        Ok((main, Files { folder, texts, seen: RefCell::default() }))
    }

    /// Makes the plan of texts that were kept.
    pub(crate) fn load_kept(&mut self, texts: Texts) -> Result<Plan, LoadError> {
        let plan = self.make(&texts.main.clone(), &texts)?;
        Ok(Plan { texts, ..plan })
    }

    fn build(&self, main: &str, sources: &dyn Sources) -> Result<Draft, LoadError> {
        let Loaded { json, mut warnings, .. } = load(&self.source.name(), main, sources, &self.globals)?;
        // Numbers that were given away by a configuration which is wrong are taken back.
        let mut destinations = self.destinations.clone();
        let built = build(&json, sources, &self.settings, &mut destinations)?;
        warnings.extend(built.warnings);
        Ok(Draft { json, tree: built.tree, pools: built.pools, destinations, warnings })
    }

    fn make(&mut self, main: &str, sources: &dyn Sources) -> Result<Plan, LoadError> {
        let Draft { json, pools, destinations, warnings, .. } = self.build(main, sources)?;
        let mut servers = self.servers.clone();
        for spec in &destinations.specs()[servers.len()..] {
            let secure = match spec.security {
                Security::Plain => None,
                Security::Tls => Some(self.secure(&spec.address)?),
            };
            let address = look_up(&spec.address)?;
            let timeouts = [spec.timeout, spec.connect_timeout];
            servers.push(Server::new(address, secure, timeouts, self.workers, &self.slow));
        }
        (self.destinations, self.servers) = (destinations.clone(), servers.clone());
        for pool in &pools {
            self.members.entry(pool.name.to_string()).or_default().extend(numbers(pool));
        }
        let members = self.members.clone();
        let digest = Md5::digest(main).iter().map(|byte| format!("{byte:02x}")).collect();
        let texts = Texts::default();
        let connector = self.connector.clone();
        Ok(Plan { json, texts, destinations, servers, pools, members, connector, digest, warnings })
    }

    /// How a server is spoken to over TLS.
    fn secure(&mut self, address: &Named) -> Result<Secure, LoadError> {
        let connector = match &self.connector {
            Some(connector) => connector.clone(),
            None => {
                if self.server_tls.options.authorities.is_none() {
                    tracing::warn!("certificates of servers are not checked: --ssl-verify-peers does that");
                }
                self.connector.insert(TlsConnector::new(self.server_tls.options.clone())?).clone()
            }
        };
        let name = match (&self.server_tls.identity, address) {
            (Some(name), _) => name.clone(),
            (None, Named::Tcp { host, .. }) => host.parse()?,
            // Pools refuse TLS over these.
            (None, Named::Unix(path)) => path.parse()?,
        };
        Ok(Secure { connector, name })
    }

    /// Reads the files again that TLS to servers needs, if they have changed.
    pub(crate) fn reload_changed_certificates(&self) {
        let Some(connector) = &self.connector else { return };
        match connector.reload_changed() {
            Ok(true) => tracing::info!("certificates for servers were read again"),
            Ok(false) => {}
            Err(error) => {
                tracing::error!("certificates for servers stay as they were: {}", Causes(&error));
            }
        }
    }

    /// Whether there are such files.
    pub(crate) fn has_certificates(&self) -> bool {
        self.connector.is_some()
    }
}

impl From<TlsError> for LoadError {
    fn from(error: TlsError) -> Self {
        LoadError::Tls { reason: Causes(&error).to_string() }
    }
}

fn look_up(address: &Named) -> Result<Address, LoadError> {
    let (host, port) = match address {
        Named::Unix(path) => return Ok(Address::Unix(PathBuf::from(&**path))),
        Named::Tcp { host, port } => (host, *port),
    };
    let wrong = |reason: String| LoadError::Server { address: address.to_string(), reason };
    let mut found = (&**host, port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().map(Address::Tcp).ok_or_else(|| wrong("has no address".to_owned()))
}

/// What configurations know of the router.
fn globals(options: &RouterOptions) -> Globals {
    let text = |text: &str| Value::Text(text.into());
    let route = &options.settings.default_route;
    let mut parts = route.split('/').skip(1);
    let (region, cluster) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    Globals::new()
        .with("default-route", text(route))
        .with("default-region", text(region))
        .with("default-cluster", text(cluster))
        .with("hostid", Value::Integer(i64::from(host_id())))
        .with("router-name", text(&options.identity.router))
        .with("service-name", text(&options.identity.service))
        .with("num-proxies", Value::Integer(options.workers as i64))
        .with_local_addresses(local_addresses())
}

/// A number that tells hosts apart.
pub(crate) fn host_id() -> u32 {
    spooky::hash32(rustix::system::uname().nodename().to_bytes(), 0)
}

/// As the system lists them.
fn local_addresses() -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last: Option<IpAddr> = None;
    for line in std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default().lines() {
        match line.trim().strip_prefix("|-- ") {
            Some(address) => last = address.parse().ok(),
            None if line.trim() == "/32 host LOCAL" => addresses.extend(last.take()),
            None => {}
        }
    }
    for line in std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().lines() {
        let digits = line.split(' ').next().and_then(|digits| u128::from_str_radix(digits, 16).ok());
        addresses.extend(digits.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))));
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Whether a configuration is right: its warnings, or what is wrong.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check(options: &RouterOptions) -> Result<Vec<ConfigError>, LoadError> {
    Loader::new(options).load().map(|plan| plan.warnings)
}

/// Plans are shared by the threads of a router.
pub(crate) type SharedPlan = Arc<Plan>;
