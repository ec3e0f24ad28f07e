//! What a client is made with, and what all of its threads know: the configuration, and servers.

use super::compress::Compression;
use crate::tls::Trust;
use guira_routing::config::{Address as Named, ConfigError, Globals, Json, Security, Sources, Value, load};
use guira_routing::{DestinationSpec, Destinations, Settings, Tree, build};
use guira_sync::clock::Stopwatch;
use guira_transport::{Address, NameCheck, Resumption, TlsClientOptions, TlsConnector, TlsError, TlsName};
use guira_upstream::{Addresses, Probes, Secure, Standing, host_id};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// There is no server.
    #[error("no server is named")]
    NoServers,
    /// A server's name has no address.
    #[error("server {server}: {problem}")]
    Name {
        /// As the configuration writes it.
        server: String,
        /// What the system says.
        problem: String,
    },
    /// A server is to be spoken to over TLS, and it was not said which are trusted, or TLS cannot be set up.
    #[error("no TLS with servers: {0}")]
    Tls(String),
    /// The system refuses what a client needs.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<TlsError> for SetupError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error.to_string())
    }
}

/// How gets go to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gets {
    Tcp,
    Udp,
}

/// What a client is made with: servers, or a configuration, and what of it is not as usual.
#[derive(Clone, Debug)]
pub struct Builder {
    text: String,
    timeout: Duration,
    connections: usize,
    gets: Gets,
    authorities: Option<Authorities>,
    pub(super) compression: Compression,
}

/// Whose certificates are trusted.
#[derive(Clone, Debug)]
enum Authorities {
    File(PathBuf),
    Anyone,
}

/// mcrouter's.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Threads beyond that wait for each other.
const CONNECTIONS: usize = 16;
/// Where keys without a routing prefix go: mcrouter's.
const DEFAULT_ROUTE: &str = "/././";

impl Builder {
    /// A client with this configuration, in mcrouter's language (docs/router-config.md). What it imports it cannot read: the text has to be whole.
    #[must_use]
    pub fn config(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            timeout: TIMEOUT,
            connections: CONNECTIONS,
            gets: Gets::Tcp,
            authorities: None,
            compression: Compression::default(),
        }
    }

    /// A client with one pool of these servers, each `HOST:PORT`, `[v6]:PORT` or `unix:PATH`, over which keys are spread by mcrouter's usual hash.
    #[must_use]
    pub fn servers<S: AsRef<str>>(servers: &[S]) -> Self {
        let names: Vec<String> = servers.iter().map(|server| quoted(server.as_ref())).collect();
        let names = names.join(", ");
        Self::config(&format!(
            r#"{{"pools": {{"all": {{"servers": [{names}]}}}}, "route": "PoolRoute|all"}}"#
        ))
    }

    /// How long a server may take to answer, and to be connected to, unless its pool says something else: a second by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// At most so many connections to each server: threads beyond wait for each other. 16 by default; an async client has one.
    #[must_use]
    pub fn connections(self, most: usize) -> Self {
        Self { connections: most.max(1), ..self }
    }

    /// Gets go by UDP, to the port that the server has for TCP, with no repetition: what is lost is [`super::Error::Timeout`]. Servers over TLS and
    /// sockets of this host are asked by their connections all the same.
    #[must_use]
    pub fn udp_gets(self) -> Self {
        Self { gets: Gets::Udp, ..self }
    }

    /// Values from this size on are compressed, if that makes them shorter. Other clients see [`super::COMPRESSED`] in their flags.
    #[must_use]
    pub fn compress_from(self, bytes: usize) -> Self {
        Self { compression: Compression::from(bytes), ..self }
    }

    /// Which servers are trusted that the configuration has TLS with (`"security_mech": "ssl"`, or `host:port:ascii:ssl`).
    #[must_use]
    pub fn trust(self, trust: Trust<'_>) -> Self {
        let authorities = match trust {
            Trust::Authority(path) => Authorities::File(path.to_owned()),
            Trust::Anyone => Authorities::Anyone,
        };
        Self { authorities: Some(authorities), ..self }
    }
}

