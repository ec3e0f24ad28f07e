//! The figures of one node at one time.

mod classes;
mod connections;
mod keys;
mod latency;
mod servers;

pub(crate) use classes::{ClassFigure, Classes};
pub(crate) use connections::Connections;
pub(crate) use keys::{Listing, Ranking, Subject, TopKeys, Window};
pub(crate) use latency::Latencies;
pub(crate) use servers::{ServerFigures, Servers};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::printable::printable;

/// Names that are kept of one answer. memcached and Guira have some hundred.
const NAMES_MAX: usize = 4096;

/// The groups of figures; each is read by one `stats` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    General,
    Settings,
    Slabs,
    Items,
    Latency,
    Connections,
    Keys,
    Servers,
}

impl Group {
    pub(crate) const ALL: &[Self] = &[
        Self::General,
        Self::Settings,
        Self::Slabs,
        Self::Items,
        Self::Latency,
        Self::Connections,
        Self::Keys,
        Self::Servers,
    ];

    /// The word behind `stats`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::General => "",
            Self::Settings => "settings",
            Self::Slabs => "slabs",
            Self::Items => "items",
            // A server without buckets ignores the word and reports the rest.
            Self::Latency => "latency buckets",
            Self::Connections => "conns",
            Self::Keys => "topkeys",
            Self::Servers => "servers",
        }
    }
}

/// A part of a reading.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) enum Part<T> {
    #[default]
    NotRequested,
    /// The server does not support it; the text of its reply.
    Refused(String),
    Received(T),
}

impl<T> Part<T> {
    pub(crate) const fn received(&self) -> Option<&T> {
        match self {
            Self::Received(received) => Some(received),
            Self::NotRequested | Self::Refused(_) => None,
        }
    }

    /// Why there is nothing to show, if there is nothing.
    pub(crate) fn note(&self, what: &str) -> Option<String> {
        match self {
            Self::NotRequested => Some(format!("waiting for {what}")),
            Self::Refused(words) => Some(format!("this server does not report {what}: {words}")),
            Self::Received(_) => None,
        }
    }

    /// Adds a line to the received part, which the first line starts.
    fn add(&mut self, line: impl FnOnce(&mut T))
    where
        T: Default,
    {
        if !matches!(self, Self::Received(_)) {
            *self = Self::Received(T::default());
        }
        if let Self::Received(received) = self {
            line(received);
        }
    }
}

/// Names and values, made printable.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Stats(BTreeMap<String, String>);

impl Stats {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.0.len() < NAMES_MAX {
            self.0.insert(printable(name), printable(value));
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// The statistics at one time.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Reading {
    /// The time since the start of the program.
    pub(crate) at: Duration,
    pub(crate) general: Part<Stats>,
    pub(crate) settings: Part<Stats>,
    pub(crate) classes: Part<Classes>,
    pub(crate) latency: Part<Latencies>,
    pub(crate) connections: Part<Connections>,
    pub(crate) keys: Part<TopKeys>,
    pub(crate) servers: Part<Servers>,
}

impl Reading {
    /// An empty reading taken at `at`.
    pub(crate) fn new(at: Duration) -> Self {
        Self { at, ..Self::default() }
    }

    /// Records that the server supports `group`, even without a line.
    pub(crate) fn received(&mut self, group: Group) {
        self.each(group, &mut |_| ());
    }

    /// Reads one line of the answer to `group`.
    pub(crate) fn line(&mut self, group: Group, name: &[u8], value: &[u8]) {
        self.each(group, &mut |sink| sink.line(name, value));
    }

    /// Notes that the server does not report `group`.
    pub(crate) fn refused(&mut self, group: Group, words: &[u8]) {
        let words = printable(words);
        match group {
            Group::General => self.general = Part::Refused(words),
            Group::Settings => self.settings = Part::Refused(words),
            Group::Slabs | Group::Items => self.classes = Part::Refused(words),
            Group::Latency => self.latency = Part::Refused(words),
            Group::Connections => self.connections = Part::Refused(words),
            Group::Keys => self.keys = Part::Refused(words),
            Group::Servers => self.servers = Part::Refused(words),
        }
    }

    fn each(&mut self, group: Group, then: &mut dyn FnMut(&mut dyn Sink)) {
        match group {
            Group::General => self.general.add(|stats| then(stats)),
            Group::Settings => self.settings.add(|stats| then(stats)),
            Group::Slabs => self.classes.add(|classes| then(&mut classes.slabs())),
            Group::Items => self.classes.add(|classes| then(&mut classes.items())),
            Group::Latency => self.latency.add(|latencies| then(latencies)),
            Group::Connections => self.connections.add(|connections| then(connections)),
            Group::Keys => self.keys.add(|keys| then(keys)),
            Group::Servers => self.servers.add(|servers| then(servers)),
        }
    }

    /// A number of `stats`.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.general.received()?.number(name)
    }

    /// Words of `stats settings`.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.received()?.text(name)
    }
}

/// Takes the lines of an answer.
trait Sink {
    fn line(&mut self, name: &[u8], value: &[u8]);
}

impl Sink for Stats {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        self.add(name, value);
    }
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The parts of a name between colons.
fn parts<const N: usize>(name: &[u8]) -> Option<[&str; N]> {
    let name = std::str::from_utf8(name).ok()?;
    let parts: Vec<&str> = name.split(':').collect();
    parts.try_into().ok()
}
