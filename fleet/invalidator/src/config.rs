//! The configuration: a TOML file.

use crate::deliver::{Dialect, How, Limits, Spool, SpoolError};
use crate::keys::{TableTemplates, Template};
use crate::source::mariadb::{self, Reads, Until};
use crate::source::postgres::{self, Confirmed, Security, SlotCreation};
use crate::source::{Login, OnGap, Source};
use guira_client::text::Endpoint;
use guira_transport::{NameCheck, Resumption, TlsClientOptions, TlsConnector, TlsError};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest configuration and the longest file with a password, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Keys of a batch, and the batches that a target may have to do.
const BATCH_KEYS: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
/// Their answers have to fit into the buffers of sockets, since they are read once all requests are sent.
const BATCH_KEYS_MAX: usize = 5000;
const QUEUE: NonZeroUsize = NonZeroUsize::new(16).unwrap();
const QUEUE_MAX: usize = 10_000;
/// The schema of tables without one.
const PUBLIC: &str = "public";
/// How long a target may take, in milliseconds.
const TIMEOUT_MS: NonZeroU32 = NonZeroU32::new(5000).unwrap();
/// How long keys wait for others, and how long after the first delivery the second is, in milliseconds.
const LINGER_MS: u32 = 10;
const AGAIN_AFTER_MS: u32 = 500;
/// The longest wait between deliveries: meanwhile all keys are in memory.
const AGAIN_AFTER_MS_MAX: u32 = 60_000;
const LINGER_MS_MAX: u32 = 1000;
/// What the spool of a target may take on disk, in MiB, and how long its queue has no room before it is used.
const SPOOL_MAX_MB: NonZeroU32 = NonZeroU32::new(1024).unwrap();
const SPOOL_AFTER_MS: NonZeroU32 = NonZeroU32::new(1000).unwrap();

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {message}")]
    File { path: PathBuf, message: String },
    #[error("TLS to the database: {0}")]
    Tls(#[from] TlsError),
}

/// What an invalidator is to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The file that says where the log is read on.
    pub(crate) position: PathBuf,
    /// Where the admin listener is, and the file of the token that its clients show.
    #[serde(default)]
    pub(crate) admin: Option<String>,
    #[serde(default)]
    pub(crate) admin_token_file: Option<PathBuf>,
    #[serde(default = "batch_keys")]
    pub(crate) batch_keys: NonZeroUsize,
    #[serde(default = "queue")]
    pub(crate) queue_batches: NonZeroUsize,
    #[serde(default)]
    pub(crate) on_gap: OnGap,
    /// The folder of what targets that are away are given later.
    #[serde(default)]
    spool: Option<PathBuf>,
    #[serde(default = "spool_max_mb")]
    spool_max_mb: NonZeroU32,
    #[serde(default = "spool_after_ms")]
    spool_after_ms: NonZeroU32,
    mariadb: Option<MariaDb>,
    postgres: Option<Postgres>,
    #[serde(default, rename = "template")]
    templates: Vec<Templates>,
    #[serde(rename = "target")]
    pub(crate) targets: Vec<TargetConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MariaDb {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    user: String,
    #[serde(default)]
    password_file: Option<PathBuf>,
    server_id: NonZeroU32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Postgres {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    database: String,
    user: String,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    sslmode: SslMode,
    #[serde(default)]
    sslrootcert: Option<PathBuf>,
    #[serde(deserialize_with = "slot")]
    slot: String,
    #[serde(default = "yes")]
    create_slot: bool,
    publication: String,
}

/// How a connection to PostgreSQL is encrypted, by libpq's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SslMode {
    #[default]
    Disable,
    /// Whoever answers.
    Require,
    /// Only if a certificate of `sslrootcert` names the host.
    VerifyFull,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Templates {
    /// MariaDB has tables in databases, PostgreSQL in schemas of the one database.
    #[serde(default)]
    database: Option<String>,
    #[serde(default)]
    schema: Option<String>,
    table: String,
    keys: Vec<Template>,
}

/// Who is sent deletes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TargetConfig {
    pub(crate) name: String,
    #[serde(deserialize_with = "endpoint")]
    pub(crate) address: Endpoint,
    #[serde(default, rename = "protocol")]
    pub(crate) dialect: Dialect,
    /// What is put before each key, such as a routing prefix.
    #[serde(default, deserialize_with = "prefix")]
    prefix: String,
    #[serde(default = "timeout_ms")]
    timeout_ms: NonZeroU32,
    #[serde(default = "linger_ms")]
    linger_ms: u32,
    /// 0 is never.
    #[serde(default)]
    again_after_ms: Option<u32>,
    #[serde(default)]
    hold_off_s: Option<NonZeroU32>,
}

