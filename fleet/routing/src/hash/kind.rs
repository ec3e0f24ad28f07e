//! The hashes by their names.

use super::error::HashError;
use super::key_hash::KeyHash;

/// A hash, with the hash of keys where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    Ch3,
    Crc32,
    WeightedCh3,
    ConstShard,
    Rendezvous,
    WeightedRendezvous,
    /// libmemcached's consistent distribution without weights, by the hash of keys throughout.
    KetamaLibmemcached(KeyHash),
    KetamaLibmemcachedWeighted(KeyHash),
    /// nutcracker's: the points of `KetamaLibmemcachedWeighted`, with other key hashes.
    KetamaTwemproxy(KeyHash),
    Modula(KeyHash),
    Jump(KeyHash),
}

/// The names in mcrouter's configurations, then those that mcrouter lacks.
const NAMES: &[(&str, HashKind)] = &[
    ("Ch3", HashKind::Ch3),
    ("Crc32", HashKind::Crc32),
    ("WeightedCh3", HashKind::WeightedCh3),
    ("ConstShard", HashKind::ConstShard),
    ("Rendezvous", HashKind::Rendezvous),
    ("WeightedRendezvous", HashKind::WeightedRendezvous),
    ("KetamaLibmemcached", HashKind::KetamaLibmemcached(KeyHash::OneAtATime)),
    ("KetamaLibmemcachedWeighted", HashKind::KetamaLibmemcachedWeighted(KeyHash::Md5)),
    ("KetamaTwemproxy", HashKind::KetamaTwemproxy(KeyHash::Fnv1a64)),
    ("Modula", HashKind::Modula(KeyHash::Fnv1a64)),
    ("Jump", HashKind::Jump(KeyHash::Xxh3)),
];

impl HashKind {
    pub fn from_name(name: &str) -> Result<Self, HashError> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let known = || NAMES.iter().map(|(known, _)| *known).collect();
        found.ok_or_else(|| HashError::UnknownHash { name: name.to_owned(), known: known() })
    }

    /// The same with another hash of keys.
    pub fn by_key_hash(self, key_hash: KeyHash) -> Result<Self, HashError> {
        self.replace(key_hash).ok_or_else(|| HashError::KeyHashNotChoosable {
            hash: NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name),
            choosable: NAMES
                .iter()
                .filter(|(_, kind)| kind.replace(key_hash).is_some())
                .map(|(name, _)| *name)
                .collect(),
        })
    }

    fn replace(self, key_hash: KeyHash) -> Option<Self> {
        match self {
            Self::KetamaLibmemcached(_) => Some(Self::KetamaLibmemcached(key_hash)),
            Self::KetamaLibmemcachedWeighted(_) => Some(Self::KetamaLibmemcachedWeighted(key_hash)),
            Self::KetamaTwemproxy(_) => Some(Self::KetamaTwemproxy(key_hash)),
            Self::Modula(_) => Some(Self::Modula(key_hash)),
            Self::Jump(_) => Some(Self::Jump(key_hash)),
            Self::Ch3
            | Self::Crc32
            | Self::WeightedCh3
            | Self::ConstShard
            | Self::Rendezvous
            | Self::WeightedRendezvous => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HashKind, KeyHash, NAMES};

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = HashKind::from_name("Ch4").unwrap_err().to_string();
        assert!(error.starts_with("unknown hash Ch4; use one of Ch3, Crc32, "), "{error}");
        assert!(NAMES.iter().all(|(name, _)| error.contains(name)), "{error}");
    }

    #[test]
    fn the_hash_of_keys_can_be_chosen_only_where_there_is_a_choice() {
        let jump = HashKind::from_name("Jump").unwrap();
        assert_eq!(jump.by_key_hash(KeyHash::Crc32a), Ok(HashKind::Jump(KeyHash::Crc32a)));
        let error = HashKind::Rendezvous.by_key_hash(KeyHash::Crc32a).unwrap_err().to_string();
        assert!(
            error.starts_with("Rendezvous has a key hash of its own") && error.ends_with("Modula, Jump"),
            "{error}"
        );
    }
}
