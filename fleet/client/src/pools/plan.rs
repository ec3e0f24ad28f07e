//! The options of a client, and the plan that its threads share: the configuration, and the
//! servers.

use super::compress::Compression;
use super::counters::Counts;
use super::server::{Server, look_up};
use crate::tls::Trust;
use guira_routing::config::{
    Address as Named, ConfigError, Globals, Json, Security, Sources, Texts, Value, load,
};
use guira_routing::{Claim, DestinationId, DestinationSpec, Destinations, Settings, Tree, Unknown, build};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_sync::lock::Mutex;
use guira_transport::{TlsClientOptions, TlsConnector, TlsError, TlsName};
use guira_upstream::{Secure, host_id};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The reason that a client cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// There is no server.
    #[error("no servers are configured")]
    NoServers,
    /// No server's name has an address; this is one of them.
    #[error("server {server}: {problem}")]
    Name {
        /// The server in the configuration's syntax.
        server: String,
        /// The system's error.
        problem: String,
    },
    /// The configuration has TLS, but no trusted authorities are given, or TLS cannot be set up.
    #[error("cannot set up TLS to servers: {0}")]
    Tls(String),
    /// The system refuses a resource.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gets {
    Tcp,
    Udp,
}

/// The options of a client: servers or a configuration, and everything that is not default.
#[derive(Clone, Debug)]
pub struct Builder {
    texts: Texts,
    timeout: Duration,
    connections: usize,
    gets: Gets,
    authorities: Option<Authorities>,
    prefixes: Prefixes,
    pub(super) compression: Compression,
}

/// Whether `/region/cluster/` in front of a key says where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefixes {
    Route,
    PartOfKey,
}

/// The authorities whose server certificates are trusted.
#[derive(Clone, Debug)]
enum Authorities {
    File(PathBuf),
    Anyone,
}

/// mcrouter's default.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The default limit of connections; further threads wait.
const CONNECTIONS: usize = 16;
/// The wait for new names when the configuration changes: known servers should not be held up.
const NEW_PATIENCE: Duration = Duration::from_secs(1);
/// mcrouter's default route for keys without a routing prefix.
const DEFAULT_ROUTE: &str = "/././";

impl Builder {
    /// A client with this configuration in mcrouter's language (docs/reference/router-config.md).
    /// It cannot import files: the text has to be complete.
    #[must_use]
    pub fn config(text: &str) -> Self {
        Self::texts(text.into())
    }

    /// A client with a configuration whose imports were already read.
    #[must_use]
    pub fn texts(texts: Texts) -> Self {
        Self {
            texts,
            timeout: TIMEOUT,
            connections: CONNECTIONS,
            gets: Gets::Tcp,
            authorities: None,
            prefixes: Prefixes::Route,
            compression: Compression::default(),
        }
    }

    /// A client with one pool of these servers, each `HOST:PORT`, `[v6]:PORT` or `unix:PATH`. Keys
    /// are distributed by mcrouter's default hash.
    #[must_use]
    pub fn servers<S: AsRef<str>>(servers: &[S]) -> Self {
        let names: Vec<String> = servers.iter().map(|server| quoted(server.as_ref())).collect();
        let names = names.join(", ");
        Self::config(&format!(
            r#"{{"pools": {{"all": {{"servers": [{names}]}}}}, "route": "PoolRoute|all"}}"#
        ))
    }

    /// The timeout of replies and of connecting, unless a pool has its own: a second by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// At most this many connections to each server: threads beyond wait for each other. 16 by
    /// default; an async client has one.
    #[must_use]
    pub fn connections(self, most: usize) -> Self {
        Self { connections: most.max(1), ..self }
    }

    /// Sends gets by UDP, to the server's TCP port number, without retries: a lost reply is
    /// [`super::ErrorKind::Timeout`]. Gets to servers with TLS and to UNIX sockets still use
    /// connections.
    #[must_use]
    pub fn udp_gets(self) -> Self {
        Self { gets: Gets::Udp, ..self }
    }

    /// Compresses values from this size on, if that makes them shorter. Other clients see
    /// [`super::COMPRESSED`] in their flags.
    #[must_use]
    pub fn compress_from(self, bytes: usize) -> Self {
        Self { compression: Compression::from(bytes), ..self }
    }

    /// Sends keys that begin with `/region/cluster/` whole, to where keys without a routing prefix go.
    #[must_use]
    pub fn whole_keys(self) -> Self {
        Self { prefixes: Prefixes::PartOfKey, ..self }
    }

