//! `stats topkeys`: the keys and prefixes with the most requests.

use std::collections::BTreeMap;

use super::{Sink, number};
use crate::printable::{decoded, printable};

const RANK_MAX: u32 = 1000;

/// Since when was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    Minute,
    Total,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Keys,
    Prefixes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ranking {
    Requests,
    Bytes,
    Misses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listing {
    pub(crate) window: Window,
    pub(crate) subject: Subject,
    pub(crate) ranking: Ranking,
}

impl Window {
    fn of(word: &str) -> Option<Self> {
        match word {
            "minute" => Some(Self::Minute),
            "total" => Some(Self::Total),
            _ => None,
        }
    }
}

impl Listing {
    fn of(window: Window, list: &str) -> Option<Self> {
        let (subject, ranking) = match list.strip_prefix("prefix_") {
            Some(ranking) => (Subject::Prefixes, ranking),
            None => (Subject::Keys, list),
        };
        let ranking = match ranking {
            "requests" => Ranking::Requests,
            "bytes" => Ranking::Bytes,
            "misses" => Ranking::Misses,
            _ => return None,
        };
        Some(Self { window, subject, ranking })
    }
}

/// A key or a prefix, and how often it was counted, about.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct KeyCount {
    pub(crate) key: String,
    pub(crate) count: u64,
    /// How much too high the count may be.
    pub(crate) error: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct TopKeys {
    /// One request in this many is counted.
    pub(crate) sampling: Option<u64>,
    seconds: BTreeMap<Window, u64>,
    lists: BTreeMap<Listing, BTreeMap<u32, KeyCount>>,
}

impl TopKeys {
    /// For how long was counted, in seconds.
    pub(crate) fn seconds(&self, window: Window) -> Option<u64> {
        self.seconds.get(&window).copied()
    }

    /// The entries of a list with their ranks.
    pub(crate) fn list(&self, listing: Listing) -> impl Iterator<Item = (u32, &KeyCount)> {
        self.lists.get(&listing).into_iter().flatten().map(|(rank, entry)| (*rank, entry))
    }

    fn entry(&mut self, window: &str, list: &str, rank: &str) -> Option<&mut KeyCount> {
        let listing = Listing::of(Window::of(window)?, list)?;
        let rank = rank.parse().ok().filter(|rank| (1..=RANK_MAX).contains(rank))?;
        Some(self.lists.entry(listing).or_default().entry(rank).or_default())
    }
}

impl Sink for TopKeys {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        match name.split(':').collect::<Vec<_>>()[..] {
            ["topkeys", "sampling"] => self.sampling = number(value),
            ["topkeys", window, "seconds"] => {
                if let (Some(window), Some(seconds)) = (Window::of(window), number(value)) {
                    self.seconds.insert(window, seconds);
                }
            }
            ["topkeys", window, list, rank, what] => {
                let Some(entry) = self.entry(window, list, rank) else { return };
                match what {
                    "key" => entry.key = printable(&decoded(value)),
                    "count" => entry.count = number(value).unwrap_or(entry.count),
                    "error" => entry.error = number(value),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
