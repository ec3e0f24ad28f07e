//! The configuration: a TOML file.

use crate::cluster::Dialect;
use crate::database::{Database, Kind};
use crate::judge::{Against, Settings};
use crate::pattern::{Pattern, Statement};
use guira_client::text::{Endpoint, LoginError, Target};
use guira_sql::{Server, ServerError, Tls, endpoint, prefix, read_settings, secured};
use guira_transport::TlsError;
use guira_web::{Token, TokenError};
use serde::Deserialize;
use std::collections::HashSet;
use std::io;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One hint in this many is sampled.
const SAMPLE: NonZeroU64 = NonZeroU64::new(1000).unwrap();
/// The delays of the paper in milliseconds, and the most delays.
const DELAYS_MS: [u32; 5] = [1000, 10_000, 60_000, 600_000, 3_600_000];
const DELAYS_MAX: usize = 16;
/// The most samples in flight. One takes some hundred bytes, and as much again for each cluster
/// that is being read.
const UNDER_WAY_MAX: usize = 100_000;
/// The timeout of a cluster in milliseconds.
const TIMEOUT_MS: NonZeroU32 = NonZeroU32::new(1000).unwrap();

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {message}")]
    File { path: PathBuf, message: String },
    #[error("database: {0}")]
    Server(#[from] ServerError),
    #[error("cluster TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("cluster login: {0}")]
    Access(#[from] LoginError),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The configuration of a checker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    #[serde(default, deserialize_with = "place")]
    pub(crate) listen: Option<Endpoint>,
    #[serde(default)]
    pub(crate) admin: Option<String>,
    #[serde(default)]
    pub(crate) admin_token_file: Option<PathBuf>,
    #[serde(default = "sample")]
    sample: NonZeroU64,
    #[serde(default = "delays_ms")]
    delays_ms: Vec<u32>,
    #[serde(default)]
    database: Option<DatabaseConfig>,
    #[serde(default, rename = "check")]
    checks: Vec<Check>,
    #[serde(rename = "cluster")]
    pub(crate) clusters: Vec<ClusterConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DatabaseConfig {
    MariaDb(ServerConfig),
    Postgres(ServerConfig),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServerConfig {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    database: String,
    user: String,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    tls: Option<Tls>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Check {
    key: Pattern,
    /// Without one clusters are compared with each other.
    #[serde(default)]
    query: Option<String>,
}

/// Caches that have the same keys, and one address: a router, or a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClusterConfig {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) region: String,
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    #[serde(default, rename = "protocol")]
    pub(crate) dialect: Dialect,
    #[serde(default, deserialize_with = "prefix")]
    pub(crate) prefix: String,
    #[serde(default)]
    tls: Option<Tls>,
    #[serde(default)]
    login_file: Option<PathBuf>,
    #[serde(default = "timeout_ms")]
    timeout_ms: NonZeroU32,
}

fn sample() -> NonZeroU64 {
    SAMPLE
}

fn delays_ms() -> Vec<u32> {
    DELAYS_MS.to_vec()
}

fn timeout_ms() -> NonZeroU32 {
    TIMEOUT_MS
}

fn place<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Endpoint>, D::Error> {
    endpoint(deserializer).map(Some)
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, has a name that does not exist or a value that makes no sense; the error has the line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = read_settings(path).map_err(unreadable)?;
        Self::from_toml(&text).map_err(|message| ConfigError::File { path: path.to_owned(), message })
    }

    pub(crate) fn from_toml(text: &str) -> Result<Self, String> {
        let mut config: Config =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        config.delays_ms.sort_unstable();
        config.delays_ms.dedup();
        config.check()?;
        Ok(config)
    }

    /// Checks what serde does not.
    fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        if self.clusters.iter().any(|cluster| cluster.name.is_empty()) {
            return Err("a cluster has no name".to_owned());
        }
        if let Some(twice) = self.clusters.iter().find(|cluster| !names.insert(&cluster.name)) {
            return Err(format!("two clusters have the name {}", twice.name));
        }
        if self.delays_ms.is_empty() || self.delays_ms.contains(&0) || self.delays_ms.len() > DELAYS_MAX {
            return Err(format!("delays-ms must have 1 to {DELAYS_MAX} delays above 0"));
        }
        for cluster in &self.clusters {
            let checked = cluster.tls.as_ref().map_or(Ok(()), |tls| tls.check(&cluster.address));
            checked.map_err(|error| format!("of {}: {error}", cluster.name))?;
        }
        if let Some(place) = &self.admin {
            guira_web::place(place).map_err(|error| format!("admin {error}"))?;
        }
        let has_query = self.checks.iter().any(|check| check.query.is_some());
        match &self.database {
            Some(_) if !has_query => return Err("[database] is set, but no check has a query".to_owned()),
            None if has_query => return Err("a check has a query, but [database] is missing".to_owned()),
            Some(DatabaseConfig::MariaDb(server) | DatabaseConfig::Postgres(server)) => {
                let checked = server.tls.as_ref().map_or(Ok(()), |tls| tls.check(&server.address));
                checked.map_err(|error| format!("of the database: {error}"))?;
            }
            None => {}
        }
        let compares = self.checks.is_empty() || self.checks.iter().any(|check| check.query.is_none());
        if compares && self.clusters.len() < 2 {
            return Err(
                "a check without a query compares clusters: add a second cluster or a query".to_owned()
            );
        }
        self.statements().map(drop)
    }

    /// The query for each kind of keys. Without checks there is one kind, and clusters are compared
    /// with each other.
    pub(crate) fn statements(&self) -> Result<Vec<(Pattern, Option<Statement>)>, String> {
        let statement = |check: &Check| {
            let statement =
                check.query.as_ref().map(|query| Statement::new(query, &check.key)).transpose()?;
            Ok((check.key.clone(), statement))
        };
        if self.checks.is_empty() {
            return Ok(vec![(Pattern::any(), None)]);
        }
        self.checks.iter().map(statement).collect()
    }

    /// Clusters of the same region, by its name; none if there is one region.
    pub(crate) fn regions(&self) -> Vec<(String, Vec<usize>)> {
        let mut regions: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, cluster) in self.clusters.iter().enumerate() {
            match regions.iter_mut().find(|(name, _)| *name == cluster.region) {
                Some((_, clusters)) => clusters.push(number),
                None => regions.push((cluster.region.clone(), vec![number])),
            }
        }
        if regions.len() > 1 { regions } else { Vec::new() }
    }

    pub(crate) fn delays(&self) -> impl Iterator<Item = Duration> + '_ {
        self.delays_ms.iter().map(|delay| Duration::from_millis((*delay).into()))
    }

    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let against = |(pattern, statement): (Pattern, Option<Statement>)| {
            let against = if statement.is_some() { Against::Database } else { Against::EachOther };
            (pattern, against)
        };
        Ok(Settings {
            one_in: self.sample,
            delays: self.delays().collect(),
            checks: self.statements()?.into_iter().map(against).collect(),
            clusters: self.clusters.len(),
            regions: self.regions().into_iter().map(|(_, clusters)| clusters).collect(),
            under_way_max: UNDER_WAY_MAX,
        })
    }

    /// The connection settings of the database, if one is configured. Its certificate files were
    /// read.
    pub(crate) fn database(&self) -> Result<Option<Database>, ConfigError> {
        let (kind, server) = match &self.database {
            None => return Ok(None),
            Some(DatabaseConfig::MariaDb(server)) => (Kind::MariaDb, server),
            Some(DatabaseConfig::Postgres(server)) => (Kind::Postgres, server),
        };
        let ServerConfig { address, database, user, password_file, tls } = server;
        let server = Server::new(address, tls.as_ref(), user, password_file.as_deref())?;
        Ok(Some(Database { kind, server, name: database.clone() }))
    }

    /// Whether all files that it names can be used too, as far as that can be known without doing anything.
    ///
    /// # Errors
    /// When one of them cannot.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        self.admin_token_file.as_deref().map(Token::load).transpose()?;
        self.clusters.iter().try_for_each(|cluster| cluster.target().map(drop))?;
        self.database().map(drop)
    }
}