/// A text of the configuration's language, in which a backslash stands before what would mean something else: in JSON, and in macros.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' => "\\\"".to_owned(),
        '\\' | '%' | '@' => {
            format!("\\\\{}", if letter == '\\' { "\\\\".to_owned() } else { letter.to_string() })
        }
        letter if letter.is_control() => format!("\\u{:04x}", letter as u32),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A server, as all threads of a client know it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// As the configuration writes it.
    pub(super) name: String,
    address: Named,
    pub(super) addresses: Arc<Addresses>,
    pub(super) secure: Option<Secure>,
    pub(super) standing: Arc<Standing>,
    /// When it is asked whether it is back, while it is out.
    /// LOCK: pool_probes. Leaf.
    probes: Arc<Mutex<Option<Probes>>>,
    pub(super) timeout_ms: u64,
    pub(super) connect_timeout_ms: u64,
    /// What packets to it have in the field of their service.
    pub(super) service: u8,
    /// Where it is asked by UDP.
    pub(super) udp: Option<SocketAddr>,
}

impl Server {
    pub(super) fn probes(&self) -> MutexGuard<'_, Option<Probes>> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks its name up again, which takes as long as the system gives it.
    pub(super) fn look_up_again(&self) {
        if let Ok(found) = look_up(&self.address) {
            self.addresses.replace(found);
        }
    }
}

/// What all threads of a client are made of.
#[derive(Debug)]
pub(super) struct Plan {
    json: Json,
    settings: Settings,
    destinations: Destinations,
    servers: Vec<Server>,
    host: u64,
    watch: Stopwatch,
    pub(super) timeout: Duration,
    pub(super) connections: usize,
    pub(super) compression: Compression,
}

/// A configuration that names others.
struct NoSources;

impl Sources for NoSources {
    fn read(&self, name: &str) -> Result<String, String> {
        Err(format!("a client has the text of its configuration only, and cannot read {name}"))
    }
}

impl Plan {
    pub(super) fn new(builder: &Builder) -> Result<Self, SetupError> {
        let settings = Settings::plain(DEFAULT_ROUTE, builder.timeout);
        let globals = Globals::new()
            .with("default-route", Value::Text(DEFAULT_ROUTE.into()))
            .with("default-region", Value::Text(".".into()))
            .with("default-cluster", Value::Text(".".into()))
            .with("hostid", Value::Integer(i64::from(host_id())));
        let loaded = load("the configuration", &builder.text, &NoSources, &globals)?;
        let mut destinations = Destinations::default();
        // It is made once to see that it can be.
        build(&loaded.json, &NoSources, &settings, &mut destinations)?;
        if destinations.specs().is_empty() {
            return Err(SetupError::NoServers);
        }
        let connector = connector(builder, &destinations)?;
        let slow = Arc::default();
        let servers = destinations.specs().iter().map(|spec| {
            let secure = match (&connector, spec.security) {
                (Some(connector), Security::Tls) => Some(secure(connector, &spec.address)?),
                _ => None,
            };
            let addresses = look_up(&spec.address).map_err(|error| SetupError::Name {
                server: spec.address.to_string(),
                problem: error.to_string(),
            })?;
            let standing = Arc::new(Standing::new(Arc::clone(&slow)));
            Ok(server(spec, addresses, secure, standing, builder.gets))
        });
        let servers = servers.collect::<Result<Vec<Server>, SetupError>>()?;
        Ok(Plan {
            json: loaded.json,
            settings,
            destinations,
            servers,
            host: u64::from(host_id()),
            watch: Stopwatch::start(),
            timeout: builder.timeout,
            connections: builder.connections,
            compression: builder.compression,
        })
    }

