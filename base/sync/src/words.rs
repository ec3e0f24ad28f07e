//! Racy bytes. Threads read an item without a lock while another thread may overwrite it; both sides do so here and
//! nowhere else: by aligned 8-byte atomics, or on x86-64 by single instructions. The result may be torn between
//! words: it is valid only once the version counter that covers it has been validated ([`crate::version`]).
//!
//! Byte `i` of a run of words is byte `i % 8`, in little-endian order, of word `i / 8`, on every machine.

use crate::atomic::{AtomicU64, DATA_LOAD, DATA_STORE};

#[cfg(all(target_arch = "x86_64", not(guira_loom), not(guira_tsan), not(miri)))]
#[path = "words/x86_64.rs"]
mod wide;
#[cfg(not(all(target_arch = "x86_64", not(guira_loom), not(guira_tsan), not(miri))))]
use portable as wide;

#[cfg(any(test, not(target_arch = "x86_64"), guira_loom, guira_tsan, miri))]
mod portable;

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

/// Copies `out.len()` bytes that start at byte `start`.
///
/// # Panics
/// If the bytes do not all lie in `words`.
#[inline(always)]
pub fn copy_out(words: &[AtomicU64], start: usize, out: &mut [u8]) {
    assert!(start + out.len() <= words.len() * WORD);
    wide::copy_out(words, start, out);
}

/// Copies `bytes` to the bytes that start at byte `start`. The caller is the only writer of all words in the range;
/// bytes of the first and last word outside of it keep their values.
///
/// # Panics
/// If the bytes do not all fit in `words`.
#[inline]
pub fn copy_in(words: &[AtomicU64], start: usize, bytes: &[u8]) {
    assert!(start + bytes.len() <= words.len() * WORD);
    wide::copy_in(words, start, bytes);
}

/// Whether the bytes that start at byte `start` equal `bytes`; false past the end of `words`.
#[inline(always)]
pub fn equal(words: &[AtomicU64], start: usize, bytes: &[u8]) -> bool {
    start + bytes.len() <= words.len() * WORD && wide::equal(words, start, bytes)
}

/// Whether the bytes that start at byte `start` equal the first `length` bytes of `other`; false past the end of either.
/// It stops at the first word that differs.
#[inline(always)]
pub fn equal_racy(words: &[AtomicU64], start: usize, other: &[AtomicU64], length: usize) -> bool {
    if start + length > words.len() * WORD || length > other.len() * WORD {
        return false;
    }
    other[..length.div_ceil(WORD)].iter().enumerate().all(|(index, word)| {
        let count = (length - index * WORD).min(WORD);
        let mask = u64::MAX >> ((WORD - count) * 8);
        (wide::up_to_eight(words, start + index * WORD, count) ^ load(word)) & mask == 0
    })
}

/// A cache line.
pub type Line = [AtomicU64; 8];

/// Which of the first sixteen bytes of two lines equal `byte`: bit `i` for byte `i` of the first line, bit `16 + i`
/// for that of the second.
#[inline(always)]
pub fn which_equal(lines: [&Line; 2], byte: u8) -> u32 {
    wide::which_equal(lines, byte)
}

/// Byte `at % 64` of `line`.
#[inline(always)]
pub fn byte_of(line: &Line, at: usize) -> u8 {
    wide::byte_of(line, at % 64)
}

/// The number of byte pairs that [`which_pairs`] compares.
pub const PAIRS: usize = 15;

/// Which of the 15 byte pairs of `line` from its byte 4 on equal `pair`, a little-endian number: bit `i` for pair
/// `i`.
#[inline(always)]
pub fn which_pairs(line: &Line, pair: u16) -> u32 {
    wide::which_pairs(line, pair)
}

/// The two bytes of `line` from byte `at % 64` on, which is rounded down to a multiple of two.
#[inline(always)]
pub fn two_of(line: &Line, at: usize) -> u16 {
    wide::two_of(line, (at % 64) & !1)
}

