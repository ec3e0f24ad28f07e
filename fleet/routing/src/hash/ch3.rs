//! Ch3: mcrouter's default, `furc_hash`. A server appended takes its share from all others and no other key moves.
//!
//! The bits of a stream that follows from the key decide a walk down a binary tree of depth `d`, the smallest with `servers <= 2^d`. In each
//! level a 0 says "the server is in the lower half", a 1 "in the upper half", where the next bits are its number. A number that is not less than
//! the number of servers is walked for again. Bits are 23 apart, so that a tree of another depth looks at the same ones.

use super::error::HashError;
use super::murmur::{SEED, murmur64a, rehash};
use super::server::index_limit;

const MOST_BITS: u32 = 23;
/// mcrouter's limit, and the limit of all hashes here that have none of their own.
pub(super) const MOST_SERVERS: usize = 1 << MOST_BITS;
const TRIES: u32 = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ch3 {
    servers: u32,
    /// The depth of the tree; 0 for a single server.
    depth: u32,
}

impl Ch3 {
    pub(super) fn new(servers: usize) -> Result<Self, HashError> {
        let servers = index_limit(servers, MOST_SERVERS)?;
        Ok(Self { servers, depth: u32::BITS - servers.saturating_sub(1).leading_zeros() })
    }

    pub(super) fn pick(self, key: &[u8]) -> u32 {
        let mut depth = self.depth;
        if depth == 0 {
            return 0;
        }
        let mut bits = Bits::of(key);
        let mut at = depth;
        for _ in 0..TRIES {
            if bits.get(at) == 0 {
                // The first levels are those that the first word decides, and the highest bit that is set ends them.
                let left = bits.first & ((1 << depth) - 1) & !1;
                if left == 0 {
                    return 0;
                }
                depth = left.ilog2();
                at = depth;
            }
            at += MOST_BITS;
            let mut number = 1;
            for _ in 1..depth {
                number = number << 1 | bits.get(at);
                at += MOST_BITS;
            }
            if number < self.servers {
                return number;
            }
        }
        0
    }
}

/// The stream of bits: the hash of the key, the hash of that hash, and so on. Only the first word is gone back to.
struct Bits {
    first: u64,
    word: u64,
    ordinal: u32,
}

impl Bits {
    fn of(key: &[u8]) -> Self {
        let first = murmur64a(key, SEED);
        Self { first, word: first, ordinal: 0 }
    }

    #[inline(always)]
    fn get(&mut self, at: u32) -> u32 {
        // All bits of up to eight servers, and the first of more.
        if at < u64::BITS { (self.first >> at) as u32 & 1 } else { self.get_later(at) }
    }

    fn get_later(&mut self, at: u32) -> u32 {
        let ordinal = at / u64::BITS;
        if ordinal < self.ordinal {
            (self.word, self.ordinal) = (self.first, 0);
        }
        while self.ordinal < ordinal {
            self.word = rehash(self.word);
            self.ordinal += 1;
        }
        (self.word >> (at % u64::BITS)) as u32 & 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{all_bytes, all_bytes_reversed, counts};
    use super::{Ch3, MOST_SERVERS};

    fn pick(servers: usize, key: &[u8]) -> u32 {
        Ch3::new(servers).unwrap().pick(key)
    }

    /// facebook/mcrouter, mcrouter/lib/test/Ch3HashTest.cpp at 159257f89a1df468cd3490b3780bcf6ab36b87c6.
    #[test]
    fn mcrouters_vectors() {
        for (servers, key, expected) in [
            (100, &b"sample"[..], 97),
            (1, b"sample", 0),
            (100, b"", 72),
            (1, b"", 0),
            (MOST_SERVERS, b"", 6_173_600),
            (MOST_SERVERS, b"sample", 5_167_780),
            (99_999, &all_bytes(), 31_015),
            (99_999, &all_bytes_reversed(), 67_101),
        ] {
            assert_eq!(pick(servers, key), expected, "{servers} servers, key {key:?}");
        }
        assert_eq!(counts(1000, "", |key| pick(3, key)), [307, 342, 351]);
        assert_eq!(
            counts(10_000, "", |key| pick(10, key)),
            [995, 955, 1046, 968, 1032, 972, 1016, 1038, 1010, 968]
        );
    }

    #[test]
    fn no_server_and_more_than_the_limit_are_refused() {
        assert!(Ch3::new(0).is_err());
        assert!(Ch3::new(MOST_SERVERS + 1).is_err());
    }
}
