//! mcrouter's Crc32: the low 31 bits of CRC-32 modulo the number of servers. Any change of that number moves almost all keys.

use super::error::HashError;
use super::server::index_limit;

#[derive(Clone, Copy, Debug)]
pub(super) struct Crc32 {
    servers: u32,
}

impl Crc32 {
    pub(super) fn new(servers: usize) -> Result<Self, HashError> {
        Ok(Self { servers: index_limit(servers, i32::MAX as usize)? })
    }

    pub(super) fn pick(self, key: &[u8]) -> u32 {
        (crc32fast::hash(key) & 0x7fff_ffff) % self.servers
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{all_bytes, all_bytes_reversed};
    use super::Crc32;

    /// facebook/mcrouter, mcrouter/lib/test/Crc32HashTest.cpp at 159257f89a1df468cd3490b3780bcf6ab36b87c6.
    #[test]
    fn mcrouters_vectors() {
        for (servers, key, expected) in [
            (100, &b"sample"[..], 7),
            (1, b"sample", 0),
            (100, b"", 0),
            (1, b"", 0),
            ((1 << 30) - 1, b"", 0),
            ((1 << 30) - 1, b"sample", 822_834_884),
            (99_999, &all_bytes(), 11_697),
            (99_999, &all_bytes_reversed(), 97_630),
        ] {
            assert_eq!(Crc32::new(servers).unwrap().pick(key), expected, "{servers} servers, key {key:?}");
        }
    }
}
