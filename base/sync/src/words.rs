//! Racy bytes. An item is read by threads that hold no lock while another thread may be overwriting it; both
//! sides do so by aligned 8-byte atomics, here and nowhere else. What comes out may be torn between words: it
//! means something only after the version counter that covers it has been validated ([`crate::version`]).
//!
//! Byte `i` of a run of words is byte `i % 8`, in little-endian order, of word `i / 8`, on every machine.

use crate::atomic::{AtomicU64, DATA_LOAD, DATA_STORE};

/// Bytes in a word.
pub const WORD: usize = 8;

/// Loads one word of racy data.
#[inline(always)]
pub fn load(word: &AtomicU64) -> u64 {
    word.load(DATA_LOAD)
}

/// Stores one word of racy data. The caller is the only writer of the word.
#[inline(always)]
pub fn store(word: &AtomicU64, value: u64) {
    word.store(value, DATA_STORE);
}

/// The eight bytes that start at byte `start`, which may straddle two words. Bytes past the end read as 0.
#[inline(always)]
fn load_at(words: &[AtomicU64], start: usize) -> u64 {
    let (index, shift) = (start / WORD, (start % WORD) * 8);
    let low = words.get(index).map_or(0, load);
    if shift == 0 {
        return low;
    }
    let high = words.get(index + 1).map_or(0, load);
    (low >> shift) | (high << (64 - shift))
}

/// Copies `out.len()` bytes that start at byte `start`.
///
/// # Panics
/// If the bytes do not all lie in `words`.
#[inline]
pub fn copy_out(words: &[AtomicU64], start: usize, out: &mut [u8]) {
    assert!(start + out.len() <= words.len() * WORD);
    #[cfg(all(target_arch = "x86_64", not(guira_loom), not(guira_tsan)))]
    if out.len() >= BLOCK_MIN {
        // SAFETY: the bytes all lie in `words`, as asserted.
        let from = unsafe { words.as_ptr().cast::<u8>().add(start) };
        // SAFETY: `out.len()` bytes can be read from there, and written to `out`, which is ours alone.
        return unsafe { copy_block(from, out.as_mut_ptr(), out.len()) };
    }
    let shift = (start % WORD) * 8;
    let words = &words[start / WORD..];
    let mut chunks = out.chunks_exact_mut(WORD);
    let mut index = 0;
    if shift == 0 {
        for (chunk, word) in (&mut chunks).zip(words) {
            chunk.copy_from_slice(&load(word).to_le_bytes());
            index += 1;
        }
    } else {
        let mut low = words.first().map_or(0, load);
        for (chunk, word) in (&mut chunks).zip(words.get(1..).unwrap_or(&[])) {
            let high = load(word);
            chunk.copy_from_slice(&((low >> shift) | (high << (64 - shift))).to_le_bytes());
            low = high;
            index += 1;
        }
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let tail = load_at(words, index * WORD + shift / 8).to_le_bytes();
        let length = rest.len();
        rest.copy_from_slice(&tail[..length]);
    }
}

/// From so many bytes on one string instruction is faster than a loop over words, which the compiler may not
/// vectorise because they are atomics.
#[cfg(all(target_arch = "x86_64", not(guira_loom), not(guira_tsan)))]
const BLOCK_MIN: usize = 512;

/// Copies a block that other threads may be storing to. Unlike `memcpy` it is no data race: what the instruction does is
/// defined by the processor, for which these are loads like any others, each of them relaxed.
///
/// # Safety
/// `length` bytes can be read from `from` and written to `to`, and nobody else reads or writes the latter.
#[cfg(all(target_arch = "x86_64", not(guira_loom), not(guira_tsan)))]
#[inline]
unsafe fn copy_block(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: reads and writes what the caller vouches for; the direction flag is clear by the calling convention.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies `bytes` to the bytes that start at byte `start`. The caller is the only writer of every word that
/// is touched; bytes of the first and last word outside the run keep their values.
///
/// # Panics
/// If the bytes do not all fit in `words`.
#[inline]
pub fn copy_in(words: &[AtomicU64], start: usize, bytes: &[u8]) {
    assert!(start + bytes.len() <= words.len() * WORD);
    let mut index = start / WORD;
    let skip = start % WORD;
    let mut bytes = bytes;
    if skip != 0 {
        let head = bytes.len().min(WORD - skip);
        merge(&words[index], skip, &bytes[..head]);
        bytes = &bytes[head..];
        index += 1;
    }
    let mut chunks = bytes.chunks_exact(WORD);
    for (chunk, word) in (&mut chunks).zip(words.get(index..).unwrap_or(&[])) {
        store(
            word,
            u64::from_le_bytes([
                chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
            ]),
        );
        index += 1;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        merge(&words[index], 0, rest);
    }
}

/// Replaces the bytes of one word from byte `skip` on.
#[inline]
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let mut merged = load(word).to_le_bytes();
    merged[skip..skip + bytes.len()].copy_from_slice(bytes);
    store(word, u64::from_le_bytes(merged));
}

/// Whether the bytes that start at byte `start` equal `bytes`. Bytes past the end never do.
#[inline]
pub fn equal(words: &[AtomicU64], start: usize, bytes: &[u8]) -> bool {
    if start + bytes.len() > words.len() * WORD {
        return false;
    }
    let mut chunks = bytes.chunks_exact(WORD);
    let mut at = start;
    for chunk in &mut chunks {
        let wanted = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        if load_at(words, at) != wanted {
            return false;
        }
        at += WORD;
    }
    let rest = chunks.remainder();
    if rest.is_empty() {
        return true;
    }
    let mut wanted = [0; WORD];
    wanted[..rest.len()].copy_from_slice(rest);
    let mask = (1u64 << (rest.len() * 8)) - 1;
    load_at(words, at) & mask == u64::from_le_bytes(wanted)
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|i| AtomicU64::new(0x0101_0101_0101_0101 * (i as u64 + 1))).collect()
    }

    #[test]
    fn what_was_copied_in_comes_out_at_every_alignment_and_length() {
        for start in 0..17 {
            for length in (0..40).chain([511, 512, 513, 777]) {
                let area = words(128);
                let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + start) as u8).collect();
                copy_in(&area, start, &bytes);
                let mut out = vec![0; length];
                copy_out(&area, start, &mut out);
                assert_eq!(out, bytes, "start {start}, length {length}");
                assert!(equal(&area, start, &bytes));
                if length > 0 {
                    let mut other = bytes.clone();
                    other[length - 1] ^= 1;
                    assert!(!equal(&area, start, &other));
                }
            }
        }
    }

    #[test]
    fn bytes_outside_the_run_are_kept() {
        let area = words(3);
        copy_in(&area, 5, &[9; 9]);
        let mut all = [0; 24];
        copy_out(&area, 0, &mut all);
        assert_eq!(all, [1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn bytes_past_the_end_are_never_equal() {
        assert!(!equal(&words(1), 4, &[1, 1, 1, 1, 0]));
    }
}
