//! The configuration: a TOML file.

use crate::deliver::{Dialect, How, Limits, Spool, SpoolError};
use crate::keys::{TableTemplates, Template};
use crate::source::OnGap;
use crate::source::mariadb::{self, Reads, Until};
use guira_client::text::Endpoint;
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
    mariadb: MariaDb,
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
struct Templates {
    database: String,
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
        match self.templates.iter().find(|it| it.keys.is_empty()) {
            Some(Templates { database, table, .. }) => {
                Err(format!("the template of {database}.{table} has no keys"))
            }
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

    /// How the database is reached. Reads the file with the password.
    pub(crate) fn source(&self) -> Result<mariadb::Options, ConfigError> {
        let MariaDb { address, user, password_file, server_id } = &self.mariadb;
        let password = match password_file {
            None => String::new(),
            Some(path) => read(path)?.lines().next().unwrap_or_default().to_owned(),
        };
        Ok(mariadb::Options {
            address: address.clone(),
            login: mariadb::Login { user: user.clone(), password: password.into_bytes() },
            server_id: server_id.get(),
            until: Until::Forever,
            reads: if self.templates.is_empty() { Reads::Statements } else { Reads::StatementsAndRows },
        })
    }

    pub(crate) fn templates(&self) -> Vec<TableTemplates> {
        let all = self.templates.iter();
        all.map(|it| TableTemplates {
            database: it.database.clone(),
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
        let source = config.source().unwrap();
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
        assert_eq!(source.login.password, b"top secret");
        assert!(!format!("{source:?}").contains("secret"));
        std::fs::remove_file(password).unwrap();
        let config = Config::load(&scratch.file("config")).unwrap();
        assert!(matches!(config.check_files(), Err(ConfigError::Read { .. })));
    }
}
