//! 32-bit MurmurHash2 (Austin Appleby), its seed made of the length.

const MULTIPLIER: u32 = 0x5bd1_e995;

pub(super) fn murmur2(key: &[u8]) -> u32 {
    let length = key.len() as u32;
    let mut hash = length.wrapping_mul(0xdead_beef) ^ length;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}
