//! mcrouter's ConstShard: the key says its server, as a number between its first two colons (`user:3:name`). Keys without one, or with one that
//! no server has, go by Ch3.

use super::ch3::Ch3;
use super::error::HashError;

#[derive(Clone, Copy, Debug)]
pub(super) struct ConstShard {
    servers: u32,
    ch3: Ch3,
}

impl ConstShard {
    pub(super) fn new(servers: usize) -> Result<Self, HashError> {
        let ch3 = Ch3::new(servers)?;
        Ok(Self { servers: servers as u32, ch3 })
    }

    pub(super) fn pick(self, key: &[u8]) -> u32 {
        shard(key).filter(|shard| *shard < self.servers).unwrap_or_else(|| self.ch3.pick(key))
    }
}

fn shard(key: &[u8]) -> Option<u32> {
    let start = key.iter().position(|byte| *byte == b':')? + 1;
    let mut number = 0u32;
    for (digits, byte) in key[start..].iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?,
            b':' if digits > 0 => return Some(number),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Ch3, ConstShard};

    /// facebook/mcrouter, mcrouter/routes/test/ConstShardHashFuncTest.cpp at e96109421d0d32ac2ff4a44941608f6ca6d7dfb1.
    #[test]
    fn mcrouters_vectors() {
        let hash = ConstShard::new(4).unwrap();
        for (key, expected) in [
            ("b:3:meh", 3),
            ("bl:2:meh", 2),
            ("bla:1:meh", 1),
            ("blah:0:meh", 0),
            ("blahmeh", 2),
            ("blah:meh", 0),
            ("blah::meh", 1),
            ("blah:12c34:meh", 0),
            ("blah:4:meh", 3),
        ] {
            assert_eq!(hash.pick(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn numbers_at_the_limits() {
        let (hash, ch3) = (ConstShard::new(4).unwrap(), Ch3::new(4).unwrap());
        assert_eq!(hash.pick(b"a:0000000000000000000003:b"), 3);
        assert_eq!(hash.pick(b":2:"), 2);
        for key in [&b"a:4294967296:b"[..], b"a:18446744073709551617:b", b"a:+1:b", b"a:1", b"::", b""] {
            assert_eq!(hash.pick(key), ch3.pick(key), "{key:?}");
        }
    }
}