impl ClusterConfig {
    /// How it is reached. Its files can be used.
    pub(crate) fn target(&self) -> Result<Target, ConfigError> {
        let timeout = Duration::from_millis(u64::from(self.timeout_ms.get()));
        let target = secured(Target::new(self.address.clone(), timeout), self.tls.as_ref())?;
        Ok(match &self.login_file {
            Some(file) => target.with_login_file(file.clone())?,
            None => target,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_client::text::Endpoint;
    use guira_harness::scratch::Scratch;

    const GOOD: &str = r#"
listen = "127.0.0.1:11299"
[database.postgres]
address = "db:5432"
database = "shop"
user = "me"
[[check]]
key = "user:{id}"
query = "SELECT name FROM users WHERE id = {id}"
[[check]]
key = "page:{id}"
[[cluster]]
name = "a"
address = "a:11211"
[[cluster]]
name = "b"
region = "far"
address = "b:11211"
timeout-ms = 70
protocol = "classic"
prefix = "/x/"
[[cluster]]
name = "c"
region = "far"
address = "unix:/run/c"
"#;

    #[test]
    fn a_configuration_is_read_with_its_defaults() {
        let config = Config::from_toml(GOOD).unwrap();
        let settings = config.settings().unwrap();
        assert_eq!((settings.one_in.get(), settings.clusters), (1000, 3));
        assert_eq!(settings.delays.iter().map(Duration::as_secs).collect::<Vec<_>>(), [1, 10, 60, 600, 3600]);
        let against: Vec<Against> = settings.checks.iter().map(|(_, against)| *against).collect();
        assert_eq!(against, [Against::Database, Against::EachOther]);
        assert_eq!(config.regions(), [(String::new(), vec![0]), ("far".to_owned(), vec![1, 2])]);
        assert_eq!(config.listen, Some("127.0.0.1:11299".parse::<Endpoint>().unwrap()));
        let targets: Vec<Target> = config.clusters.iter().map(|cluster| cluster.target().unwrap()).collect();
        assert_eq!(
            targets.iter().map(|target| target.timeout().as_millis()).collect::<Vec<_>>(),
            [1000, 70, 1000]
        );
        let b = &config.clusters[1];
        assert_eq!((b.dialect, &*b.prefix), (Dialect::Classic, "/x/"));
        let database = config.database().unwrap().unwrap();
        assert!(matches!(database.kind, Kind::Postgres) && database.name == "shop");
        let text = GOOD.replace("listen =", "sample = 7\ndelays-ms = [50, 20, 50]\nlisten =");
        let settings = Config::from_toml(&text).unwrap().settings().unwrap();
        assert_eq!((settings.one_in.get(), settings.delays.len()), (7, 2));
        let one = Config::from_toml(&GOOD.replace("region = \"far\"", "")).unwrap();
        assert_eq!(one.regions(), [], "one region is all clusters");
    }

    #[test]
    fn files_that_cannot_be_used_are_told() {
        let scratch = Scratch::new();
        let fails = |from: &str, to: &str| {
            let text = GOOD.replacen(from, &format!("{to}\n{from}"), 1);
            Config::from_toml(&text).unwrap().check_files().unwrap_err()
        };
        assert!(Config::from_toml(GOOD).unwrap().check_files().is_ok());
        let missing = format!("{:?}", scratch.file("missing"));
        let server = fails("user = \"me\"", &format!("password-file = {missing}"));
        assert!(matches!(server, ConfigError::Server(ServerError::Login(_))), "{server}");
        let access = fails("timeout-ms", &format!("login-file = {missing}"));
        assert!(matches!(access, ConfigError::Access(_)), "{access}");
        let tls = fails("timeout-ms", &format!("tls = {{ ca = {missing} }}"));
        assert!(matches!(tls, ConfigError::Tls(_)), "{tls}");
        let token = fails("listen", &format!("admin-token-file = {missing}"));
        assert!(matches!(token, ConfigError::Token(_)), "{token}");
    }
}
