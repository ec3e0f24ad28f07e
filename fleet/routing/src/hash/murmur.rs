//! MurmurHash64A (Austin Appleby, the 64-bit variant of MurmurHash2), which mcrouter's hashes are built on.

/// The seed of Ch3 and of the names in rendezvous hashing.
pub(super) const SEED: u64 = 4_193_360_111;

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

pub(super) fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = absorb(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        hash = (hash ^ tail(bytes, rest)).wrapping_mul(MULTIPLIER);
    }
    finish(hash)
}

/// The bytes behind the last whole word, as a number. `bytes` has them at its end, and mostly words before them: a load that
/// begins among these costs less than a copy.
fn tail(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk() {
        Some(last) => u64::from_le_bytes(*last) >> (u64::BITS - u8::BITS * rest.len() as u32),
        None => rest.iter().rev().fold(0, |number, byte| number << u8::BITS | u64::from(*byte)),
    }
}

/// `murmur64a` of the eight bytes of `word` with [`SEED`].
pub(super) fn rehash(word: u64) -> u64 {
    finish(absorb(SEED ^ 8u64.wrapping_mul(MULTIPLIER), word))
}

fn absorb(hash: u64, word: u64) -> u64 {
    let mut word = word.wrapping_mul(MULTIPLIER);
    word ^= word >> SHIFT;
    (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER)
}

fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::{SEED, murmur64a, rehash, tail};

    #[test]
    fn bytes_behind_the_last_word_are_a_number_of_their_own() {
        let bytes: Vec<u8> = (1..=23).collect();
        for length in (1..24).filter(|length| length % 8 != 0) {
            let mut expected = [0; 8];
            let rest = &bytes[length / 8 * 8..length];
            expected[..rest.len()].copy_from_slice(rest);
            assert_eq!(tail(&bytes[..length], rest), u64::from_le_bytes(expected), "{length} bytes");
        }
    }

    #[test]
    fn a_rehash_is_the_hash_of_eight_bytes() {
        for word in [0, 1, 0xdead_beef, u64::MAX] {
            assert_eq!(rehash(word), murmur64a(&word.to_le_bytes(), SEED));
        }
    }
}
