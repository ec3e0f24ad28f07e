//! Paul Hsieh's SuperFastHash, from 0 instead of from the length.

use super::signed;

pub(super) fn hsieh(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    let (words, rest) = key.as_chunks::<4>();
    for [a, b, c, d] in words {
        hash = hash.wrapping_add(half(*a, *b));
        let mixed = half(*c, *d) << 11 ^ hash;
        hash = hash << 16 ^ mixed;
        hash = hash.wrapping_add(hash >> 11);
    }
    match *rest {
        [a] => {
            hash = hash.wrapping_add(u32::from(a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        [a, b] => {
            hash = hash.wrapping_add(half(a, b));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a, b, c] => {
            hash = hash.wrapping_add(half(a, b));
            hash ^= hash << 16;
            hash ^= signed(c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        _ => {}
    }
    finish(hash)
}

fn half(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}

fn finish(mut hash: u32) -> u32 {
    for (left, right) in [(3, 5), (4, 17), (25, 6)] {
        hash ^= hash << left;
        hash = hash.wrapping_add(hash >> right);
    }
    hash
}