    /// The authorities to trust, for servers with TLS in the configuration (`"security_mech":
    /// "ssl"`, or `host:port:ascii:ssl`).
    #[must_use]
    pub fn trust(self, trust: Trust<'_>) -> Self {
        let authorities = match trust {
            Trust::Authority(path) => Authorities::File(path.to_owned()),
            Trust::Anyone => Authorities::Anyone,
        };
        Self { authorities: Some(authorities), ..self }
    }
}

/// A text in the configuration's language, with a backslash before characters that are special in
/// JSON or in macros.
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

/// The options that stay when the configuration changes.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) timeout: Duration,
    pub(super) connections: usize,
    pub(super) compression: Compression,
    pub(super) gets: Gets,
    authorities: Option<Authorities>,
    settings: Settings,
    host: u64,
    watch: Stopwatch,
    /// The number of servers that are marked as failed because of timeouts.
    pub(super) slow: Arc<AtomicU32>,
}

/// Checks a configuration, with the imports that `sources` has. No name is resolved.
///
/// # Errors
/// If it is invalid.
pub fn check(text: &str, sources: &dyn Sources) -> Result<(), SetupError> {
    read(text, sources, &Settings::plain(DEFAULT_ROUTE, TIMEOUT), &mut Destinations::default()).map(|_| ())
}

/// Expands a configuration, and builds its tree.
fn read(
    text: &str,
    sources: &dyn Sources,
    settings: &Settings,
    destinations: &mut Destinations,
) -> Result<(Json, Tree), SetupError> {
    let globals = Globals::new()
        .with("default-route", Value::Text(DEFAULT_ROUTE.into()))
        .with("default-region", Value::Text(".".into()))
        .with("default-cluster", Value::Text(".".into()))
        .with("hostid", Value::Integer(i64::from(host_id())));
    let json = load("the configuration", text, sources, &globals)?.json;
    let tree = build(&json, sources, settings, destinations)?.tree;
    if tree.destinations().next().is_none() {
        return Err(SetupError::NoServers);
    }
    Ok((json, tree))
}

/// The configuration and the servers that all threads of a client share. While a thread may use a
/// server, its number stands for no other server.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) common: Arc<Common>,
    /// Counts the plans of a client, from 0.
    pub(super) number: u64,
    texts: Texts,
    json: Json,
    destinations: Destinations,
    servers: Vec<Server>,
    /// The servers that this configuration sends requests to.
    claim: Claim,
    connector: Option<TlsConnector>,
}

impl Plan {
    pub(super) fn new(builder: &Builder) -> Result<Self, SetupError> {
        let mut settings = Settings::plain(DEFAULT_ROUTE, builder.timeout);
        if builder.prefixes == Prefixes::PartOfKey {
            settings.unknown_prefix = Unknown::PartOfKey;
        }
        let common = Common {
            timeout: builder.timeout,
            connections: builder.connections,
            compression: builder.compression,
            gets: builder.gets,
            authorities: builder.authorities.clone(),
            settings,
            host: u64::from(host_id()),
            watch: Stopwatch::start(),
            slow: Arc::default(),
        };
        Self::make(Arc::new(common), &builder.texts, None)
    }

    /// The plan of another configuration: servers that both have are kept.
    pub(super) fn after(&self, texts: &Texts) -> Result<Self, SetupError> {
        Self::make(Arc::clone(&self.common), texts, Some(self))
    }

    fn make(common: Arc<Common>, texts: &Texts, before: Option<&Plan>) -> Result<Self, SetupError> {
        let mut destinations = before.map(|plan| plan.destinations.clone()).unwrap_or_default();
        destinations.release();
        // Built once to check that it can be.
        let (json, tree) = read(&texts.main, texts, &common.settings, &mut destinations)?;
        let claim = destinations.claim(tree.destinations());
        let mut servers = before.map(|plan| plan.servers.clone()).unwrap_or_default();
        let none = Destinations::default();
        let known = before.map_or(&none, |plan| &plan.destinations);
        let specs = destinations.specs().iter().enumerate();
        let new: Vec<(usize, &DestinationSpec)> =
            specs.filter(|(number, _)| destinations.is_new(*number, known)).collect();
        let connector = match before.and_then(|plan| plan.connector.clone()) {
            Some(connector) => Some(connector),
            None => connector(common.authorities.as_ref(), &new)?,
        };
        let mut made = Vec::new();
        for (number, spec) in new {
            let secure = match (&connector, spec.security) {
                (Some(connector), Security::Tls) => Some(secure(connector, &spec.address)?),
                _ => None,
            };
            let server = Server::new(spec, secure, &common);
            made.push(server.clone());
            match servers.get_mut(number) {
                Some(former) => *former = server,
                None => servers.push(server),
            }
        }
        let patience = if before.is_none() { Duration::MAX } else { NEW_PATIENCE };
        let unknown = look_up(&made, patience);
        // If other servers have addresses, this one counts as down: its name is resolved again on
        // connecting.
        if let Some((server, problem)) = unknown
            && !claim.iter().any(|number| servers[number.0 as usize].is_known())
        {
            return Err(SetupError::Name { server, problem });
        }
        let texts = texts.clone();
        let number = before.map_or(0, |plan| plan.number + 1);
        Ok(Plan { common, number, texts, json, destinations, servers, claim, connector })
    }