impl TargetConfig {
    pub(crate) fn how(&self) -> How {
        How { prefix: self.prefix.clone(), hold_off_s: self.hold_off_s.map(NonZeroU32::get) }
    }

    /// A target that holds keys off needs no second delete.
    fn again_after(&self) -> Option<Duration> {
        let default = if self.hold_off_s.is_some() { 0 } else { AGAIN_AFTER_MS };
        let after = self.again_after_ms.unwrap_or(default);
        (after > 0).then(|| Duration::from_millis(after.into()))
    }

    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.linger_ms > LINGER_MS_MAX {
            return Err(format!("linger-ms of {name} must be at most {LINGER_MS_MAX}"));
        }
        if self.again_after_ms.is_some_and(|after| after > AGAIN_AFTER_MS_MAX) {
            return Err(format!("again-after-ms of {name} must be at most {AGAIN_AFTER_MS_MAX}"));
        }
        Ok(())
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.timeout_ms.get()))
    }
}

fn batch_keys() -> NonZeroUsize {
    BATCH_KEYS
}

fn queue() -> NonZeroUsize {
    QUEUE
}

fn timeout_ms() -> NonZeroU32 {
    TIMEOUT_MS
}

fn linger_ms() -> u32 {
    LINGER_MS
}

fn spool_max_mb() -> NonZeroU32 {
    SPOOL_MAX_MB
}

