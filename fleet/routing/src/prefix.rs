//! Routing prefixes: a key `/region/cluster/key` is sent to that cluster, and `/*/*/key` to all.

use crate::step::NodeId;
use std::collections::HashMap;

/// Selects the tree of a request by the prefix of its key.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// The prefix with both slashes around the region and the one after the cluster.
    pub(crate) known: HashMap<Box<[u8]>, NodeId>,
    /// For keys without a prefix.
    pub(crate) default: NodeId,
    /// For prefixes with an asterisk that match known ones.
    pub(crate) patterns: NodeId,
    pub(crate) unknown: Unknown,
}

/// The cluster that has the keys of unknown clusters of its region, as in mcrouter.
const FALLBACK: &[u8] = b"fallback/";

/// What happens to keys whose prefix is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Refused,
    /// They are sent where keys without a prefix go.
    ToDefault,
    /// No key has a prefix: all are sent whole, where keys without a prefix go.
    PartOfKey,
}

impl Prefixes {
    #[inline]
    pub(crate) fn root(&self, key: &[u8]) -> Option<(NodeId, usize)> {
        if key.first() != Some(&b'/') || self.unknown == Unknown::PartOfKey {
            return Some((self.default, 0));
        }
        self.with_prefix(key)
    }

    #[cold]
    fn with_prefix(&self, key: &[u8]) -> Option<(NodeId, usize)> {
        let Some(length) = length(key) else {
            return Some((self.default, 0));
        };
        let (prefix, _) = key.split_at(length);
        let root = match self.known.get(prefix) {
            Some(root) => Some(*root),
            None if prefix.contains(&b'*') => {
                self.known.keys().any(|known| matches(prefix, known)).then_some(self.patterns)
            }
            None => self.fallback(prefix),
        };
        let root = root.or_else(|| (self.unknown == Unknown::ToDefault).then_some(self.default));
        root.map(|root| (root, length))
    }

    fn fallback(&self, prefix: &[u8]) -> Option<NodeId> {
        let region = prefix.iter().skip(1).position(|byte| *byte == b'/')? + 2;
        self.known.get(&*[&prefix[..region], FALLBACK].concat()).copied()
    }
}

/// Whether a pattern stands for a prefix. An asterisk is any number of characters within a region or a cluster.
pub(crate) fn matches(pattern: &[u8], prefix: &[u8]) -> bool {
    let is_slash = |byte: &u8| *byte == b'/';
    pattern.split(is_slash).count() == prefix.split(is_slash).count()
        && pattern
            .split(is_slash)
            .zip(prefix.split(is_slash))
            .all(|(pattern, part)| part_matches(pattern, part))
}

fn part_matches(pattern: &[u8], part: &[u8]) -> bool {
    let mut pieces = pattern.split(|byte| *byte == b'*');
    let Some(rest) = pieces.next().and_then(|first| part.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    pieces.all(|piece| {
        let found = memchr::memmem::find(rest, piece);
        found.inspect(|at| rest = &rest[at + piece.len()..]).is_some()
    })
}

/// The length of a key's prefix: up to the third slash. `None` if the key has fewer, and is no more than a key that begins with one.
pub(crate) fn length(key: &[u8]) -> Option<usize> {
    let mut slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    match slashes.next() {
        Some((0, _)) => slashes.nth(1).map(|(at, _)| at + 1),
        _ => None,
    }
}

/// The region and the cluster of a prefix.
pub(crate) fn parts(prefix: &str) -> Option<(&str, &str)> {
    let inner = prefix.strip_prefix('/')?.strip_suffix('/')?;
    let (region, cluster) = inner.split_once('/')?;
    (!region.is_empty() && !cluster.is_empty() && !cluster.contains('/')).then_some((region, cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_third_slash() {
        for (key, expected) in [
            ("/a/b/c", Some(5)),
            ("/a/b/", Some(5)),
            ("/a/b", None),
            ("a/b/c/", None),
            ("///x", Some(3)),
            ("", None),
        ] {
            assert_eq!(length(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(parts("/a/b/"), Some(("a", "b")));
        for wrong in ["/a/", "a/b/", "//b/", "/a//", "/a/b/c/", "/a/b"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_asterisk_is_any_part_of_a_region_or_a_cluster() {
        for (pattern, prefix, expected) in [
            ("/*/*/", "/a/b/", true),
            ("/a*/*/", "/abc/b/", true),
            ("/a*/*/", "/ba/b/", false),
            ("/*c/b/", "/abc/b/", true),
            ("/*b*/*/", "/abc/b/", true),
            ("/*b*/*/", "/ac/b/", false),
            ("/a*b*c/*/", "/a1b2bc/x/", true),
            ("/a*bc*bc/*/", "/abc/x/", false),
            ("/ab*bc/*/", "/abc/x/", false),
            ("/**/b/", "/abc/b/", true),
            ("/a/b/", "/a/b/", true),
            ("/a*/", "/a/b/", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), prefix.as_bytes()), expected, "{pattern} {prefix}");
        }
    }
}
