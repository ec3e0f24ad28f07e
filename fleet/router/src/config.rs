//! Reads a configuration, and builds the plan that workers route by.

use crate::options::RouterOptions;
use crate::sources_info::digest;
use crate::tls_to_servers::TlsToServers;
use crate::upstream::{Counted, Server, Servers};
use crate::variations::Variations;
use guira_discovery::{
    EtcdPools, Files, Followed, NameCounts, Names, NamesOptions, News, PATIENCE, Reader, Records, Unreadable,
};
use guira_routing::config::{
    Address as Named, ConfigError, Globals, Json, Loaded, Place, Security, Sources, Value, load,
};
use guira_routing::{BuiltPool, Claim, DestinationId, DestinationSpec, Destinations, Settings, Tree, build};
use guira_serving::{Causes, ClusterNode, local_addresses};
use guira_sync::atomic::AtomicU32;
use guira_transport::net::ToSocketAddrs;
use guira_transport::{Address, TlsConnector, TlsError};
use guira_upstream::{Addresses, Keepalive, host_id};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use guira_discovery::Source;
pub(crate) use guira_routing::config::Texts;

/// The reason that a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("Can not read config from file:{0}")]
    Unreadable(#[from] Unreadable),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("server {address}: {reason}")]
    Server { address: String, reason: String },
    #[error("cannot set up TLS to servers: {reason}")]
    Tls { reason: String },
}

/// The longest wait for names whose addresses are known already.
const KNOWN_PATIENCE: Duration = Duration::from_millis(50);
/// The longest wait for new names when the configuration changes.
const NEW_PATIENCE: Duration = Duration::from_secs(1);

/// A valid configuration, and everything that a worker needs to build its own tree.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) json: Json,
    pub(crate) texts: Texts,
    /// Copied for each worker, so that all trees have the same numbers.
    destinations: Destinations,
    pub(crate) servers: Servers,
    /// The servers that the configuration sends requests to.
    claim: Claim,
    pub(crate) pools: Vec<BuiltPool>,
    /// The TLS client of the connections to servers, if some use TLS.
    pub(crate) connector: Option<TlsConnector>,
    pub(crate) digest: String,
    pub(crate) warnings: Vec<ConfigError>,
}

impl Plan {
    /// Builds the tree of one worker.
    pub(crate) fn tree(&self, settings: &Settings) -> Result<Tree, ConfigError> {
        let mut destinations = self.destinations.clone();
        build(&self.json, &self.texts, settings, &mut destinations).map(|built| built.tree)
    }

    /// The servers and logs by their numbers.
    pub(crate) fn named(&self) -> &Destinations {
        &self.destinations
    }

    /// The servers that the configuration sends requests to. A worker holds a copy while it uses
    /// them.
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (String, u32)> {
        let servers = self.servers.list().iter().map(|server| server.timeout_ms);
        self.destinations.specs().iter().map(|spec| spec.address.to_string()).zip(servers)
    }

    /// The servers that the configuration sends requests to, with their addresses as they are
    /// configured.
    pub(crate) fn in_use(&self) -> Vec<(String, &Server)> {
        let numbers = self.claim.iter().map(|number| number.0 as usize);
        numbers.map(|number| (self.address(number), &self.servers.list()[number])).collect()
    }

    pub(crate) fn servers_of<'a>(&'a self, pool: &'a BuiltPool) -> impl Iterator<Item = &'a Server> {
        numbers(pool).map(|number| &self.servers.list()[number])
    }

    /// The counts of servers that the configuration no longer sends requests to, or that it now
    /// reaches by other settings; by address.
    pub(crate) fn former(&self) -> HashMap<String, Counted> {
        let mut former = self.servers.forgotten_of_addresses().clone();
        let unused =
            (0..).zip(self.servers.list()).filter(|(number, _)| !self.claim.has(DestinationId(*number)));
        for (number, server) in unused {
            former.entry(self.address(number as usize)).or_default().add(&server.meters().counted());
        }
        former
    }

    pub(crate) fn access_point(&self, number: DestinationId) -> String {
        let number = number.0 as usize;
        self.servers.list()[number].access_point(&self.address(number))
    }

    fn address(&self, number: usize) -> String {
        self.destinations.specs()[number].address.to_string()
    }
}

