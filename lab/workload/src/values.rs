//! What a value contains: bytes that follow from the key's number and the length alone.
//!
//! So any reply can be judged without remembering what was stored: a value that was mixed up with another key's,
//! cut, or shifted does not equal the slice that its number and length select. All 256 byte values occur, line ends
//! among them, so a server that looks for the end of a value instead of counting to it is found out.

use crate::rng::{Rng, mix64};

/// Distinct places where a value may begin.
const STARTS: usize = 1 << 16;

/// A block of random bytes from which every value is a slice.
#[derive(Debug, Clone)]
pub struct ValuePool {
    block: Vec<u8>,
}

impl ValuePool {
    /// A pool that can give values of up to `len_max` bytes.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        let mut rng = Rng::new(0x0076_616c_7565);
        let words = (len_max + STARTS).div_ceil(8);
        let block = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        Self { block }
    }

    /// The longest value that the pool can give.
    #[must_use]
    pub fn len_max(&self) -> usize {
        self.block.len() - STARTS
    }

    /// The value of `len` bytes that belongs to key number `id`, or none when the pool is too short for it.
    #[inline]
    #[must_use]
    pub fn get(&self, id: u64, len: usize) -> Option<&[u8]> {
        if len > self.len_max() {
            return None;
        }
        let start = (mix64(id ^ ((len as u64) << 40)) as usize) % STARTS;
        self.block.get(start..start + len)
    }
}

#[cfg(test)]
mod tests {
    use super::ValuePool;

    #[test]
    fn values_depend_on_number_and_length() {
        let pool = ValuePool::new(1000);
        assert_eq!(pool.get(5, 32), pool.get(5, 32));
        assert_ne!(pool.get(5, 32), pool.get(6, 32));
        assert_ne!(pool.get(5, 33).unwrap()[..32], pool.get(5, 32).unwrap()[..]);
        assert_eq!(pool.get(5, 0), Some(&[][..]));
    }

    #[test]
    fn the_longest_value_exists_and_no_longer_one() {
        let pool = ValuePool::new(1000);
        for id in 0..2000 {
            assert_eq!(pool.get(id, pool.len_max()).unwrap().len(), pool.len_max());
        }
        assert_eq!(pool.get(1, pool.len_max() + 1), None);
    }
}
