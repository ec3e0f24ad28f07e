//! From what was said to what a server can be started with.

use super::Told;
use guira_roster::{Choice, DEFAULT_ENGINE, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM};
use guira_server::{
    Beyond, ConnectionLimits, Eviction, HugePages, Interface, Listen, LogBuffers, NoPlace, Options,
    Permissions, Placement, Residence, Resumption, Size, Speaks, Storage, Switch, TlsOptionError, TlsOptions,
    UdpPorts, Uniques,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is wrong with what was said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
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
    /// Nothing can be listened on by this name.
    #[error(transparent)]
    Listen(#[from] guira_server::ListenTextError),
    /// The engine is not to be had.
    #[error(transparent)]
    Engine(#[from] guira_roster::OptionError),
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
    /// An option of TLS is not understood.
    #[error("{name}: {problem}")]
    Tls {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        problem: TlsOptionError,
    },
    /// Two things that do not go together.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// The least and the most that `--max-item-size` may be, as memcached's -I.
const MAX_ITEM_RANGE: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

/// One request that has arrived in part must find room.
const CONNECTION_MEMORY_LEAST: Size = Size(64 << 10);

fn check(
    good: bool,
    name: &'static str,
    expected: &'static str,
    value: impl ToString,
) -> Result<(), ConfigError> {
    if good { Ok(()) } else { Err(ConfigError::Value { name, expected, value: value.to_string() }) }
}

/// The meaning of a word among those that are allowed.
fn word<T: Copy>(
    name: &'static str,
    expected: &'static str,
    text: &str,
    meanings: &[(&str, T)],
) -> Result<T, ConfigError> {
    let meaning = meanings.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    meaning.ok_or_else(|| ConfigError::Value { name, expected, value: text.to_owned() })
}

impl Told {
    /// Fills in the defaults, and checks everything. Returns it with the defaults written out, as well.
    ///
    /// # Errors
    /// If a value is not allowed.
    pub(crate) fn resolve(self) -> Result<(Options, Told), ConfigError> {
        let default = Options::default();
        let listen = match &self.listen {
            None => default.listen.clone(),
            Some(texts) => texts.iter().map(|text| text.parse()).collect::<Result<Vec<Listen>, _>>()?,
        };
        let udp = socket_addresses("udp", self.udp.as_deref())?;
        let mica = socket_addresses("mica", self.mica.as_deref())?;
        check(
            !(listen.is_empty() && udp.is_empty() && mica.is_empty() && self.local.is_none()),
            "listen",
            "at least one address",
            "an empty list",
        )?;
        let options = Options {
            listen,
            udp,
            xdp: self.xdp(&mica)?,
            mica,
            local: self.local.as_ref().map(PathBuf::from),
            udp_ports: if self.udp_port_per_worker == Some(true) {
                UdpPorts::PerWorker
            } else {
                UdpPorts::Shared
            },
            unix_mode: self.unix_mode.as_deref().map_or(Ok(default.unix_mode), unix_mode)?,
            backlog: self.backlog.unwrap_or(default.backlog),
            speaks: self.protocol.as_deref().map_or(Ok(default.speaks), speaks)?,
            tls: self.tls()?,
            auth_file: self.auth_file.as_ref().map(PathBuf::from),
            workers: self.workers.unwrap_or(default.workers),
            placement: if self.pin_workers == Some(true) { Placement::Pinned } else { Placement::Anywhere },
            memory: self.memory.unwrap_or(default.memory),
            engine: self.choice()?,
            max_item_size: self.max_item_size.unwrap_or(default.max_item_size),
            storage: self.storage()?,
            connections: self.connections(default.connections)?,
            permissions: self.permissions(default.permissions),
            uniques: if self.disable_cas == Some(true) { Uniques::None } else { Uniques::Kept },
            log: LogBuffers {
                worker: self.worker_log_buffer.map_or(default.log.worker, |size| size.0),
                watcher: self.watcher_buffer.map_or(default.log.watcher, |size| size.0),
            },
            prefix_delimiter: self.prefix_delimiter.map(prefix_delimiter).transpose()?,
            advice: if self.disable_advice == Some(true) { Switch::Off } else { Switch::On },
        };
        check((1..=1024).contains(&options.workers), "workers", "1 to 1024", options.workers)?;
        let fits = MAX_ITEM_RANGE.contains(&options.max_item_size.0);
        check(fits, "max-item-size", "1KiB to 1GiB", options.max_item_size)?;
        self.check_sizes(&options)?;
        self.check_classes(&options)?;
        let written = self.written(&options);
        Ok((options, written))
    }

    /// Sizes that could not be meant: the server would take other ones in their place.
    fn check_sizes(&self, options: &Options) -> Result<(), ConfigError> {
        if let Some(reserve) = self.reserve {
            check(reserve >= options.memory, "reserve", "no less than the memory", reserve)?;
        }
        if let Some(size) = self.connection_memory {
            check(size >= CONNECTION_MEMORY_LEAST, "connection-memory", "at least 64KiB", size)?;
        }
        for (name, size) in
            [("worker-log-buffer", options.log.worker), ("watcher-buffer", options.log.watcher)]
        {
            check(size <= options.memory.0, name, "no more than the memory", Size(size))?;
        }
        Ok(())
    }

    /// Options of slab classes, where there are none.
    fn check_classes(&self, options: &Options) -> Result<(), ConfigError> {
        if options.engine.has_classes() {
            return Ok(());
        }
        let none = "left out: the engine has no slab classes";
        let factor = self.growth_factor.map(|factor| ("growth-factor", factor.to_string()));
        let smallest = self.smallest_item.map(|bytes| ("smallest-item", bytes.to_string()));
        match factor.or(smallest) {
            None => Ok(()),
            Some((name, value)) => Err(ConfigError::Value { name, expected: none, value }),
        }
    }

    /// Understands the options of TLS although there is to be none.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub(crate) fn check_tls(&self) -> Result<(), ConfigError> {
        let told = Told { tls_cert: Some(String::new()), ..self.clone() };
        told.tls().map(drop)
    }

    fn choice(&self) -> Result<Choice, ConfigError> {
        let name = self.engine.as_deref().unwrap_or(DEFAULT_ENGINE);
        let choice = Choice::new(name, self.index.as_deref(), self.policy.as_deref())?;
        match &self.access {
            Some(mode) => Ok(choice.with_access(mode)?),
            None => Ok(choice),
        }
    }

    fn storage(&self) -> Result<Storage, ConfigError> {
        if let Some(factor) = self.growth_factor {
            check(factor > 1.0 && factor <= 1024.0, "growth-factor", "above 1 and at most 1024", factor)?;
        }
        let region = self.region.as_ref().map(|text| {
            let expected = "a path, or a name of letters, digits, '.', '_' and '-'";
            text.parse().map_err(|_: NoPlace| ConfigError::Value {
                name: "region",
                expected,
                value: text.clone(),
            })
        });
        let yes = |told: Option<bool>| told == Some(true);
        Ok(Storage {
            factor: self.growth_factor,
            smallest_item: self.smallest_item.map(|bytes| bytes as usize),
            eviction: if yes(self.disable_evictions) { Eviction::Off } else { Eviction::On },
            huge_pages: self.huge_pages.map(|ask| if ask { HugePages::Ask } else { HugePages::No }),
            residence: if yes(self.lock_memory) { Residence::Locked } else { Residence::Swappable },
            reserve: self.reserve,
            region: region.transpose()?,
        })
    }

    /// The interface, which goes with addresses and ports.
    fn xdp(&self, mica: &[SocketAddr]) -> Result<Option<Interface>, ConfigError> {
        let Some(text) = &self.xdp else {
            return Ok(None);
        };
        check(!mica.is_empty(), "xdp", "beside mica, which says at what addresses and ports", text)?;
        Ok(Some(text.parse()?))
    }

    fn tls(&self) -> Result<Option<TlsOptions>, ConfigError> {
        let fail = |name| move |problem| ConfigError::Tls { name, problem };
        let Some(chain) = &self.tls_cert else {
            let others =
                [&self.tls_key, &self.tls_ca, &self.tls_verify, &self.tls_min_version, &self.tls_ciphers];
            if others.into_iter().any(Option::is_some) {
                return Err(ConfigError::Contradiction("the options of TLS need a certificate: tls-cert"));
            }
            return Ok(None);
        };
        let mut tls = TlsOptions::new(chain);
        tls.key = self.tls_key.as_ref().map(PathBuf::from);
        tls.authorities = self.tls_ca.as_ref().map(PathBuf::from);
        if let Some(text) = &self.tls_verify {
            tls.verify = text.parse().map_err(fail("tls-verify"))?;
        }
        if let Some(text) = &self.tls_min_version {
            tls.min_version = text.parse().map_err(fail("tls-min-version"))?;
        }
        if let Some(text) = &self.tls_ciphers {
            tls.ciphers = text.parse().map_err(fail("tls-ciphers"))?;
        }
        if self.tls_resumption == Some(true) {
            tls.resumption = Resumption::Tickets;
        }
        Ok(Some(tls))
    }

    fn connections(&self, default: ConnectionLimits) -> Result<ConnectionLimits, ConfigError> {
        let max = self.max_connections.unwrap_or(default.max);
        check(max > 0, "max-connections", "at least 1", max)?;
        let beyond = match &self.beyond_max {
            None => default.beyond,
            Some(text) => word(
                "beyond-max",
                "refuse or wait",
                text,
                &[("refuse", Beyond::Refused), ("wait", Beyond::Waits)],
            )?,
        };
        let idle = self.idle_timeout.filter(|seconds| *seconds > 0);
        let idle = idle.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(ConnectionLimits { max, beyond, idle, memory: self.connection_memory })
    }

    fn permissions(&self, default: Permissions) -> Permissions {
        let allowed = |disabled: Option<bool>, default| disabled.map_or(default, |disabled| !disabled);
        Permissions {
            shutdown: self.enable_shutdown.unwrap_or(default.shutdown),
            flush_all: allowed(self.disable_flush_all, default.flush_all),
            dump: allowed(self.disable_dumping, default.dump),
            watch: allowed(self.disable_watch, default.watch),
            test: self.test_commands.unwrap_or(default.test),
        }
    }

    /// The same with the defaults.
    fn written(self, options: &Options) -> Told {
        let Permissions { shutdown, flush_all, dump, watch, test } = options.permissions;
        let has_classes = options.engine.has_classes();
        Told {
            listen: Some(options.listen.iter().map(Listen::to_string).collect()),
            udp: Some(options.udp.iter().map(SocketAddr::to_string).collect()),
            mica: Some(options.mica.iter().map(SocketAddr::to_string).collect()),
            xdp: options.xdp.as_ref().map(ToString::to_string),
            local: options.local.as_ref().map(|path| path.display().to_string()),
            udp_port_per_worker: Some(options.udp_ports == UdpPorts::PerWorker),
            unix_mode: Some(format!("{:o}", options.unix_mode)),
            protocol: self.protocol.or(Some("auto".to_owned())),
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            tls_ca: self.tls_ca,
            tls_verify: self.tls_verify,
            tls_min_version: self.tls_min_version,
            tls_ciphers: self.tls_ciphers,
            tls_resumption: self.tls_resumption,
            auth_file: self.auth_file,
            user: self.user,
            workers: Some(options.workers),
            pin_workers: Some(options.placement == Placement::Pinned),
            memory: Some(options.memory),
            engine: self.engine.or(Some(DEFAULT_ENGINE.to_owned())),
            index: Some(options.engine.index()),
            policy: Some(options.engine.policy()),
            access: options.engine.access().map(str::to_owned),
            max_item_size: Some(options.max_item_size),
            growth_factor: self.growth_factor.or(has_classes.then_some(DEFAULT_FACTOR)),
            smallest_item: self.smallest_item.or(has_classes.then_some(DEFAULT_SMALLEST_ITEM as u32)),
            disable_evictions: Some(options.storage.eviction == Eviction::Off),
            huge_pages: self.huge_pages,
            lock_memory: Some(options.storage.residence == Residence::Locked),
            reserve: self.reserve,
            region: self.region,
            max_connections: Some(options.connections.max),
            beyond_max: self.beyond_max.or(Some("refuse".to_owned())),
            connection_memory: self.connection_memory,
            backlog: Some(options.backlog),
            idle_timeout: Some(self.idle_timeout.unwrap_or(0)),
            enable_shutdown: Some(shutdown),
            disable_flush_all: Some(!flush_all),
            disable_dumping: Some(!dump),
            disable_watch: Some(!watch),
            disable_cas: Some(options.uniques == Uniques::None),
            watcher_buffer: Some(Size(options.log.watcher)),
            worker_log_buffer: Some(Size(options.log.worker)),
            prefix_delimiter: self.prefix_delimiter,
            disable_advice: Some(options.advice == Switch::Off),
            test_commands: Some(test),
        }
    }
}

fn prefix_delimiter(letter: char) -> Result<u8, ConfigError> {
    let byte = u8::try_from(letter).ok().filter(|byte| byte.is_ascii_graphic());
    let expected = "a character of ASCII";
    byte.ok_or(ConfigError::Value { name: "prefix-delimiter", expected, value: letter.to_string() })
}

fn socket_addresses(name: &'static str, texts: Option<&[String]>) -> Result<Vec<SocketAddr>, ConfigError> {
    let expected = "IP:PORT or [v6]:PORT";
    let address =
        |text: &String| text.parse().map_err(|_| ConfigError::Value { name, expected, value: text.clone() });
    texts.iter().copied().flatten().map(address).collect()
}

fn unix_mode(text: &str) -> Result<u32, ConfigError> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    let expected = "permissions in octal, such as 700";
    mode.ok_or_else(|| ConfigError::Value { name: "unix-mode", expected, value: text.to_owned() })
}

fn speaks(text: &str) -> Result<Speaks, ConfigError> {
    let meanings = [("auto", Speaks::Any), ("ascii", Speaks::Text), ("binary", Speaks::Binary)];
    word("protocol", "auto, ascii or binary", text, &meanings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    fn from(text: &str) -> Result<Told, String> {
        Told::from_text(text)
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let (options, written) = Told::default().resolve().unwrap();
        let again = from(&written.to_toml()).unwrap();
        assert_eq!(again, Told { auth_file: None, ..written });
        let (again, _) = again.resolve().unwrap();
        let mut said = options.clone();
        said.storage.factor = Some(DEFAULT_FACTOR);
        said.storage.smallest_item = Some(DEFAULT_SMALLEST_ITEM);
        assert_eq!(format!("{said:?}"), format!("{again:?}"));
        assert_eq!(options.listen[0].to_string(), "127.0.0.1:11211");
    }

    #[test]
    fn every_option_is_printed_with_what_stands_for_it() {
        let printed = Told::default().resolve().unwrap().1.to_toml();
        for option in Told::augment_args(clap::Command::new("")).get_arguments() {
            let name = option.get_long().unwrap();
            let (said, not_said) = (format!("{name} = "), format!("# {name}: "));
            let lines = printed.lines().filter(|line| line.starts_with(&said) || line.starts_with(&not_said));
            assert_eq!(lines.count(), 1, "{name} in {printed}");
        }
        for line in [
            "growth-factor = 1.06",
            "smallest-item = 16",
            "# region: none",
            "# tls-resumption: false",
            "# reserve: four times the memory and at least 8GiB, at most the machine's",
        ] {
            assert!(printed.lines().any(|other| other == line), "{line} in {printed}");
        }
    }

    #[test]
    fn sizes_that_could_not_be_meant_are_refused() {
        let resolve = |text: &str| from(text).unwrap().resolve().map_err(|error| error.to_string());
        for (text, told) in [
            (
                "memory = \"1GiB\"\nreserve = \"512MiB\"",
                "reserve must be no less than the memory, not 512MiB",
            ),
            ("connection-memory = 0", "connection-memory must be at least 64KiB, not 0"),
            ("connection-memory = \"1\"", "connection-memory must be at least 64KiB, not 1"),
            (
                "worker-log-buffer = \"100GiB\"",
                "worker-log-buffer must be no more than the memory, not 100GiB",
            ),
            ("watcher-buffer = \"100GiB\"", "watcher-buffer must be no more than the memory, not 100GiB"),
            ("growth-factor = inf", "growth-factor must be above 1 and at most 1024, not inf"),
            ("growth-factor = 1", "growth-factor must be above 1 and at most 1024, not 1"),
            (
                "engine = \"mica\"\ngrowth-factor = 1.25",
                "growth-factor must be left out: the engine has no slab classes, not 1.25",
            ),
            (
                "engine = \"mica-store\"\nsmallest-item = 48",
                "smallest-item must be left out: the engine has no slab classes, not 48",
            ),
        ] {
            let error = resolve(&format!("{text}\n")).unwrap_err();
            assert_eq!(error, told);
        }
        resolve("memory = \"64MiB\"\nreserve = \"64MiB\"\nconnection-memory = \"64KiB\"").unwrap();
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let flags = Told { workers: Some(3), ..Told::default() };
        let file = from("workers = 1\nmemory = \"64MiB\"").unwrap();
        let (options, _) = flags.or(file).resolve().unwrap();
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
        assert!(resolve("udp = [\"here\"]").contains("udp must be IP:PORT"));
        assert!(resolve("engine = \"x\"").contains("there are: memc3, classic"));
        assert!(resolve("max-item-size = \"2GiB\"").contains("1KiB to 1GiB"));
        assert!(resolve("unix-mode = \"799\"").contains("in octal"));
        assert!(resolve("protocol = \"redis\"").contains("auto, ascii or binary"));
        assert!(resolve("beyond-max = \"drop\"").contains("refuse or wait"));
    }

    #[test]
    fn what_clients_may_do_is_said_one_by_one() {
        let permissions = |text: &str| from(text).unwrap().resolve().unwrap().0.permissions;
        let default = permissions("");
        assert!(!default.shutdown && default.flush_all && default.dump && default.watch && !default.test);
        let all = "enable-shutdown = true\ndisable-flush-all = true\ndisable-dumping = true\ndisable-watch = true\ntest-commands = true";
        let other = permissions(all);
        assert!(other.shutdown && !other.flush_all && !other.dump && !other.watch && other.test);
    }
}
