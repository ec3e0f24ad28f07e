//! `stats servers` of a router: a line for each server behind it.

use std::collections::BTreeMap;

use super::Sink;
use crate::printable::printable;

/// Servers that are kept of one answer.
const SERVERS_MAX: usize = 4096;

/// Outcomes that are failures, by mcrouter's names. `tko` was not sent at all.
const FAILURES: [&str; 10] = [
    "timeout",
    "connect_timeout",
    "connect_error",
    "busy",
    "try_again",
    "shutdown",
    "client_error",
    "local_error",
    "remote_error",
    "deadline_exceeded",
];

/// The figures of one server, from a router.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct ServerFigures {
    /// Words without a number, such as those that say that the server is out of service.
    pub(crate) tko: Option<String>,
    pub(crate) latency_us: f64,
    pub(crate) pending: u64,
    pub(crate) inflight: u64,
    /// Connections that are up, and all.
    pub(crate) up: u64,
    pub(crate) connections: u64,
    /// Requests that were answered by the server, that have failed, and that were not sent.
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Servers(BTreeMap<String, ServerFigures>);

impl Servers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ServerFigures)> {
        self.0.iter().map(|(name, figures)| (name.as_str(), figures))
    }

    pub(crate) fn of(&self, name: &str) -> Option<&ServerFigures> {
        self.0.get(name)
    }
}

impl ServerFigures {
    fn read(value: &str) -> Self {
        let mut figures = Self::default();
        for word in value.split([' ', ';']).filter(|word| !word.is_empty()) {
            let Some((name, number)) = word.split_once(':') else {
                figures.tko = Some(word.to_owned());
                continue;
            };
            let count = number.parse().unwrap_or(0);
            match name {
                "avg_latency_us" => figures.latency_us = number.parse().unwrap_or(0.0),
                "pending_reqs" => figures.pending = count,
                "inflight_reqs" => figures.inflight = count,
                "up" => (figures.up, figures.connections) = (count, figures.connections + count),
                "new" | "down" | "closed" => figures.connections += count,
                "tko" => figures.refused = count,
                failure if FAILURES.contains(&failure) => figures.failed += count,
                ratio if ratio.ends_with("_retrans_ratio") => {}
                _ => figures.answered += count,
            }
        }
        figures
    }
}

impl Sink for Servers {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        if self.0.len() < SERVERS_MAX {
            self.0.insert(printable(name), ServerFigures::read(&printable(value)));
        }
    }
}
