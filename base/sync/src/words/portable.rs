//! Racy bytes by aligned atomic words: everywhere but on x86-64, and there under loom and ThreadSanitizer.

use super::{Line, WORD, load, store};
use crate::atomic::AtomicU64;

/// The eight bytes that start at byte `start`, which may straddle two words. Bytes past the end read as 0.
#[inline(always)]
fn eight_at(words: &[AtomicU64], start: usize) -> u64 {
    let (index, shift) = (start / WORD, (start % WORD) * 8);
    let low = words.get(index).map_or(0, load);
    if shift == 0 {
        return low;
    }
    let high = words.get(index + 1).map_or(0, load);
    (low >> shift) | (high << (64 - shift))
}

/// The `length` bytes from byte `start` on, at most eight of them and all in `words`; the higher bytes are unspecified.
#[inline(always)]
pub(super) fn up_to_eight(words: &[AtomicU64], start: usize, _length: usize) -> u64 {
    eight_at(words, start)
}

#[inline]
pub(super) fn copy_out(words: &[AtomicU64], start: usize, out: &mut [u8]) {
    let (whole, rest) = out.as_chunks_mut::<WORD>();
    let mut at = start;
    for chunk in whole {
        *chunk = eight_at(words, at).to_le_bytes();
        at += WORD;
    }
    if !rest.is_empty() {
        // Byte by byte: a copy of a length that is not known here is a call.
        rest.iter_mut().zip(eight_at(words, at).to_le_bytes()).for_each(|(out, byte)| *out = byte);
    }
}

#[inline]
pub(super) fn copy_in(words: &[AtomicU64], start: usize, bytes: &[u8]) {
    let skip = start % WORD;
    let (head, bytes) = bytes.split_at(bytes.len().min((WORD - skip) % WORD));
    let mut words = &words[start / WORD..];
    if !head.is_empty() {
        merge(&words[0], skip, head);
        words = &words[1..];
    }
    for (chunk, word) in bytes.chunks(WORD).zip(words) {
        match chunk.first_chunk() {
            Some(whole) => store(word, u64::from_le_bytes(*whole)),
            None => merge(word, 0, chunk),
        }
    }
}

/// Replaces the bytes of one word from byte `skip` on.
#[inline]
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let mut merged = load(word).to_le_bytes();
    merged[skip..skip + bytes.len()].copy_from_slice(bytes);
    store(word, u64::from_le_bytes(merged));
}

#[inline]
pub(super) fn equal(words: &[AtomicU64], start: usize, bytes: &[u8]) -> bool {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    let mut at = start;
    for chunk in whole {
        if eight_at(words, at) != u64::from_le_bytes(*chunk) {
            return false;
        }
        at += WORD;
    }
    rest.is_empty() || rest.iter().zip(eight_at(words, at).to_le_bytes()).all(|(one, other)| *one == other)
}

const LOW_BYTES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

#[inline(always)]
pub(super) fn which_equal(lines: [&Line; 2], byte: u8) -> u32 {
    let of_word = |word: u64| {
        let difference = word ^ (LOW_BYTES * u64::from(byte));
        // Exact, unlike the shorter trick: no byte is reported because of its neighbour.
        let nonzero = ((difference & !HIGH_BITS) + !HIGH_BITS) | difference;
        let zero = (!nonzero & HIGH_BITS) >> 7;
        (zero.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let of_line = |line: &Line| of_word(load(&line[0])) | of_word(load(&line[1])) << 8;
    of_line(lines[0]) | of_line(lines[1]) << 16
}

#[inline(always)]
pub(super) fn byte_of(line: &Line, at: usize) -> u8 {
    (load(&line[at / WORD]) >> (at % WORD * 8)) as u8
}

#[inline(always)]
pub(super) fn four_of(line: &Line, at: usize) -> u32 {
    (load(&line[at / WORD]) >> (at % WORD * 8)) as u32
}

#[inline(always)]
pub(super) fn which_pairs(line: &Line, pair: u16) -> u32 {
    (0..super::PAIRS).fold(0, |found, index| found | u32::from(two_of(line, 4 + 2 * index) == pair) << index)
}

#[inline(always)]
pub(super) fn two_of(line: &Line, at: usize) -> u16 {
    (load(&line[at / WORD]) >> (at % WORD * 8)) as u16
}
