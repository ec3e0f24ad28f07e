//! The lists of top keys, each a summary of its own.

use super::summary::Summary;
use guira_advice::FAMILY_PREFIX_MAX;
use guira_commands::observe::Used;
use guira_contract::KEY_MAX;

/// A list: its measure, and whether it ranks keys or prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Requests,
    Bytes,
    Misses,
    PrefixRequests,
    PrefixBytes,
    PrefixMisses,
}

/// The measures of the totals.
pub(crate) const MEASURES: [&str; 3] = ["requests", "bytes", "misses"];

impl List {
    pub(crate) const KEYS: [List; MEASURES.len()] = [List::Requests, List::Bytes, List::Misses];
    pub(crate) const PREFIXES: [List; MEASURES.len()] =
        [List::PrefixRequests, List::PrefixBytes, List::PrefixMisses];
    pub(crate) const ALL: [List; 6] = [
        List::Requests,
        List::Bytes,
        List::Misses,
        List::PrefixRequests,
        List::PrefixBytes,
        List::PrefixMisses,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            List::Requests => "requests",
            List::Bytes => "bytes",
            List::Misses => "misses",
            List::PrefixRequests => "prefix_requests",
            List::PrefixBytes => "prefix_bytes",
            List::PrefixMisses => "prefix_misses",
        }
    }

    const fn longest(self) -> usize {
        match self {
            List::Requests | List::Bytes | List::Misses => KEY_MAX,
            List::PrefixRequests | List::PrefixBytes | List::PrefixMisses => FAMILY_PREFIX_MAX,
        }
    }
}

/// A key, or a prefix of keys, with its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'k> {
    pub(super) text: &'k [u8],
    pub(super) hash: u64,
}

impl<'k> Name<'k> {
    /// A prefix, which the request has no hash of. Prefixes that are chosen to collide slow down a
    /// table of bounded size only.
    pub(super) fn of_prefix(text: &'k [u8]) -> Self {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let step =
            |hash: u64, bytes| (hash ^ word(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        Name { text, hash: text.chunks(8).fold(text.len() as u64, step) }
    }
}

/// All lists of a period, of one worker or of all.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    of: [Summary; List::ALL.len()],
    /// The totals over all keys, by measure.
    all: [u64; MEASURES.len()],
    samples: u64,
}

impl Lists {
    pub(super) fn new(counters: usize) -> Self {
        let of = List::ALL.map(|list| Summary::new(counters, list.longest()));
        Lists { of, all: [0; MEASURES.len()], samples: 0 }
    }

    /// The memory of the lists in bytes.
    pub(super) fn bytes(counters: usize) -> usize {
        List::ALL.iter().map(|list| Summary::bytes(counters, list.longest())).sum()
    }

    /// Counts a sampled request, which stands for `scale` requests.
    pub(super) fn note(&mut self, key: Name<'_>, prefix: Name<'_>, used: Used, scale: u64) {
        self.samples += 1;
        self.add([List::Requests, List::PrefixRequests], key, prefix, scale);
        match used {
            Used::Read(0) | Used::Otherwise => {}
            Used::Read(bytes) => {
                let bytes = (bytes as u64).saturating_mul(scale);
                self.add([List::Bytes, List::PrefixBytes], key, prefix, bytes);
            }
            Used::Missed => self.add([List::Misses, List::PrefixMisses], key, prefix, scale),
        }
    }

    fn add(&mut self, [of_keys, of_prefixes]: [List; 2], key: Name<'_>, prefix: Name<'_>, weight: u64) {
        let all = &mut self.all[of_keys as usize];
        *all = all.saturating_add(weight);
        self.of[of_keys as usize].add(key.text, key.hash, weight);
        self.of[of_prefixes as usize].add(prefix.text, prefix.hash, weight);
    }

    pub(super) fn of(&self, list: List) -> &Summary {
        &self.of[list as usize]
    }

    /// The totals over all keys, by measure.
    pub(super) fn all(&self) -> [u64; MEASURES.len()] {
        self.all
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, other: &Lists) {
        self.of.iter_mut().zip(&other.of).for_each(|(into, from)| into.merge(from));
        self.all.iter_mut().zip(other.all).for_each(|(into, from)| *into = into.saturating_add(from));
        self.samples += other.samples;
    }

    pub(super) fn clear(&mut self) {
        self.of.iter_mut().for_each(Summary::clear);
        (self.all, self.samples) = ([0; MEASURES.len()], 0);
    }
}
