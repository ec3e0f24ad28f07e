//! What a server is started with: from the command line, a TOML file, and defaults, in this order.

use crate::size::Size;
use guira_roster::{Choice, DEFAULT_ENGINE};
use guira_transport::Address;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What was said about a server; what was not said is `None`. The names are those of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PartialOptions {
    /// Where to listen.
    pub listen: Option<Vec<String>>,
    /// Threads.
    pub workers: Option<usize>,
    /// The ceiling of the whole process.
    pub memory: Option<Size>,
    /// The engine.
    pub engine: Option<String>,
    /// Its index, if not the preset's.
    pub index: Option<String>,
    /// Its policy, if not the preset's.
    pub policy: Option<String>,
    /// The largest item.
    pub max_item_size: Option<Size>,
    /// Connections at the same time.
    pub max_connections: Option<u64>,
    /// Connections that nobody has accepted yet.
    pub backlog: Option<u32>,
    /// Whether each worker stays on a processor of its own.
    pub pin_workers: Option<bool>,
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; at least one address.
    pub listen: Vec<Address>,
    /// Threads; at least one.
    pub workers: usize,
    /// The ceiling of the whole process.
    pub memory: Size,
    /// The engine.
    pub engine: Choice,
    engine_name: String,
    /// The largest item, as memcached counts it.
    pub max_item_size: Size,
    /// Connections at the same time.
    pub max_connections: u64,
    /// Connections that nobody has accepted yet.
    pub backlog: u32,
    /// Where workers run.
    pub placement: Placement,
}

/// Where workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where the system puts them.
    Anywhere,
    /// Each on a processor of its own.
    Pinned,
}

/// What is wrong with the options.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {message}")]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// An address is none.
    #[error(transparent)]
    Address(#[from] guira_transport::AddressError),
    /// The engine is not to be had.
    #[error(transparent)]
    Engine(#[from] guira_contract::OptionError),
    /// A value is not allowed.
    #[error("{name} must be {expected}, not {value}")]
    Value {
        /// Of what.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        value: String,
    },
}

/// The address unless another is given: memcached's port, and nobody else's business.
const DEFAULT_LISTEN: &str = "127.0.0.1:11211";
const DEFAULT_MAX_ITEM: Size = Size(1 << 20);
/// The least and the most that `--max-item-size` may be, as memcached's -I.
const MAX_ITEM_RANGE: std::ops::RangeInclusive<usize> = 1024..=1 << 30;
const DEFAULT_MAX_CONNECTIONS: u64 = 1024;
const DEFAULT_BACKLOG: u32 = 1024;
/// More than this is not taken unasked.
const DEFAULT_MEMORY_MAX: usize = 1 << 30;

impl PartialOptions {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read, is no TOML, or has names or values that do not exist; the error tells the line.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|error| ConfigError::File { path: path.to_owned(), message: error.to_string() })
    }

    /// What was said here, and where nothing was said, what `other` says.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        PartialOptions {
            listen: self.listen.or(other.listen),
            workers: self.workers.or(other.workers),
            memory: self.memory.or(other.memory),
            engine: self.engine.or(other.engine),
            index: self.index.or(other.index),
            policy: self.policy.or(other.policy),
            max_item_size: self.max_item_size.or(other.max_item_size),
            max_connections: self.max_connections.or(other.max_connections),
            backlog: self.backlog.or(other.backlog),
            pin_workers: self.pin_workers.or(other.pin_workers),
        }
    }

    /// Fills in the defaults, and checks everything.
    ///
    /// # Errors
    /// If a value is not allowed.
    pub fn resolve(self) -> Result<Options, ConfigError> {
        let listen = self.listen.unwrap_or_else(|| vec![DEFAULT_LISTEN.to_owned()]);
        let listen: Vec<Address> = listen.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let engine_name = self.engine.unwrap_or_else(|| DEFAULT_ENGINE.to_owned());
        let engine = Choice::new(&engine_name, self.index.as_deref(), self.policy.as_deref())?;
        let workers = self.workers.unwrap_or_else(processors);
        let max_item_size = self.max_item_size.unwrap_or(DEFAULT_MAX_ITEM);
        let check = |good: bool, name, expected, value: String| {
            if good { Ok(()) } else { Err(ConfigError::Value { name, expected, value }) }
        };
        check(!listen.is_empty(), "listen", "at least one address", "an empty list".to_owned())?;
        check((1..=1024).contains(&workers), "workers", "1 to 1024", workers.to_string())?;
        let fits = MAX_ITEM_RANGE.contains(&max_item_size.0);
        check(fits, "max-item-size", "1KiB to 1GiB", max_item_size.to_string())?;
        let max_connections = self.max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS);
        check(max_connections > 0, "max-connections", "at least 1", max_connections.to_string())?;
        Ok(Options {
            listen,
            workers,
            memory: self.memory.unwrap_or_else(default_memory),
            engine,
            engine_name,
            max_item_size,
            max_connections,
            backlog: self.backlog.unwrap_or(DEFAULT_BACKLOG),
            placement: if self.pin_workers == Some(true) { Placement::Pinned } else { Placement::Anywhere },
        })
    }
}

impl Options {
    /// The same as a TOML file.
    pub fn to_toml(&self) -> String {
        let partial = PartialOptions {
            listen: Some(self.listen.iter().map(Address::to_string).collect()),
            workers: Some(self.workers),
            memory: Some(self.memory),
            engine: Some(self.engine_name.clone()),
            index: Some(self.engine.index()),
            policy: Some(self.engine.policy()),
            max_item_size: Some(self.max_item_size),
            max_connections: Some(self.max_connections),
            backlog: Some(self.backlog),
            pin_workers: Some(self.placement == Placement::Pinned),
        };
        toml::to_string(&partial).unwrap_or_default()
    }
}

/// Processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A quarter of the machine, at most 1 GiB.
fn default_memory() -> Size {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    Size((total.unwrap_or(1 << 20) * 1024 / 4).min(DEFAULT_MEMORY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Result<PartialOptions, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let options = PartialOptions::default().resolve().unwrap();
        let again = from(&options.to_toml()).unwrap().resolve().unwrap();
        assert_eq!(options.to_toml(), again.to_toml());
        assert_eq!(options.listen[0].to_string(), DEFAULT_LISTEN);
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let flags = PartialOptions { workers: Some(3), ..PartialOptions::default() };
        let file = from("workers = 1\nmemory = \"64MiB\"").unwrap();
        let options = flags.or(file).resolve().unwrap();
        assert_eq!((options.workers, options.memory), (3, Size(64 << 20)));
    }

    #[test]
    fn unknown_names_and_bad_values_are_refused_by_name() {
        assert!(from("memroy = \"1G\"").unwrap_err().contains("memroy"));
        assert!(from("memory = \"1X\"").unwrap_err().contains("'1X' is no size"));
        let resolve = |text: &str| from(text).unwrap().resolve().unwrap_err().to_string();
        assert!(resolve("workers = 0").starts_with("workers must be 1 to 1024"));
        assert!(resolve("listen = []").contains("at least one address"));
        assert!(resolve("listen = [\"here\"]").contains("'here' is no address"));
        assert!(resolve("engine = \"x\"").contains("there are: memc3"));
        assert!(resolve("max-item-size = \"2GiB\"").contains("1KiB to 1GiB"));
    }
}