    /// A tree of its own for a thread.
    pub(super) fn tree(&self) -> Result<Tree, SetupError> {
        let mut destinations = self.destinations.clone();
        Ok(build(&self.json, &NoSources, &self.settings, &mut destinations)?.tree)
    }

    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// A number that tells this host from others.
    pub(super) fn host(&self) -> u64 {
        self.host
    }

    /// Milliseconds since the client was made.
    pub(super) fn now_ms(&self) -> u64 {
        self.watch.elapsed().as_millis() as u64
    }
}

/// What makes TLS connections, if the configuration has some.
fn connector(builder: &Builder, destinations: &Destinations) -> Result<Option<TlsConnector>, SetupError> {
    if destinations.specs().iter().all(|spec| spec.security == Security::Plain) {
        return Ok(None);
    }
    let authorities = match &builder.authorities {
        None => return Err(SetupError::Tls("say which servers are trusted".to_owned())),
        Some(Authorities::Anyone) => None,
        Some(Authorities::File(path)) => Some(path.clone()),
    };
    let (names, resumption) = (NameCheck::Required, Resumption::Tickets);
    let options = TlsClientOptions { chain: None, key: None, authorities, names, resumption };
    Ok(Some(TlsConnector::new(options)?))
}

fn secure(connector: &TlsConnector, address: &Named) -> Result<Secure, SetupError> {
    let name: TlsName = match address {
        Named::Tcp { host, .. } => host.parse()?,
        // Pools refuse TLS over these.
        Named::Unix(path) => path.parse()?,
    };
    Ok(Secure { connector: connector.clone(), name })
}

fn server(
    spec: &DestinationSpec,
    addresses: Vec<Address>,
    secure: Option<Secure>,
    standing: Arc<Standing>,
    gets: Gets,
) -> Server {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 4).max(1);
    let udp = match (gets, addresses.first()) {
        (Gets::Udp, Some(Address::Tcp(address))) if secure.is_none() => Some(*address),
        _ => None,
    };
    Server {
        name: spec.address.to_string(),
        address: spec.address.clone(),
        addresses: Arc::new(Addresses::new(addresses)),
        secure,
        standing,
        probes: Arc::default(),
        timeout_ms: millis(spec.timeout),
        connect_timeout_ms: millis(spec.connect_timeout),
        service: spec.service,
        udp,
    }
}

/// Where a server is.
fn look_up(address: &Named) -> io::Result<Vec<Address>> {
    let (host, port) = match address {
        Named::Unix(path) => return Ok(vec![Address::Unix(PathBuf::from(&**path))]),
        Named::Tcp { host, port } => (&**host, *port),
    };
    let found: Vec<Address> = (host, port).to_socket_addrs()?.map(Address::Tcp).collect();
    if found.is_empty() {
        Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(builder: &Builder) -> Result<Vec<String>, String> {
        let plan = Plan::new(builder).map_err(|error| error.to_string())?;
        plan.tree().map_err(|error| error.to_string())?;
        Ok(plan.servers().iter().map(|server| server.name.clone()).collect())
    }

    #[test]
    fn servers_and_configurations_name_whom_is_asked() {
        let servers = ["127.0.0.1:11211", "[::1]:7", "unix:/run/m\"\\%a@.sock"];
        assert_eq!(names(&Builder::servers(&servers)), Ok(servers.map(str::to_owned).to_vec()));
        let text = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|a"}"#;
        assert_eq!(names(&Builder::config(text)), Ok(vec!["127.0.0.1:1".to_owned()]));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "the configuration"),
            ("{\"route\": \"NullRoute\"}", "no server is named"),
            ("{\"route\": \"PoolRoute|a\"}", "a"),
            (r#"{"pools": {"a": "file:/pools.json"}, "route": "PoolRoute|a"}"#, ""),
            (
                r#"{"pools": {"a": {"servers": ["127.0.0.1:1:ascii:ssl"]}}, "route": "PoolRoute|a"}"#,
                "which servers are trusted",
            ),
        ] {
            let error = names(&Builder::config(text)).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(names(&Builder::servers(&[] as &[&str])).is_err());
    }
}
