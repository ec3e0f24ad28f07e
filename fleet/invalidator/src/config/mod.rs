//! The configuration: a TOML file.

mod database;
mod target;
#[cfg(test)]
mod tests;

use crate::deliver::{KEY_MAX, Limits, Spool, SpoolError, Ways};
use crate::keys::{Rule, TableKeys, Template};
use crate::source::{OnGap, Source, SourceError};
use database::Database;
use guira_client::text::{Endpoint, LoginError};
use guira_disk as disk;
use guira_sandbox::SystemCalls;
use guira_sql::{ServerError, read_settings};
use guira_transport::TlsError;
use guira_web::{Token, TokenError};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(crate) use target::TargetConfig;

/// The default number of keys in a batch, and of batches in the queue of a target.
const BATCH_KEYS: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
/// The replies to a batch are read only after all requests were sent, so they have to fit into the
/// socket buffers.
const BATCH_KEYS_MAX: usize = 5000;
const QUEUE: NonZeroUsize = NonZeroUsize::new(16).unwrap();
const QUEUE_MAX: usize = 10_000;
/// The default schema of PostgreSQL tables.
const PUBLIC: &str = "public";
/// The default size of a target's spool in MiB, and the time that its queue is full before the
/// spool is used.
const SPOOL_MAX_MB: NonZeroU32 = NonZeroU32::new(1024).unwrap();
const SPOOL_AFTER_MS: NonZeroU32 = NonZeroU32::new(1000).unwrap();

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {message}")]
    File { path: PathBuf, message: String },
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the public key of the database: {0}")]
    Key(SourceError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("the login of a target: {0}")]
    Access(#[from] LoginError),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The configuration of an invalidator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The file with the position at which the log is read after a restart. Senders of change
    /// events have no such position.
    #[serde(default)]
    pub(crate) position: Option<PathBuf>,
    /// The address of the admin listener, and the file with the token that its clients send.
    #[serde(default)]
    pub(crate) admin: Option<String>,
    #[serde(default)]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// The calls that the invalidator may make once it runs.
    #[serde(default, deserialize_with = "system_calls")]
    pub(crate) system_calls: SystemCalls,
    #[serde(default = "batch_keys")]
    pub(crate) batch_keys: NonZeroUsize,
    #[serde(default = "queue")]
    pub(crate) queue_batches: NonZeroUsize,
    #[serde(default)]
    pub(crate) on_gap: OnGap,
    /// The folder of the spools: deletes on disk for targets that are unreachable.
    #[serde(default)]
    spool: Option<PathBuf>,
    #[serde(default = "spool_max_mb")]
    spool_max_mb: NonZeroU32,
    #[serde(default = "spool_after_ms")]
    spool_after_ms: NonZeroU32,
    source: Database,
    #[serde(default, rename = "template")]
    templates: Vec<Templates>,
    #[serde(default, rename = "outbox")]
    outboxes: Vec<Outbox>,
    #[serde(rename = "target")]
    pub(crate) targets: Vec<TargetConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Templates {
    /// MariaDB and MySQL have tables in databases, PostgreSQL has them in schemas of one database.
    #[serde(default)]
    database: Option<String>,
    #[serde(default)]
    schema: Option<String>,
    table: String,
    keys: Vec<Template>,
}

/// A table whose inserted rows name keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Outbox {
    #[serde(default)]
    database: Option<String>,
    #[serde(default)]
    schema: Option<String>,
    table: String,
    column: String,
}

fn batch_keys() -> NonZeroUsize {
    BATCH_KEYS
}

fn queue() -> NonZeroUsize {
    QUEUE
}

fn spool_max_mb() -> NonZeroU32 {
    SPOOL_MAX_MB
}

fn spool_after_ms() -> NonZeroU32 {
    SPOOL_AFTER_MS
}

