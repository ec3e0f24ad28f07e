//! Live logs: clients that `watch` get events as lines of text.
//!
//! ```text
//! worker ── EventSink ── lines ──┐
//! worker ── EventSink ── lines ──┤── Hub ── the log's thread ── watchers
//! acceptor, engine ────────┘
//! ```
//!
//! A worker writes lines into a buffer of its own, and only of kinds that are watched. One thread, which lives as long as there
//! are watchers, hands them out. Both the workers' buffers and the watchers' are bounded: what does not fit is dropped and counted, so
//! that no thread waits for a watcher.

mod event_sink;
mod hub;
mod lines;
mod observers;
mod prefixes;

pub(crate) use event_sink::{EventObserver, EventSink, EvictionSink};
pub(crate) use hub::{Hub, TooMany};
pub(crate) use observers::Observers;
pub(crate) use prefixes::{DEFAULT_DELIMITER, Prefixes};

/// Kinds of log lines, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogKinds(pub(crate) u8);

impl LogKinds {
    pub(crate) const FETCHERS: Self = LogKinds(1);
    pub(crate) const MUTATIONS: Self = LogKinds(2);
    pub(crate) const DELETIONS: Self = LogKinds(4);
    pub(crate) const EVICTIONS: Self = LogKinds(8);
    pub(crate) const CONNEVENTS: Self = LogKinds(16);
    /// Kinds that nothing is ever logged of, which a watcher may ask for.
    const OTHERS: [&str; 5] = ["sysevents", "rawcmds", "proxyreqs", "proxyevents", "proxyuser"];

    /// Reads the words after `watch`; without any, fetchers are meant.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let mut kinds = LogKinds(0);
        for word in words {
            kinds.0 |= match *word {
                "fetchers" => Self::FETCHERS.0,
                "mutations" => Self::MUTATIONS.0,
                "deletions" => Self::DELETIONS.0,
                "evictions" => Self::EVICTIONS.0,
                "connevents" => Self::CONNEVENTS.0,
                other if Self::OTHERS.contains(&other) => 0,
                _ => return None,
            };
        }
        Some(if words.is_empty() { Self::FETCHERS } else { kinds })
    }

    pub(crate) fn any(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_by_words() {
        assert_eq!(LogKinds::parse(&[]), Some(LogKinds::FETCHERS));
        assert_eq!(LogKinds::parse(&["mutations", "evictions"]), Some(LogKinds(10)));
        assert_eq!(LogKinds::parse(&["proxyreqs"]), Some(LogKinds(0)));
        assert_eq!(LogKinds::parse(&["everything"]), None);
    }
}