fn numbers(pool: &BuiltPool) -> impl Iterator<Item = usize> {
    pool.destinations.iter().map(|number| number.0 as usize)
}

/// A configuration before its servers are resolved.
#[derive(Debug)]
pub(crate) struct Draft {
    json: Json,
    pub(crate) tree: Tree,
    pools: Vec<BuiltPool>,
    pub(crate) destinations: Destinations,
    pub(crate) warnings: Vec<ConfigError>,
}

/// Loads one configuration after the other.
#[derive(Debug)]
pub(crate) struct Loader {
    pub(crate) reader: Reader,
    settings: Settings,
    variations: Variations,
    keepalive: Option<Keepalive>,
    globals: Globals,
    workers: usize,
    destinations: Destinations,
    servers: Servers,
    /// The number of servers that are marked as failed because of timeouts.
    slow: Arc<AtomicU32>,
    tls: TlsToServers,
    resolver: Resolver,
}

/// The names that the router resolves.
#[derive(Debug)]
struct Resolver {
    names: Arc<Names>,
    /// The routers of the cluster.
    nodes: HashSet<Arc<str>>,
    counts: Arc<NameCounts>,
}

impl Loader {
    pub(crate) fn new(options: &RouterOptions) -> Self {
        Self::notifying(options, |_| {}, || {})
    }

    /// Calls `notify` when addresses of names change, and `notify_pools` when pools in etcd change.
    pub(crate) fn notifying(
        options: &RouterOptions,
        notify: impl Fn(News) + Send + 'static,
        notify_pools: impl Fn() + Send + 'static,
    ) -> Self {
        let counts = Arc::default();
        let names = Names::new(NamesOptions { server: options.dns_server }, Arc::clone(&counts), notify);
        let names = Arc::new(names);
        let records = Arc::new(Records::new(names.clone(), options.srv_hold_down));
        let pools = Arc::new(EtcdPools::new(options.etcd.as_ref(), notify_pools));
        Loader {
            reader: Reader::new(options.source.clone(), Followed { records, pools }),
            resolver: Resolver { names, nodes: ClusterNode::names(&options.cluster_nodes), counts },
            settings: options.settings.clone(),
            variations: options.variations.clone(),
            keepalive: options.keepalive,
            globals: globals(options),
            workers: options.workers,
            destinations: Destinations::default(),
            servers: Servers::default(),
            slow: Arc::default(),
            tls: TlsToServers::new(options.server_tls.clone()),
        }
    }

    /// Reads the source, and all files that it names.
    pub(crate) fn load(&mut self) -> Result<Plan, LoadError> {
        self.read(|loader, main, files| loader.make(main, files)).map(|(plan, texts)| Plan { texts, ..plan })
    }

    /// Like [`Loader::load`], but without resolving servers; the result serves no clients.
    pub(crate) fn draft(mut self) -> Result<Draft, LoadError> {
        self.read(|loader, main, files| loader.build(main, files)).map(|(draft, _)| draft)
    }

    fn read<T>(
        &mut self,
        take: impl FnOnce(&mut Self, &str, &Files) -> Result<T, LoadError>,
    ) -> Result<(T, Texts), LoadError> {
        let mut reader = self.reader.clone();
        let read = reader.read(|main, files| take(self, main, files));
        self.reader = reader;
        read
    }

    /// Builds the plan of these texts again, with the current SRV records and etcd pools.
    pub(crate) fn load_again(&mut self, texts: &Texts) -> Result<Plan, LoadError> {
        let texts = self.reader.followed.renew(texts);
        self.load_kept(texts)
    }

    /// Builds the plan of saved texts.
    pub(crate) fn load_kept(&mut self, texts: Texts) -> Result<Plan, LoadError> {
        let plan = self.make(&texts.main.clone(), &texts)?;
        Ok(Plan { texts, ..plan })
    }

    fn build(&self, main: &str, sources: &dyn Sources) -> Result<Draft, LoadError> {
        let Loaded { mut json, mut warnings, .. } =
            load(&self.reader.source().name(), main, sources, &self.globals)?;
        self.variations.apply(&mut json, sources, &mut warnings);
        // A configuration that failed may have allocated numbers: they are free again.
        let mut destinations = self.destinations.clone();
        destinations.release();
        // A server that no worker uses any more does not count against the limit of soft TKOs.
        let unused = destinations.free().filter_map(|number| self.servers.list().get(number.0 as usize));
        unused.for_each(|server| _ = server.health.record_success());
        let built = build(&json, sources, &self.settings, &mut destinations)?;
        warnings.extend(built.warnings);
        Ok(Draft { json, tree: built.tree, pools: built.pools, destinations, warnings })
    }