fn spool_after_ms() -> NonZeroU32 {
    SPOOL_AFTER_MS
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Endpoint, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn yes() -> bool {
    true
}

/// The longest name of a slot, in bytes.
const SLOT_MAX: usize = 63;

fn slot<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if text.is_empty() || text.len() > SLOT_MAX || !text.bytes().all(is_good) {
        return Err(serde::de::Error::custom("a slot has up to 63 small letters, digits and underscores"));
    }
    Ok(text)
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(serde::de::Error::custom("a prefix has no blanks and no control bytes"));
    }
    Ok(text)
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, has a name that does not exist or a value that makes no sense; the error has the line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        Self::from_toml(&text).map_err(|message| ConfigError::File { path: path.to_owned(), message })
    }

    fn from_toml(text: &str) -> Result<Self, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        config.check()?;
        Ok(config)
    }

    /// What a line alone does not tell.
    fn check(&self) -> Result<(), String> {
        if self.targets.is_empty() {
            return Err("there is no target".to_owned());
        }
        let mut names = HashSet::new();
        if self.targets.iter().any(|target| target.name.is_empty()) {
            return Err("a target has no name".to_owned());
        }
        if let Some(twice) = self.targets.iter().find(|target| !names.insert(&target.name)) {
            return Err(format!("two targets are called {}", twice.name));
        }
        if self.batch_keys.get() > BATCH_KEYS_MAX {
            return Err(format!("batch-keys must be at most {BATCH_KEYS_MAX}"));
        }
        if self.queue_batches.get() > QUEUE_MAX {
            return Err(format!("queue-batches must be at most {QUEUE_MAX}"));
        }
        self.targets.iter().try_for_each(TargetConfig::check)?;
        self.check_source()?;
        match self.templates.iter().find(|it| it.keys.is_empty()) {
            Some(it) => Err(format!("the template of {}.{} has no keys", it.place(), it.table)),
            None => Ok(()),
        }
    }

    /// How much may wait for a target, and for how long.
    pub(crate) fn limits(&self, target: &TargetConfig) -> Limits {
        let millis = |millis: u32| Duration::from_millis(millis.into());
        Limits {
            batch_keys: self.batch_keys.get(),
            queue_weight: self.batch_keys.get() * self.queue_batches.get(),
            linger: millis(target.linger_ms),
            again_after: target.again_after(),
            spool_after: millis(self.spool_after_ms.get()),
        }
    }

    /// Leaves out all targets but this one, and spools, which belong to whoever reads on.
    pub(crate) fn for_replay(&mut self, target: Option<&str>) -> Result<(), String> {
        self.spool = None;
        let Some(name) = target else { return Ok(()) };
        self.targets.retain(|target| target.name == name);
        if self.targets.is_empty() { Err(format!("no target is called {name}")) } else { Ok(()) }
    }

    /// Opens the spool of a target, if there is to be one.
    pub(crate) fn open_spool(&self, target: &TargetConfig) -> Result<Option<Spool>, SpoolError> {
        let Some(folder) = &self.spool else { return Ok(None) };
        let bytes_max = u64::from(self.spool_max_mb.get()) << 20;
        Spool::open(&folder.join(folder_name(&target.name)), bytes_max).map(Some)
    }

    /// Folders in that of the spool that belong to no target.
    pub(crate) fn forgotten_spools(&self) -> Vec<PathBuf> {
        let Some(folder) = &self.spool else { return Vec::new() };
        let names: HashSet<_> = self.targets.iter().map(|target| folder_name(&target.name)).collect();
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let others =
            entries.filter(|entry| !entry.file_name().to_str().is_some_and(|name| names.contains(name)));
        others.map(|entry| entry.path()).collect()
    }

    fn check_source(&self) -> Result<(), String> {
        match (&self.mariadb, &self.postgres) {
            (None, None) => return Err("there is no database: [mariadb] or [postgres]".to_owned()),
            (Some(_), Some(_)) => return Err("there are two databases, and one is read".to_owned()),
            (Some(_), None) => {
                if let Some(it) =
                    self.templates.iter().find(|it| it.database.is_none() || it.schema.is_some())
                {
                    return Err(format!("the template of {} needs a database, and has no schema", it.table));
                }
            }
            (None, Some(postgres)) => {
                if let Some(it) = self.templates.iter().find(|it| it.database.is_some()) {
                    return Err(format!(
                        "the template of {} may have a schema, and has no database: that is {}",
                        it.table, postgres.database
                    ));
                }
                postgres.check()?;
            }
        }
        Ok(())
    }

    /// How the database is reached. Reads the files with the password and with authorities.
    pub(crate) fn source(&self) -> Result<Source, ConfigError> {
        if let Some(postgres) = &self.postgres {
            let tables = self.templates.iter().map(|it| (it.place().to_owned(), it.table.clone()));
            return Ok(Source::Postgres(postgres.options(tables.collect())?));
        }
        let reads = if self.templates.is_empty() { Reads::Statements } else { Reads::StatementsAndRows };
        let mariadb = self.mariadb.as_ref().map(|mariadb| mariadb.options(reads)).transpose()?;
        let none = || ConfigError::File { path: PathBuf::new(), message: "there is no database".to_owned() };
        mariadb.map(Source::MariaDb).ok_or_else(none)
    }

    pub(crate) fn templates(&self) -> Vec<TableTemplates> {
        let all = self.templates.iter();
        all.map(|it| TableTemplates {
            database: it.place().to_owned(),
            table: it.table.clone(),
            keys: it.keys.clone(),
        })
        .collect()
    }

    /// Whether all files that it names can be used too, as far as that can be known without doing anything.
    ///
    /// # Errors
    /// When one of them cannot.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        self.source().map(drop)
    }
}

/// A name as it may stand in a path.
fn folder_name(name: &str) -> String {
    let mut folder = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("%{byte:02x}"));
        }
    }
    folder
}

impl Templates {
    /// Where the table is.
    fn place(&self) -> &str {
        self.database.as_deref().or(self.schema.as_deref()).unwrap_or(PUBLIC)
    }
}

impl MariaDb {
    fn options(&self, reads: Reads) -> Result<mariadb::Options, ConfigError> {
        Ok(mariadb::Options {
            address: self.address.clone(),
            login: login(&self.user, self.password_file.as_deref())?,
            server_id: self.server_id.get(),
            until: Until::Forever,
            reads,
        })
    }
}

