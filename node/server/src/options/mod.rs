//! The options of a server: read, checked, and written again.

mod rows;
mod value;

pub use rows::{OPTIONS, Options};
pub(crate) use value::yes;
pub use value::{AdminAddress, Delimiter, FileMode, Form};

use crate::profile::Profile;
use crate::size::Size;
use guira_commands::{DeleteTime, Leases, Uniques};
use guira_contract::OptionError;
use guira_memory::available_memory;
use guira_roster::{Choice, MEMORY_LEAST};
use guira_serving::{Listen, ListenTraits, Security, Speaks};
use guira_sync::host::{self, Limit};
use guira_transport::{Address, Resumption, TlsOptions};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use value::Field;

/// An option: a row of the table.
#[derive(Debug)]
pub struct OptionRow {
    /// Its name on the command line, without dashes, and in the configuration file.
    pub name: &'static str,
    pub section: &'static str,
    /// The name of its value in the help.
    pub value_name: &'static str,
    /// The form of its value in the configuration file.
    pub form: Form,
    /// Whether there may be several values.
    pub is_list: bool,
    help: &'static str,
    more_help: Option<fn() -> String>,
    names: Option<fn() -> Vec<&'static str>>,
    absent: Option<&'static str>,
    example: Option<&'static str>,
    read: fn(&mut Options, &[String]) -> Result<(), String>,
    write: fn(&Options) -> Vec<String>,
    settings: &'static [Setting],
}

/// A line of `stats settings`.
#[derive(Debug)]
pub(crate) struct Setting {
    name: &'static str,
    /// The value, if the line applies.
    show: fn(&Options) -> Option<String>,
}

impl OptionRow {
    pub fn help(&self) -> String {
        let more = self.more_help.map_or_else(String::new, |more| more());
        format!("{}{more}", self.help.trim())
    }

    /// The names that its value begins with, if they are few. Completions of shells offer them.
    pub fn names(&self) -> Vec<&'static str> {
        match (self.names, self.form) {
            (Some(names), _) => names(),
            (None, Form::Switch) => vec!["true", "false"],
            (None, _) => Vec::new(),
        }
    }

    /// The behaviour without the option.
    pub fn default_text(&self) -> String {
        let written = (self.write)(&Options::default()).join(", ");
        let written = if written.is_empty() { "none".to_owned() } else { written };
        self.absent.map_or(written, str::to_owned)
    }

    /// A value that it may have.
    pub fn example(&self) -> String {
        match self.example {
            Some(example) => example.to_owned(),
            None if self.form == Form::Switch => "true".to_owned(),
            None => (self.write)(&Options::default()).join(", "),
        }
    }

    /// The names of its lines in `stats settings`.
    pub fn settings(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().map(|setting| setting.name)
    }

    /// Its values in `options`, as text; none if it is absent.
    pub fn written(&self, options: &Options) -> Vec<String> {
        (self.write)(options)
    }

    /// Whether it may have the value `text`.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, text: &str) -> Result<(), String> {
        (self.read)(&mut Options::default(), &[text.to_owned()])
    }
}

/// The given options by name, with their values as text.
pub type GivenOptions = BTreeMap<&'static str, Vec<String>>;