    /// Builds the tree of one thread.
    pub(super) fn tree(&self) -> Result<Tree, SetupError> {
        let mut destinations = self.destinations.clone();
        Ok(build(&self.json, &self.texts, &self.common.settings, &mut destinations)?.tree)
    }

    #[cfg(test)]
    pub(super) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// All servers by number, including those that this configuration does not use.
    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether the configuration sends requests to a server.
    pub(super) fn uses(&self, server: u32) -> bool {
        self.claim.has(DestinationId(server))
    }

    /// The servers that the configuration sends requests to. A thread holds a copy while it uses
    /// them.
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The servers that the configuration sends requests to.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &Server> {
        self.claim.iter().filter_map(|number| self.servers.get(number.0 as usize))
    }

    /// Clears the failures of servers that this plan uses and `before` did not: a server that has
    /// left a pool and comes back was started again.
    fn forget_failures(&self, before: &Plan) {
        for number in self.claim.iter().filter(|number| !before.claim.has(*number)) {
            let server = &self.servers[number.0 as usize];
            server.health.record_success();
            *server.probes() = None;
        }
    }

    /// A number that identifies this host.
    pub(super) fn host(&self) -> u64 {
        self.common.host
    }

    /// Milliseconds since the client was made.
    pub(super) fn now_ms(&self) -> u64 {
        self.common.watch.elapsed().as_millis() as u64
    }
}

/// The plan in use. The next one is built while it stays in use, one at a time.
#[derive(Debug)]
pub(super) struct InUse {
    /// LOCK: pool_plan. Leaf.
    plan: Mutex<Arc<Plan>>,
    /// The number of that plan, to check cheaply for a newer one. Relaxed: a call may still use the
    /// previous plan.
    newest: AtomicU64,
    /// Held while the next plan is built and handed out.
    /// LOCK: pool_change. Above pool_plan and pool_sessions.
    change: Mutex<()>,
}

impl InUse {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let newest = AtomicU64::new(plan.number);
        InUse { plan: Mutex::new(plan), newest, change: Mutex::default() }
    }

    /// The plan in use, if its number differs: every call checks this.
    pub(super) fn other_than(&self, number: u64) -> Option<Arc<Plan>> {
        (self.newest.load(Ordering::Relaxed) != number).then(|| self.plan())
    }

    pub(super) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.lock())
    }

    /// Uses another configuration if it is valid and differs: `hand_out` receives its plan.
    pub(super) fn replace(
        &self,
        texts: &Texts,
        counts: &Counts,
        hand_out: impl FnOnce(&Arc<Plan>) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let _change = self.change.lock();
        let before = self.plan();
        if before.texts == *texts {
            return Ok(());
        }
        let plan = Arc::new(before.after(texts).inspect_err(|_| counts.refused_configurations.add(1))?);
        counts.configurations.add(1);
        plan.forget_failures(&before);
        *self.plan.lock() = Arc::clone(&plan);
        self.newest.store(plan.number, Ordering::Relaxed);
        hand_out(&plan)
    }
}

/// The TLS client, if the configuration has TLS.
fn connector(
    authorities: Option<&Authorities>,
    servers: &[(usize, &DestinationSpec)],
) -> Result<Option<TlsConnector>, SetupError> {
    if servers.iter().all(|(_, spec)| spec.security == Security::Plain) {
        return Ok(None);
    }
    let authorities = match authorities {
        None => return Err(SetupError::Tls("say which servers are trusted".to_owned())),
        Some(Authorities::Anyone) => None,
        Some(Authorities::File(path)) => Some(path.clone()),
    };
    Ok(Some(TlsConnector::new(TlsClientOptions::trusting(authorities))?))
}

fn secure(connector: &TlsConnector, address: &Named) -> Result<Secure, SetupError> {
    let name: TlsName = match address {
        Named::Tcp { host, .. } => host.parse()?,
        // Pools refuse TLS over these.
        Named::Unix(path) => path.parse()?,
    };
    Ok(Secure { connector: connector.clone(), name })
}

#[cfg(test)]
mod tests {
    use super::super::core::HEALTH;
    use super::*;