fn system_calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemCalls, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn endpoints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Endpoint>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(serde::de::Error::custom))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn yes() -> bool {
    true
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or has an unknown name or an invalid value; the
    /// error has the line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = read_settings(path).map_err(unreadable)?;
        Self::from_toml(&text).map_err(|message| ConfigError::File { path: path.to_owned(), message })
    }

    fn from_toml(text: &str) -> Result<Self, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        config.check()?;
        Ok(config)
    }

    /// Checks what depends on more than one setting.
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
        self.check_spool()?;
        if let Some(place) = &self.admin {
            guira_web::place(place).map_err(|error| format!("admin {error}"))?;
        }
        self.source.check_position(self.position.as_deref())?;
        self.source.check()?;
        self.check_tables()
    }

    fn check_tables(&self) -> Result<(), String> {
        for it in &self.templates {
            let checked = self.source.check_place(it.database.as_deref(), it.schema.as_deref());
            checked.map_err(|error| format!("the template of {} {error}", it.table))?;
            if it.keys.is_empty() {
                let place = place(&it.database, &it.schema);
                return Err(format!("the template of {place}.{} has no keys", it.table));
            }
        }
        for it in &self.outboxes {
            let checked = self.source.check_place(it.database.as_deref(), it.schema.as_deref());
            checked.map_err(|error| format!("the outbox {} {error}", it.table))?;
        }
        Ok(())
    }

    /// The queue of a target moves to its spool as a whole, so the spool has to have room for all
    /// of it.
    fn check_spool(&self) -> Result<(), String> {
        if self.spool.is_none() {
            return Ok(());
        }
        let most = self.targets.iter().map(|target| self.limits(target).spool_bytes()).max();
        let least = most.unwrap_or(0).div_ceil(1 << 20);
        if u64::from(self.spool_max_mb.get()) < least {
            return Err(format!(
                "spool-max-mb must be at least {least}: so much may be in memory for a target"
            ));
        }
        Ok(())
    }

    /// The longest key, in bytes, that every target accepts; and the name of the target whose
    /// prefix shortens it, if there is one.
    pub fn longest_key(&self) -> (usize, Option<&str>) {
        let shortest = self.targets.iter().min_by_key(|target| target.key_max());
        let name = shortest.filter(|target| target.key_max() < KEY_MAX).map(|target| &*target.name);
        (shortest.map_or(KEY_MAX, TargetConfig::key_max), name)
    }

    /// The longest key, in bytes, that at least one target accepts. Longer keys are refused when
    /// they are found.
    pub(crate) fn key_max(&self) -> usize {
        self.targets.iter().map(TargetConfig::key_max).max().unwrap_or(KEY_MAX)
    }

    /// The time in seconds after which a silent sender of change events counts as failed.
    pub(crate) fn silence_max(&self) -> Option<u64> {
        self.source.silence_max()
    }

    /// The limits of a target's queue.
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

    /// Keeps only this target, and no spools: a spool belongs to the invalidator that reads the
    /// log.
    pub(crate) fn for_replay(&mut self, target: Option<&str>) -> Result<(), String> {
        self.spool = None;
        let Some(name) = target else { return Ok(()) };
        self.targets.retain(|target| target.name == name);
        if self.targets.is_empty() { Err(format!("no target is called {name}")) } else { Ok(()) }
    }

    /// Opens the spool of a target, if spools are configured.
    pub(crate) fn open_spool(&self, target: &TargetConfig) -> Result<Option<Spool>, SpoolError> {
        let Some(folder) = &self.spool else { return Ok(None) };
        let bytes_max = u64::from(self.spool_max_mb.get()) << 20;
        Spool::open(&folder.join(folder_name(&target.name)), bytes_max).map(Some)
    }

    /// Spool folders whose target is no longer configured.
    pub(crate) fn forgotten_spools(&self) -> Vec<PathBuf> {
        let Some(folder) = &self.spool else { return Vec::new() };
        let names: HashSet<_> = self.targets.iter().map(|target| folder_name(&target.name)).collect();
        let entries = disk::read_dir(folder).into_iter().flatten().flatten();
        let others =
            entries.filter(|entry| !entry.file_name().to_str().is_some_and(|name| names.contains(name)));
        others.map(|entry| entry.path()).collect()
    }

    /// The database or sender to read from. Reads the files with the password and the authorities.
    pub(crate) fn source(&self) -> Result<Source, ConfigError> {
        let tables = self.tables().into_iter().map(|it| (it.database, it.table));
        self.source.source(tables.collect())
    }

    /// The addresses of each target, whose certificate files were read.
    pub(crate) fn ways(&self) -> Result<Vec<Ways>, ConfigError> {
        self.targets.iter().map(TargetConfig::ways).collect()
    }

    /// The tables whose rows name keys, with the rule for each.
    pub(crate) fn tables(&self) -> Vec<TableKeys> {
        let of_templates = self.templates.iter().map(|it| TableKeys {
            database: place(&it.database, &it.schema).to_owned(),
            table: it.table.clone(),
            rule: Rule::Templates(it.keys.clone()),
        });
        let outboxes = self.outboxes.iter().map(|it| TableKeys {
            database: place(&it.database, &it.schema).to_owned(),
            table: it.table.clone(),
            rule: Rule::Outbox(it.column.clone()),
        });
        of_templates.chain(outboxes).collect()
    }

    /// Checks that the files that the configuration names can be used, without connecting to
    /// anything.
    ///
    /// # Errors
    /// When one of the files cannot be used.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        self.admin_token_file.as_deref().map(Token::load).transpose()?;
        self.ways()?;
        self.source().map(drop)
    }
}

/// A target's name as the name of a folder.
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

fn place<'a>(database: &'a Option<String>, schema: &'a Option<String>) -> &'a str {
    database.as_deref().or(schema.as_deref()).unwrap_or(PUBLIC)
}