    fn make(&mut self, main: &str, sources: &dyn Sources) -> Result<Plan, LoadError> {
        let Draft { json, tree, pools, mut destinations, mut warnings } = self.build(main, sources)?;
        let claim = destinations.claim(tree.destinations());
        let found = self.look_up(&destinations, &pools);
        let servers = self.servers(&destinations, &claim, &found)?;
        (self.destinations, self.servers) = (destinations.clone(), servers.clone());
        let place =
            |host: &str| Place { source: self.reader.source().name().into(), line: line_of(main, host) };
        let unknown = found.iter().filter_map(|(host, found)| Some((host, found.as_ref().err()?)));
        let mut unknown: Vec<_> =
            unknown.map(|(host, reason)| place(host).error(unknown_host(host, reason))).collect();
        unknown.sort_by_key(ToString::to_string);
        warnings.extend(unknown);
        let digest = digest(main);
        let texts = Texts::default();
        let connector = self.tls.connector();
        Ok(Plan { json, texts, destinations, servers, claim, pools, connector, digest, warnings })
    }

    /// The servers of a configuration by number; known servers are kept.
    fn servers(
        &mut self,
        destinations: &Destinations,
        claim: &Claim,
        found: &Found,
    ) -> Result<Servers, LoadError> {
        let (specs, mut servers) = (destinations.specs(), self.servers.clone());
        for (number, spec) in specs.iter().enumerate() {
            if !destinations.is_new(number, &self.destinations) {
                continue;
            }
            let secure = match spec.security {
                Security::Plain => None,
                Security::Tls => Some(self.tls.secure(&spec.address)?),
            };
            let addresses = Addresses::new(addresses(&spec.address, found)?);
            let timeouts = [spec.timeout, spec.connect_timeout];
            let server = Server::new(addresses, secure, timeouts, self.workers, &self.slow);
            let server = server.marked(spec.service).leasing(spec.leases).kept_alive(self.keepalive);
            let before = self.destinations.specs().get(number).map(|spec| spec.address.to_string());
            servers.put(number, server, before);
        }
        let in_use: HashSet<String> =
            claim.iter().map(|number| specs[number.0 as usize].address.to_string()).collect();
        servers.keep_addresses(|address| in_use.contains(address));
        Ok(servers)
    }

    /// Resolves the hosts of all servers that routes lead to. A name without a reply of DNS does
    /// not block a change: the first configuration waits for all names, later ones wait only
    /// briefly for new names, and all names are followed.
    fn look_up(&self, destinations: &Destinations, pools: &[BuiltPool]) -> Found {
        let numbers = pools.iter().flat_map(numbers);
        let (new, known): (Vec<_>, Vec<_>) =
            numbers.partition(|number| destinations.is_new(*number, &self.destinations));
        let hosts_of = |numbers: Vec<usize>| -> HashSet<Arc<str>> {
            numbers.into_iter().filter_map(|number| host_of(&destinations.specs()[number])).collect()
        };
        let (new, mut known) = (hosts_of(new), hosts_of(known));
        known.retain(|host| !new.contains(host));
        let mut found = Found::new();
        let of_new = if self.servers.list().is_empty() { PATIENCE } else { NEW_PATIENCE };
        for (hosts, patience) in [(new, of_new), (known, KNOWN_PATIENCE)] {
            if !hosts.is_empty() {
                found.extend(self.resolver.names.hosts(hosts, patience));
            }
        }
        found
    }

    /// From now on only names of this configuration are resolved.
    pub(crate) fn follow(&self, plan: &Plan) {
        let specs = plan.pools.iter().flat_map(numbers).map(|number| &plan.destinations.specs()[number]);
        let records = self.reader.followed.keep_records_of(&plan.texts);
        self.resolver
            .names
            .follow(specs.filter_map(host_of).chain(self.resolver.nodes.iter().cloned()).collect(), records);
    }