/// The four bytes of `line` from byte `at % 64` on, which is rounded down to a multiple of four.
#[inline(always)]
pub fn four_of(line: &Line, at: usize) -> u32 {
    wide::four_of(line, (at % 64) & !3)
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|i| AtomicU64::new(0x0101_0101_0101_0101 * (i as u64 + 1))).collect()
    }

    #[test]
    fn bytes_copied_in_are_copied_out_at_every_alignment_and_length() {
        for start in 0..17 {
            for length in (0..40).chain([511, 512, 513, 777]) {
                let area = words(128);
                let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + start) as u8).collect();
                copy_in(&area, start, &bytes);
                let other = words(128);
                portable::copy_in(&other, start, &bytes);
                assert!(area.iter().zip(&other).all(|(one, other)| load(one) == load(other)));
                let mut out = vec![0; length];
                copy_out(&area, start, &mut out);
                assert_eq!(out, bytes, "start {start}, length {length}");
                out.fill(0);
                portable::copy_out(&area, start, &mut out);
                assert_eq!(out, bytes, "start {start}, length {length}");
                assert!(equal(&area, start, &bytes) && portable::equal(&area, start, &bytes));
                if length > 0 {
                    let mut other = bytes.clone();
                    other[length - 1] ^= 1;
                    assert!(!equal(&area, start, &other) && !portable::equal(&area, start, &other));
                }
            }
        }
    }

    #[test]
    fn racy_bytes_equal_those_of_other_words_up_to_a_length() {
        for start in 0..17 {
            for length in 0..40 {
                let (area, other) = (words(8), words(6));
                let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + start) as u8).collect();
                copy_in(&area, start, &bytes);
                copy_in(&other, 0, &bytes);
                assert!(equal_racy(&area, start, &other, length), "start {start}, length {length}");
                let first = bytes.iter().take(WORD).rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                let mask = !(u64::MAX.checked_shl(8 * length as u32).unwrap_or(0));
                for read in [wide::up_to_eight, portable::up_to_eight] {
                    assert_eq!(read(&area, start, length.min(WORD)) & mask, first);
                }
                for wrong in 0..length {
                    let mut changed = bytes.clone();
                    changed[wrong] ^= 1;
                    copy_in(&other, 0, &changed);
                    assert!(
                        !equal_racy(&area, start, &other, length),
                        "byte {wrong} of {length} from {start}"
                    );
                }
            }
        }
        let (area, other) = (words(2), words(1));
        assert!(equal_racy(&area, 8, &area[1..], 8) && equal_racy(&area, 16, &other, 0));
        assert!(!equal_racy(&area, 9, &other, 8) && !equal_racy(&area, 0, &other, 9));
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
    fn a_line_is_read_by_bytes_and_fours_and_its_tags_are_compared_exactly() {
        let line: Line = std::array::from_fn(|i| AtomicU64::new(0x0807_0605_0403_0201 + 0x1010 * i as u64));
        let bytes: Vec<u8> = line.iter().flat_map(|word| load(word).to_le_bytes()).collect();
        for at in 0..64 {
            assert_eq!(byte_of(&line, at), bytes[at]);
            assert_eq!(byte_of(&line, at + 64), bytes[at]);
            let from = at & !3;
            assert_eq!(four_of(&line, at).to_le_bytes(), bytes[from..from + 4]);
            assert_eq!(portable::byte_of(&line, at), bytes[at]);
            assert_eq!(portable::four_of(&line, from).to_le_bytes(), bytes[from..from + 4]);
        }
        for byte in 0..=255u8 {
            for word in [0, u64::MAX, 0x0001_0203_0405_0607, 0x8081_7f00_ff01_0080, 0x0101_0101_0101_0101] {
                store(&line[0], word);
                store(&line[1], word.rotate_left(8) ^ 1);
                let first_16 = [word.to_le_bytes(), (word.rotate_left(8) ^ 1).to_le_bytes()].concat();
                let expected =
                    first_16.iter().enumerate().map(|(i, other)| u32::from(*other == byte) << i).sum::<u32>();
                let other: Line = std::array::from_fn(|i| AtomicU64::new(load(&line[(i + 1) % 8])));
                let both = expected | which_equal([&other, &other], byte) << 16;
                assert_eq!(which_equal([&line, &other], byte), both, "{word:x} {byte}");
                assert_eq!(portable::which_equal([&line, &other], byte), both);
                assert_eq!(both >> 16 & 0xff, expected >> 8, "{word:x} {byte}");
            }
        }
    }

    #[test]
    fn pairs_are_read_and_compared_exactly() {
        let mut bytes = [0u8; 64];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at * 37) as u8;
        }
        let line_of = |bytes: &[u8; 64]| -> Line {
            std::array::from_fn(|i| {
                AtomicU64::new(u64::from_le_bytes(std::array::from_fn(|b| bytes[8 * i + b])))
            })
        };
        for at in 0..64 {
            let pair = u16::from_le_bytes([bytes[at & !1], bytes[at | 1]]);
            assert_eq!(
                (two_of(&line_of(&bytes), at), portable::two_of(&line_of(&bytes), at & !1)),
                (pair, pair)
            );
        }
        for set in [0u32, 1, 0x7fff, 0x4001, 0x2aaa, 0x00c0, 0x0180] {
            let mut bytes = [0x12u8; 64];
            for index in (0..PAIRS).filter(|index| set >> index & 1 == 1) {
                bytes[4 + 2 * index..6 + 2 * index].copy_from_slice(&0x3412u16.to_le_bytes());
            }
            // Neighbours that hold the same value do not count.
            bytes[2..4].copy_from_slice(&0x3412u16.to_le_bytes());
            bytes[34..36].copy_from_slice(&0x3412u16.to_le_bytes());
            assert_eq!(which_pairs(&line_of(&bytes), 0x3412), set);
            assert_eq!(portable::which_pairs(&line_of(&bytes), 0x3412), set);
        }
    }

    #[test]
    fn bytes_past_the_end_are_never_equal() {
        assert!(!equal(&words(1), 4, &[1, 1, 1, 1, 0]));
    }
}
