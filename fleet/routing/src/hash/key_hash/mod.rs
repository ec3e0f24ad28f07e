//! The hashes of keys that libmemcached and twemproxy offer, and the one of memcached's proxy.
//!
//! Where both libraries read a key as `char`, bytes from 0x80 on are negative, as on x86. Both
//! names of a hash give the same bits. Debian's libmemcached is built without hsieh.

mod crc16;
mod hsieh;
mod jenkins;
mod murmur2;

use md5::{Digest, Md5};
use twox_hash::XxHash3_64;

use super::error::HashError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHash {
    OneAtATime,
    /// The first four bytes of MD5.
    Md5,
    Crc16,
    /// 15 bits of CRC-32. libmemcached's `crc32` is this one too.
    Crc32,
    /// All bits of CRC-32.
    Crc32a,
    /// The low half of 64 bits, as the next.
    Fnv1x64,
    Fnv1a64,
    Fnv1x32,
    Fnv1a32,
    Hsieh,
    /// 32-bit MurmurHash2 with the seed of libmemcached.
    Murmur,
    /// Bob Jenkins' lookup3.
    Jenkins,
    /// All 64 bits of XXH3 without a seed: what memcached's proxy hashes by.
    Xxh3,
}

const NAMES: &[(&str, KeyHash)] = &[
    ("one_at_a_time", KeyHash::OneAtATime),
    ("md5", KeyHash::Md5),
    ("crc16", KeyHash::Crc16),
    ("crc32", KeyHash::Crc32),
    ("crc32a", KeyHash::Crc32a),
    ("fnv1_64", KeyHash::Fnv1x64),
    ("fnv1a_64", KeyHash::Fnv1a64),
    ("fnv1_32", KeyHash::Fnv1x32),
    ("fnv1a_32", KeyHash::Fnv1a32),
    ("hsieh", KeyHash::Hsieh),
    ("murmur", KeyHash::Murmur),
    ("jenkins", KeyHash::Jenkins),
    ("xxh3", KeyHash::Xxh3),
];

impl KeyHash {
    /// By the names of twemproxy's configurations.
    pub fn from_name(name: &str) -> Result<Self, HashError> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, hash)| *hash);
        let known = || NAMES.iter().map(|(known, _)| *known).collect();
        found.ok_or_else(|| HashError::UnknownKeyHash { name: name.to_owned(), known: known() })
    }

    /// 32 bits; 64 of `Xxh3`.
    pub(super) fn digest(self, key: &[u8]) -> u64 {
        let digest = match self {
            Self::OneAtATime => one_at_a_time(key),
            Self::Md5 => md5(key),
            Self::Crc16 => crc16::crc16(key),
            Self::Crc32 => crc32fast::hash(key) >> 16 & 0x7fff,
            Self::Crc32a => crc32fast::hash(key),
            Self::Fnv1x64 => fnv1(key, FNV_64, FNV_PRIME_64),
            Self::Fnv1a64 => fnv1a(key, FNV_64, FNV_PRIME_64),
            Self::Fnv1x32 => fnv1(key, FNV_32, FNV_PRIME_32),
            Self::Fnv1a32 => fnv1a(key, FNV_32, FNV_PRIME_32),
            Self::Hsieh => hsieh::hsieh(key),
            Self::Murmur => murmur2::murmur2(key),
            Self::Jenkins => jenkins::jenkins(key),
            Self::Xxh3 => return XxHash3_64::oneshot(key),
        };
        u64::from(digest)
    }
}

/// A byte as `char` becomes `uint32_t` on x86.
fn signed(byte: u8) -> u32 {
    byte.cast_signed() as u32
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in key {
        hash = hash.wrapping_add(signed(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

fn md5(key: &[u8]) -> u32 {
    let digest = Md5::digest(key);
    digest.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// The low halves of the 64-bit offset and prime: no step carries bits downwards, and only the low half of the hash is used.
const FNV_64: u32 = 0xcbf2_9ce4_8422_2325_u64 as u32;
const FNV_PRIME_64: u32 = 0x100_0000_01b3_u64 as u32;
const FNV_32: u32 = 0x811c_9dc5;
const FNV_PRIME_32: u32 = 0x0100_0193;

fn fnv1(key: &[u8], offset: u32, prime: u32) -> u32 {
    key.iter().fold(offset, |hash, byte| hash.wrapping_mul(prime) ^ signed(*byte))
}

fn fnv1a(key: &[u8], offset: u32, prime: u32) -> u32 {
    key.iter().fold(offset, |hash, byte| (hash ^ signed(*byte)).wrapping_mul(prime))
}

#[cfg(test)]
mod tests {
    use super::KeyHash;

    /// The others are checked by where servers' keys go, in tests/origins.rs. This is xxHash's published hash of nothing, with seed 0.
    #[test]
    fn xxh3_has_64_bits_and_no_seed() {
        assert_eq!(KeyHash::Xxh3.digest(b""), 0x2d06_8005_38d3_94c2);
    }
}