    /// Resolves the routers that clients receive as cluster nodes, and follows their names.
    pub(crate) fn look_up_nodes(&self) -> Found {
        if self.resolver.nodes.is_empty() {
            Found::new()
        } else {
            self.resolver.names.hosts(self.resolver.nodes.clone(), PATIENCE)
        }
    }

    /// A host has new addresses. Returns the servers whose addresses changed.
    pub(crate) fn relocate(&self, host: &str, found: &[IpAddr]) -> Vec<u32> {
        let mut moved = Vec::new();
        for ((number, spec), server) in (0u32..).zip(self.destinations.specs()).zip(self.servers.list()) {
            if let Named::Tcp { host: own, port } = &spec.address
                && **own == *host
                && server.addresses.replace(at_port(found, *port))
            {
                moved.push(number);
            }
        }
        moved
    }

    pub(crate) fn name_counts(&self) -> Arc<NameCounts> {
        self.resolver.counts.clone()
    }

    /// Reads changed certificate files for servers again.
    pub(crate) fn reload_changed_certificates(&self) {
        self.tls.reload_changed();
    }

    pub(crate) fn has_certificates(&self) -> bool {
        self.tls.is_used()
    }
}

impl From<TlsError> for LoadError {
    fn from(error: TlsError) -> Self {
        LoadError::Tls { reason: Causes(&error).to_string() }
    }
}

/// The addresses of hosts, or the error of each lookup.
pub(crate) type Found = HashMap<Arc<str>, Result<Vec<IpAddr>, String>>;

/// The host of a server, if it is a name.
fn host_of(spec: &DestinationSpec) -> Option<Arc<str>> {
    match &spec.address {
        Named::Tcp { host, .. } if is_name(host) => Some(host.clone()),
        _ => None,
    }
}

/// An address may have a zone.
fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err() && !host.contains([':', '%'])
}

fn at_port(found: &[IpAddr], port: u16) -> Vec<Address> {
    found.iter().map(|ip| Address::Tcp(SocketAddr::new(*ip, port))).collect()
}

/// The addresses of a server. A name that is not resolved yet has none, as in mcrouter, which
/// resolves it when it connects.
fn addresses(address: &Named, found: &Found) -> Result<Vec<Address>, LoadError> {
    let (host, port) = match address {
        Named::Unix(path) => return Ok(vec![Address::Unix(PathBuf::from(&**path))]),
        Named::Tcp { host, port } => (host, *port),
    };
    if is_name(host) {
        let known = found.get(host).and_then(|found| found.as_ref().ok());
        return Ok(known.map(|ips| at_port(ips, port)).unwrap_or_default());
    }
    let wrong =
        |error: io::Error| LoadError::Server { address: address.to_string(), reason: error.to_string() };
    let found = (&**host, port).to_socket_addrs().map_err(wrong)?;
    Ok(found.map(Address::Tcp).collect())
}

fn unknown_host(host: &str, reason: &str) -> String {
    format!("host {host:?} does not resolve: {reason}; requests to this host fail")
}

/// The line on which a host is first named; the first line if it comes from another file.
fn line_of(main: &str, host: &str) -> u32 {
    let line = main.lines().position(|line| line.contains(host));
    line.map_or(1, |before| before as u32 + 1)
}

/// The variables that the router defines for configurations.
fn globals(options: &RouterOptions) -> Globals {
    let text = |text: &str| Value::Text(text.into());
    let route = &options.settings.default_route;
    let mut parts = route.split('/').skip(1);
    let (region, cluster) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let given = options.config_params.iter();
    given
        .fold(Globals::new(), |globals, (name, value)| globals.with(name, text(value)))
        .with("default-route", text(route))
        .with("default-region", text(region))
        .with("default-cluster", text(cluster))
        .with("hostid", Value::Integer(i64::from(host_id())))
        .with("router-name", text(&options.identity.router))
        .with("service-name", text(&options.identity.service))
        .with("router-info-name", text("Memcache"))
        .with("num-proxies", Value::Integer(options.workers as i64))
        .with_local_addresses(local_addresses())
}

/// Checks a configuration, and returns its warnings.
///
/// # Errors
/// When it is invalid: the problem, and its place.
pub fn check(options: &RouterOptions) -> Result<Vec<ConfigError>, LoadError> {
    Loader::new(options).load().map(|plan| plan.warnings)
}

/// A plan is shared by all threads of a router.
pub(crate) type SharedPlan = Arc<Plan>;