impl Postgres {
    fn check(&self) -> Result<(), String> {
        match (self.sslmode, &self.sslrootcert, &self.address) {
            (SslMode::VerifyFull, None, _) => Err("sslmode = \"verify-full\" needs sslrootcert".to_owned()),
            (SslMode::Disable | SslMode::Require, Some(_), _) => {
                Err("sslrootcert needs sslmode = \"verify-full\"".to_owned())
            }
            (SslMode::Require | SslMode::VerifyFull, _, Endpoint::Unix(_)) => {
                Err("a UNIX socket has no sslmode".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn options(&self, tables: Vec<(String, String)>) -> Result<postgres::Options, ConfigError> {
        let creation = if self.create_slot { SlotCreation::Allowed } else { SlotCreation::Forbidden };
        Ok(postgres::Options {
            endpoint: self.address.clone(),
            security: self.security()?,
            login: login(&self.user, self.password_file.as_deref())?,
            database: self.database.clone(),
            slot: self.slot.clone(),
            slot_creation: creation,
            publication: self.publication.clone(),
            tables,
            confirmed: Confirmed::default(),
        })
    }

    fn security(&self) -> Result<Security, TlsError> {
        let Endpoint::Tcp { host, .. } = &self.address else { return Ok(Security::Plain) };
        if self.sslmode == SslMode::Disable {
            return Ok(Security::Plain);
        }
        let connector = TlsConnector::new(TlsClientOptions {
            chain: None,
            key: None,
            authorities: self.sslrootcert.clone(),
            names: NameCheck::Required,
            resumption: Resumption::Off,
        })?;
        Ok(Security::Tls(connector, host.parse()?))
    }
}

fn login(user: &str, password_file: Option<&Path>) -> Result<Login, ConfigError> {
    let password = match password_file {
        None => String::new(),
        Some(path) => read(path)?.lines().next().unwrap_or_default().to_owned(),
    };
    Ok(Login { user: user.to_owned(), password: password.into_bytes() })
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_MAX {
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long")));
    }
    fs::read_to_string(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::scratch::Scratch;

    const GOOD: &str = r#"
position = "/var/lib/guira/position"
admin = "127.0.0.1:9160"

[mariadb]
address = "db.example:3306"
user = "guira"
server-id = 4242

[[template]]
database = "shop"
table = "users"
keys = ["user:{id}", "mail:{mail}"]

[[target]]
name = "east"
address = "10.0.0.1:11211"
prefix = "/*/*/"

[[target]]
name = "west"
address = "unix:/run/router"
protocol = "classic"
timeout-ms = 250
hold-off-s = 2
"#;

    #[test]
    fn a_configuration_is_read_with_its_defaults() {
        let config = Config::from_toml(GOOD).unwrap();
        assert_eq!((config.batch_keys, config.queue_batches), (BATCH_KEYS, QUEUE));
        assert_eq!(config.on_gap, OnGap::Stop);
        let Source::MariaDb(source) = config.source().unwrap() else { panic!("a MariaDB") };
        assert_eq!((source.address.to_string().as_str(), source.server_id), ("db.example:3306", 4242));
        assert_eq!(source.reads, Reads::StatementsAndRows);
        let [east, west] = &config.targets[..] else { panic!("two targets") };
        assert_eq!(
            (east.dialect, &*east.how().prefix, east.timeout()),
            (Dialect::Meta, "/*/*/", Duration::from_secs(5))
        );
        assert_eq!(
            (west.dialect, &*west.how().prefix, west.timeout()),
            (Dialect::Classic, "", Duration::from_millis(250))
        );
        assert_eq!((east.how().hold_off_s, west.how().hold_off_s), (None, Some(2)));
        let limits = [east, west].map(|target| config.limits(target));
        assert_eq!(limits.map(|limits| limits.again_after), [Some(Duration::from_millis(500)), None]);
        assert_eq!(limits.map(|limits| limits.linger.as_millis()), [10, 10]);
        assert_eq!(
            limits.map(|limits| (limits.queue_weight, limits.spool_after.as_secs())),
            [(16_000, 1); 2]
        );
        let again = GOOD.replace("hold-off-s = 2", "hold-off-s = 2\nagain-after-ms = 70\nlinger-ms = 0");
        let config = Config::from_toml(&again).unwrap();
        let limits = config.limits(&config.targets[1]);
        assert_eq!((limits.again_after, limits.linger), (Some(Duration::from_millis(70)), Duration::ZERO));
        let never = GOOD.replace("prefix =", "again-after-ms = 0\nprefix =");
        let config = Config::from_toml(&never).unwrap();
        assert_eq!(config.limits(&config.targets[0]).again_after, None);
        assert_eq!(config.templates()[0].keys.len(), 2);
    }

    /// The same with the other database.
    const POSTGRES: &str = r#"
[postgres]
address = "db.example:5432"
database = "shop"
user = "guira"
slot = "guira_1"
publication = "guira"
"#;

    fn with_postgres() -> String {
        let (start, end) = (GOOD.find("[mariadb]").unwrap(), GOOD.find("[[template]]").unwrap());
        [&GOOD[..start], POSTGRES, &GOOD[end..]].concat().replacen("database = \"shop\"\ntable", "table", 1)
    }

    fn options(text: &str) -> Result<postgres::Options, String> {
        match Config::from_toml(text)?.source().map_err(|error| error.to_string())? {
            Source::Postgres(options) => Ok(options),
            Source::MariaDb(_) => panic!("no PostgreSQL"),
        }
    }

    #[test]
    fn a_postgresql_is_read_with_its_defaults() {
        let read = options(&with_postgres()).unwrap();
        assert_eq!(read.endpoint.to_string(), "db.example:5432");
        assert_eq!((&*read.database, &*read.slot, &*read.publication), ("shop", "guira_1", "guira"));
        assert_eq!(read.tables, [("public".to_owned(), "users".to_owned())]);
        assert_eq!(read.slot_creation, SlotCreation::Allowed);
        assert!(matches!(read.security, Security::Plain));
        let text = with_postgres()
            .replace("table = \"users\"", "schema = \"s\"\ntable = \"users\"")
            .replace("slot =", "sslmode = \"require\"\ncreate-slot = false\nslot =");
        let read = options(&text).unwrap();
        assert_eq!(read.tables, [("s".to_owned(), "users".to_owned())]);
        assert_eq!(read.slot_creation, SlotCreation::Forbidden);
        assert!(matches!(read.security, Security::Tls(..)));
    }

    #[test]
    fn a_postgresql_that_makes_no_sense_is_refused() {
        let good = with_postgres();
        for (from, to, expected) in [
            ("slot =", "slott =", "unknown field `slott`"),
            ("guira_1", "Guira", "small letters"),
            ("slot =", "sslmode = \"verify-full\"\nslot =", "needs sslrootcert"),
            ("slot =", "sslrootcert = \"x\"\nslot =", "needs sslmode"),
            ("slot =", "sslmode = \"allow\"\nslot =", "unknown variant"),
            ("table =", "database = \"shop\"\ntable =", "has no database: that is shop"),
        ] {
            let error = options(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let on_unix = good.replace("db.example:5432", "unix:/run/db");
        assert!(options(&on_unix).is_ok());
        let error = options(&on_unix.replace("slot =", "sslmode = \"require\"\nslot =")).unwrap_err();
        assert!(error.contains("has no sslmode"), "{error}");
        let unread = "sslmode = \"verify-full\"\nsslrootcert = \"/nowhere\"\nslot =";
        let config = Config::from_toml(&good.replacen("slot =", unread, 1)).unwrap();
        assert!(matches!(config.check_files(), Err(ConfigError::Tls(_))));
    }

    #[test]
    fn there_is_one_database() {
        let without = GOOD.replace("[mariadb]", "[mysql]");
        assert!(Config::from_toml(&without).unwrap_err().contains("unknown field `mysql`"));
        let (start, end) = (GOOD.find("[mariadb]").unwrap(), GOOD.find("[[template]]").unwrap());
        let without = [&GOOD[..start], &GOOD[end..]].concat();
        assert!(Config::from_toml(&without).unwrap_err().contains("there is no database"));
        let both = GOOD.replace("[[template]]", &format!("{POSTGRES}\n[[template]]"));
        assert!(Config::from_toml(&both).unwrap_err().contains("there are two databases"));
        let schema = GOOD.replace("database = \"shop\"", "schema = \"shop\"");
        assert!(Config::from_toml(&schema).unwrap_err().contains("needs a database"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (from, to, line, expected) in [
            ("admin =", "admim =", 3, "unknown field `admim`"),
            ("db.example:3306", "db.example", 6, "is no address"),
            ("user =", "usr =", 7, "unknown field `usr`"),
            ("prefix =", "prefiks =", 18, "unknown field `prefiks`"),
            ("server-id = 4242", "server-id = 0", 8, "nonzero"),
            ("user:{id}", "user:{id", 13, "braces as such"),
            ("user:{id}", "users", 13, "names no column"),
            ("10.0.0.1:11211", "10.0.0.1", 17, "is no address"),
            ("/*/*/", "a b", 18, "no blanks"),
            ("\"classic\"", "\"binary\"", 23, "unknown variant"),
            ("timeout-ms = 250", "timeout-ms = 0", 24, "nonzero"),
            ("table = \"users\"", "", 10, "missing field `table`"),
        ] {
            let error = Config::from_toml(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(&format!("line {line},")) && error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn what_a_line_alone_does_not_tell_is_checked_too() {
        let without_targets = &GOOD[..GOOD.find("[[target]]").unwrap()];
        for (text, expected) in [
            (format!("target = []\n{without_targets}"), "there is no target"),
            (without_targets.to_owned(), "missing field `target`"),
            (GOOD.replace("\"west\"", "\"east\""), "two targets are called east"),
            (GOOD.replacen("admin =", "batch-keys = 5001\nadmin =", 1), "at most 5000"),
            (GOOD.replacen("admin =", "queue-batches = 10001\nadmin =", 1), "at most 10000"),
            (GOOD.replace("\"west\"", "\"\""), "a target has no name"),
            (GOOD.replace("hold-off-s = 2", "again-after-ms = 60001"), "of west must be at most 60000"),
            (GOOD.replace("hold-off-s = 2", "linger-ms = 1001"), "of west must be at most 1000"),
            (GOOD.replace("[\"user:{id}\", \"mail:{mail}\"]", "[]"), "shop.users has no keys"),
        ] {
            let error = Config::from_toml(&text).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn each_target_has_a_spool_of_its_own() {
        let scratch = Scratch::new();
        let folder = scratch.file("spool");
        let text = GOOD.replacen("admin =", &format!("spool = {folder:?}\nspool-max-mb = 3\nadmin ="), 1);
        let config = Config::from_toml(&text.replace("\"east\"", "\"../e ast\"")).unwrap();
        for target in &config.targets {
            config.open_spool(target).unwrap().expect("there is one");
        }
        assert!(folder.join("%2e%2e%2fe%20ast").is_dir() && folder.join("west").is_dir());
        assert!(config.forgotten_spools().is_empty());
        assert_eq!(Config::from_toml(&text).unwrap().forgotten_spools(), [folder.join("%2e%2e%2fe%20ast")]);
        let without = Config::from_toml(GOOD).unwrap();
        assert!(without.open_spool(&without.targets[0]).unwrap().is_none());
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file_and_not_shown() {
        let scratch = Scratch::new();
        let password = scratch.write("password", "top secret\nmore\n");
        let setting = format!("user = \"guira\"\npassword-file = {:?}", password);
        let text = GOOD.replace("user = \"guira\"", &setting);
        let source = Config::load(&scratch.write("config", &text)).unwrap().source().unwrap();
        let Source::MariaDb(source) = source else { panic!("a MariaDB") };
        assert_eq!(source.login.password, b"top secret");
        assert!(!format!("{source:?}").contains("secret"));
        std::fs::remove_file(password).unwrap();
        let config = Config::load(&scratch.file("config")).unwrap();
        assert!(matches!(config.check_files(), Err(ConfigError::Read { .. })));
    }
}