/// The reason that a server cannot have these options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    #[error("{name}: {problem}")]
    Value { name: &'static str, problem: String },
    /// The engine, index, policy or access mode.
    #[error(transparent)]
    Engine(#[from] OptionError),
}

fn check(good: bool, name: &'static str, problem: impl FnOnce() -> String) -> Result<(), OptionsError> {
    if good { Ok(()) } else { Err(OptionsError::Value { name, problem: problem() }) }
}

impl Options {
    /// Whether clients may list the most requested keys.
    pub(crate) fn shows_top_keys(&self) -> bool {
        !self.disable_top_keys && !self.disable_dumping
    }

    /// Reads the options that were given; others have their defaults. Index, policy and access mode are those that the engine then has.
    ///
    /// # Errors
    /// If a value is not allowed, values contradict each other, or the engine does not honour an option.
    pub fn read(given: &GivenOptions) -> Result<Self, OptionsError> {
        let mut options = Options::default();
        for row in OPTIONS {
            if let Some(texts) = given.get(row.name) {
                let read = (row.read)(&mut options, texts);
                read.map_err(|problem| OptionsError::Value { name: row.name, problem })?;
            }
        }
        for row in OPTIONS.iter().filter(|row| given.contains_key(row.name)) {
            let refusal = options.refusal(row);
            check(refusal.is_none(), row.name, || {
                format!(
                    "the engine {} does not support this option: {}",
                    options.engine,
                    refusal.unwrap_or_default()
                )
            })?;
        }
        let choice = options.choice()?;
        options.index = Some(choice.index());
        options.policy = Some(choice.policy());
        options.access = choice.access().map(str::to_owned);
        options.check_together(given)?;
        Ok(options)
    }

    /// memcached's options give a number of MiB.
    fn check_memory(&self, given: &GivenOptions) -> Result<(), OptionsError> {
        let is_number = |text: &&String| text.parse::<usize>().is_ok_and(|number| number > 0);
        let number = given.get("memory").and_then(|texts| texts.last()).filter(is_number);
        let number = number.filter(|_| self.memory.0 < MEMORY_LEAST);
        check(number.is_none(), "memory", || {
            let number = number.map_or("", String::as_str);
            format!("{number} is {number} bytes: did you mean {number}MiB? (memcached's -m counts MiB)")
        })
    }

    /// A serverless cache has TLS and the text protocol, and nothing else.
    fn check_profile(&mut self, given: &GivenOptions) -> Result<(), OptionsError> {
        if self.profile != Profile::ElasticacheServerless {
            return Ok(());
        }
        let profile = self.profile;
        check(self.tls_cert.is_some(), "profile", || format!("{profile} needs a certificate: tls-cert"))?;
        let is_text = !given.contains_key("protocol") || self.protocol == Speaks::Text;
        check(is_text, "protocol", || format!("must be ascii with profile = {profile}"))?;
        self.protocol = Speaks::Text;
        let is_text = |listen: &Listen| listen.traits.speaks.is_none_or(|speaks| speaks == Speaks::Text);
        let refused = |listen: &&Listen| listen.traits.security == Security::Plain || !is_text(listen);
        let refused = self.listen.iter().find(refused);
        check(refused.is_none(), "listen", || {
            let listen = refused.map_or_else(String::new, Listen::to_string);
            format!("{listen}: profile = {profile} has neither listeners without TLS nor the binary protocol")
        })?;
        let datagrams =
            [("udp", !self.udp.is_empty()), ("mica", !self.mica.is_empty()), ("local", self.local.is_some())];
        match datagrams.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => check(false, name, || format!("cannot be combined with profile = {profile}")),
            None => Ok(()),
        }
    }

    /// Options that depend on each other.
    fn check_together(&mut self, given: &GivenOptions) -> Result<(), OptionsError> {
        self.check_memory(given)?;
        self.check_profile(given)?;
        let is_anywhere =
            !(self.listen.is_empty() && self.udp.is_empty() && self.mica.is_empty() && self.local.is_none());
        check(is_anywhere, "listen", || "must be at least one address, not an empty list".to_owned())?;
        let is_alone = self.xdp.is_none() || !self.mica.is_empty();
        check(is_alone, "xdp", || "needs mica, which gives addresses and ports".to_owned())?;
        let is_shown = self.admin.is_some() || self.admin_token_file.is_none();
        check(is_shown, "admin-token-file", || "needs a listener: admin".to_owned())?;
        check(self.takeover.is_none() || !self.serves_mica(), "takeover", || {
            "cannot be combined with mica, xdp and local".to_owned()
        })?;
        if let Some(reserve) = self.reserve {
            check(reserve >= self.memory, "reserve", || {
                format!("must be no less than the memory, not {reserve}")
            })?;
        }
        for (name, size) in
            [("worker-log-buffer", self.worker_log_buffer), ("watcher-buffer", self.watcher_buffer)]
        {
            check(size <= self.memory, name, || format!("must be no more than the memory, not {size}"))?;
        }
        let of_tls = |row: &&OptionRow| {
            row.name.starts_with("tls-") && given.get(row.name).is_some_and(|_| self.is_changed(row))
        };
        match OPTIONS.iter().find(of_tls) {
            Some(row) if self.tls_cert.is_none() => {
                check(false, row.name, || "needs a certificate: tls-cert".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether an option differs from its default.
    fn is_changed(&self, row: &OptionRow) -> bool {
        (row.write)(self) != (row.write)(&Options::default())
    }

    /// The engine.
    ///
    /// # Errors
    /// If there is no such engine, index, policy or access mode, or they do not go together.
    pub fn choice(&self) -> Result<Choice, OptionError> {
        let choice = Choice::new(&self.engine, self.index.as_deref(), self.policy.as_deref())?;
        match &self.access {
            Some(mode) => choice.with_access(mode),
            None => Ok(choice),
        }
    }

    /// Why the engine does not honour an option, if it does not.
    pub fn refusal(&self, row: &OptionRow) -> Option<&'static str> {
        let choice = Choice::new(&self.engine, self.index.as_deref(), self.policy.as_deref()).ok()?;
        choice.refusal(row.name, &row.written(self).join(","))
    }

    /// How TLS is spoken, if it is.
    pub fn tls(&self) -> Option<TlsOptions> {
        let default = TlsOptions::new(self.tls_cert.as_ref()?);
        Some(TlsOptions {
            key: self.tls_key.clone(),
            authorities: self.tls_ca.clone(),
            verify: self.tls_verify,
            min_version: self.tls_min_version,
            ciphers: self.tls_ciphers.clone().unwrap_or_else(|| default.ciphers.clone()),
            resumption: if self.tls_resumption { Resumption::Tickets } else { Resumption::Off },
            ..default
        })
    }

    /// The lines of `stats settings` that follow from options, in the order of the rows.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let all = OPTIONS.iter().flat_map(|row| row.settings);
        all.filter_map(|setting| Some((setting.name, (setting.show)(self)?)))
    }

    /// The value of an option of TLS in `stats settings`, if TLS is spoken.
    fn show_tls(&self, value: &impl Field) -> Option<String> {
        self.tls_cert.is_some().then(|| value.show())
    }

    /// The value of an option in `stats settings`, if the engine honours the option.
    fn of_engine(&self, option: &str, value: String) -> Option<String> {
        let row = OPTIONS.iter().find(|row| row.name == option)?;
        self.refusal(row).is_none().then_some(value)
    }

    pub(crate) fn uniques(&self) -> Uniques {
        if self.disable_cas { Uniques::None } else { Uniques::Kept }
    }

    pub(crate) fn leases(&self) -> Leases {
        let delete_time = if self.delete_hold_off { DeleteTime::HoldsOff } else { DeleteTime::Ignored };
        Leases { interval_ms: self.lease_interval, stale_seconds: self.stale_values, delete_time }
    }

    /// How long a connection may be idle.
    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        (self.idle_timeout > 0).then(|| Duration::from_secs(self.idle_timeout.into()))
    }

    pub(crate) fn serves_mica(&self) -> bool {
        !self.mica.is_empty() || self.local.is_some()
    }
}

/// The name of an option: that of the field, with dashes.
const fn dashed<const N: usize>(field: &str) -> [u8; N] {
    let mut name = [0; N];
    let mut at = 0;
    while at < N {
        let byte = field.as_bytes()[at];
        name[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    name
}

/// Makes [`Options`] and [`OPTIONS`] of the rows in rows.rs.
macro_rules! options {
    ($($section:literal { $(
        $(#[doc = $help:literal])+
        $field:ident: $type:ty = $default:expr, $value_name:literal
        $(, more_help($more_help:expr))?
        $(, names($names:expr))?
        $(, absent($absent:literal))?
        $(, example($example:literal))?
        $(, must($expected:literal, $good:expr))?
        $(, stats($setting:literal $(=> $show:expr)?))*
        ;
    )+ })+) => {
        /// The options of a server.
        #[derive(Clone, Debug)]
        pub struct Options {
            $($($(#[doc = $help])+ pub $field: $type,)+)+
        }

        impl Default for Options {
            fn default() -> Self {
                // Memory and processors are those of the machine and of the control groups, which takes ten
                // files to read, and each option on the command line shows its default.
                static DEFAULTS: guira_sync::lock::OnceLock<Options> = guira_sync::lock::OnceLock::new();
                DEFAULTS.get_or_init(|| Options { $($($field: $default,)+)+ }).clone()
            }
        }

        pub const OPTIONS: &[super::OptionRow] = &[$($(super::OptionRow {
            name: {
                const NAME: [u8; stringify!($field).len()] = super::dashed(stringify!($field));
                match std::str::from_utf8(&NAME) {
                    Ok(name) => name,
                    Err(_) => stringify!($field),
                }
            },
            section: $section,
            value_name: $value_name,
            form: <$type as super::Field>::FORM,
            is_list: <$type as super::Field>::IS_LIST,
            help: concat!($($help),+),
            more_help: super::options!(@optional $($more_help)?),
            names: super::options!(@optional $($names)?),
            absent: super::options!(@optional $($absent)?),
            example: super::options!(@optional $($example)?),
            read: |options, texts| {
                let value = <$type as super::Field>::read_all(texts)?;
                $(
                    let good: fn(&$type) -> bool = $good;
                    if !good(&value) {
                        return Err(format!(concat!("must be ", $expected, ", not {}"), texts.join(", ")));
                    }
                )?
                options.$field = value;
                Ok(())
            },
            write: |options| super::Field::write_all(&options.$field),
            settings: &[$(super::Setting {
                name: $setting,
                show: super::options!(@show $field $($show)?),
            },)*],
        },)+)+];
    };
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
    (@show $field:ident) => { |options| Some(super::Field::show(&options.$field)) };
    (@show $field:ident $show:expr) => { $show };
}
use options;

/// A line for each policy of the slab engines.
fn policies() -> String {
    Choice::policies().map(|(name, about)| format!("\n{name}: {about}")).collect()
}

/// memcached's port, on this host only.
fn listen_default() -> Vec<Listen> {
    let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 11211)));
    vec![Listen { traits: ListenTraits::default(), address, optional: false }]
}

/// More memory is not used by default.
const DEFAULT_MEMORY_MAX: usize = 1 << 30;

fn default_memory() -> Size {
    Size((available_memory().unwrap_or(1 << 30) / 4).min(DEFAULT_MEMORY_MAX))
}

/// The address space that is reserved at least, so that a cache that was started small can be made larger.
const RESERVE_LEAST: usize = 8 << 30;

/// How much address space can be reserved for free: none where the system counts it as memory.
pub(crate) fn address_space_to_spare(options: &Options) -> usize {
    let overcommit = guira_disk::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let is_limited = |what| host::limit(what).is_some();
    let is_counted = overcommit.trim() == "2"
        || options.lock_memory
        || is_limited(Limit::AddressSpace)
        || is_limited(Limit::FileSize);
    if is_counted { 0 } else { RESERVE_LEAST }
}

#[cfg(test)]
mod tests;