    fn names(builder: &Builder) -> Result<Vec<String>, String> {
        let plan = Plan::new(builder).map_err(|error| error.to_string())?;
        plan.tree().map_err(|error| error.to_string())?;
        Ok(plan.servers().iter().map(|server| server.name.to_string()).collect())
    }

    #[test]
    fn servers_and_configurations_name_whom_is_asked() {
        let servers = ["127.0.0.1:11211", "[::1]:7", "unix:/run/m\"\\%a@.sock"];
        assert_eq!(names(&Builder::servers(&servers)), Ok(servers.map(str::to_owned).to_vec()));
        let text = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|a"}"#;
        assert_eq!(names(&Builder::config(text)), Ok(vec!["127.0.0.1:1".to_owned()]));
    }

    #[test]
    fn servers_that_stay_keep_their_numbers_and_their_standing() {
        let of = |servers: &[&str]| Builder::servers(servers).texts;
        let first = Plan::new(&Builder::servers(&["127.0.0.1:1", "127.0.0.1:2"])).unwrap();
        let next = first.after(&of(&["127.0.0.1:3", "127.0.0.1:2"])).unwrap();
        let names = |plan: &Plan| plan.in_use().map(|server| server.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&next), ["127.0.0.1:2", "127.0.0.1:3"]);
        assert!(Arc::ptr_eq(&first.servers[1].health, &next.servers[1].health));
        assert!(!next.uses(0) && next.uses(1) && next.uses(2));
        let back = next.after(&of(&["127.0.0.1:1"])).unwrap();
        assert_eq!((names(&back), back.servers.len()), (vec!["127.0.0.1:1".to_owned()], 3));
        assert!(next.after(&"{".into()).is_err() && next.after(&of(&[])).is_err());
    }

    #[test]
    fn a_server_that_comes_back_into_use_is_sent_requests_whatever_was_known_of_it() {
        let servers = |servers: &[&str]| Builder::servers(servers).texts;
        let both = ["127.0.0.1:1", "127.0.0.1:2"];
        let in_use = InUse::new(Arc::new(Plan::new(&Builder::servers(&both)).unwrap()));
        let plan = in_use.plan();
        for server in &plan.servers {
            server.health.record_hard_failure(&HEALTH);
        }
        let are_up = || plan.servers.iter().map(|server| server.health.is_up()).collect::<Vec<_>>();
        let go_by = |texts| in_use.replace(&texts, &Counts::default(), |_| Ok(())).unwrap();
        go_by(servers(&both[1..]));
        assert_eq!(are_up(), [false, false]);
        go_by(servers(&both));
        assert_eq!(are_up(), [true, false], "the other one was in use all the time");
    }

    #[test]
    fn a_server_whose_name_has_no_address_is_as_one_that_is_down_beside_others() {
        // A label of 64 letters is too long for DNS, so no query is sent.
        let [nowhere, neither] = ["n", "m"].map(|letter| format!("{}.example:1", letter.repeat(64)));
        let of = |servers: &[&str]| Builder::servers(servers).texts;
        let known =
            |plan: &Plan| plan.in_use().map(|server| server.addresses.list().len()).collect::<Vec<_>>();
        let plan = Plan::new(&Builder::servers(&[&nowhere, "127.0.0.1:2"])).unwrap();
        assert_eq!(known(&plan), [0, 1]);
        let plan = Plan::new(&Builder::servers(&["127.0.0.1:2"])).unwrap();
        assert_eq!(known(&plan.after(&of(&["127.0.0.1:2", &nowhere])).unwrap()), [1, 0]);
        // A name without addresses is refused, whatever the previous configuration had.
        let is_refused = |plan: Result<Plan, SetupError>| match plan {
            Err(SetupError::Name { server, .. }) => server == nowhere || server == neither,
            _ => false,
        };
        assert!(is_refused(Plan::new(&Builder::servers(&[&nowhere, &neither]))));
        assert!(is_refused(plan.after(&of(&[&nowhere, &neither]))));
    }

    #[test]
    fn a_name_is_looked_up_again_beside_those_who_ask() {
        let plan = Plan::new(&Builder::servers(&["localhost:7"])).unwrap();
        let server = &plan.servers()[0];
        server.addresses.replace([]);
        server.look_up_again();
        let mut dialer = guira_upstream::Dialer::new(&server.addresses);
        let since = Stopwatch::start();
        while dialer.address().is_none() && since.elapsed() < Duration::from_secs(60) {
            guira_sync::thread::yield_now();
            dialer.refresh();
        }
        assert!(dialer.address().is_some());
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "the configuration"),
            ("{\"route\": \"NullRoute\"}", "no servers are configured"),
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
