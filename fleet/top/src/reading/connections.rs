//! `stats conns`: counts connections as the lines arrive. There may be very many, so none is kept.

use std::collections::BTreeMap;

use super::{Sink, number, parts};
use crate::printable::printable;

/// The most states that are distinguished; memcached has some fifteen.
const STATES_MAX: usize = 64;

/// Upper bounds, in seconds, of the times since the last command; the last is open.
pub(crate) const IDLE: [u64; 4] = [1, 10, 60, 3600];

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Connections {
    by_state: BTreeMap<String, u64>,
    by_idle: [u64; IDLE.len() + 1],
    /// The socket whose lines are being read, and whether it only listens.
    current: Option<(String, bool)>,
}

impl Connections {
    pub(crate) fn by_state(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_state.iter().map(|(state, count)| (state.as_str(), *count))
    }

    /// Connections whose last command was up to `IDLE[n]` seconds ago, and longer.
    pub(crate) const fn by_idle(&self) -> [u64; IDLE.len() + 1] {
        self.by_idle
    }
}

impl Sink for Connections {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        let Some([id, what]) = parts(name) else { return };
        match what {
            "state" => {
                let state = printable(value);
                self.current = Some((id.to_owned(), state == "conn_listening"));
                if self.by_state.len() < STATES_MAX || self.by_state.contains_key(&state) {
                    *self.by_state.entry(state).or_default() += 1;
                }
            }
            "secs_since_last_cmd" => {
                let is_listener =
                    self.current.as_ref().is_some_and(|(current, listens)| current == id && *listens);
                if let (false, Some(seconds)) = (is_listener, number(value)) {
                    let place = IDLE.iter().position(|bound| seconds <= *bound).unwrap_or(IDLE.len());
                    self.by_idle[place] += 1;
                }
            }
            _ => {}
        }
    }
}
