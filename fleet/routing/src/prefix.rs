//! Routing prefixes: a key `/region/cluster/key` is sent to that cluster, and `/*/*/key` to all.

use crate::step::NodeId;
use std::collections::HashMap;

/// Where a request begins, by the prefix of its key.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// With both slashes around the region and the one after the cluster. Patterns have rows of their own.
    known: HashMap<Box<[u8]>, NodeId>,
    default: NodeId,
    unknown: Unknown,
}

/// What becomes of keys whose prefix leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Refused,
    /// They are sent where keys without a prefix go.
    ToDefault,
}

impl Prefixes {
    pub(crate) fn new(known: HashMap<Box<[u8]>, NodeId>, default: NodeId, unknown: Unknown) -> Self {
        Prefixes { known, default, unknown }
    }

    #[inline]
    pub(crate) fn root(&self, key: &[u8]) -> Option<(NodeId, usize)> {
        if key.first() != Some(&b'/') {
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
        match self.known.get(prefix) {
            Some(root) => Some((*root, length)),
            None => (self.unknown == Unknown::ToDefault).then_some((self.default, length)),
        }
    }
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
}
