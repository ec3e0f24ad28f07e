//! Racy bytes on x86-64, by loads that the processor has and Rust's atomics lack: unaligned ones, and ones of sixteen
//! bytes.
//!
//! They are single instructions in assembly. For the compiler that is no data race: the processor defines the effect
//! of an instruction, and for it these are ordinary loads. Each of them is at least relaxed; fences order them like
//! relaxed atomic loads, since the compiler moves no assembly that reads memory across a fence.

use super::Line;
use crate::atomic::AtomicU64;
use std::arch::asm;

/// The length in bytes from which one string instruction is faster than a loop.
const STRING_FROM: usize = 512;

/// # Safety
/// Eight bytes can be read from `from + at`.
#[inline(always)]
unsafe fn eight_at(from: *const u8, at: usize) -> u64 {
    let bytes;
    // SAFETY: reads only memory that the caller guarantees to be readable.
    unsafe {
        asm!(
            "mov {bytes}, qword ptr [{from} + {at}]",
            bytes = out(reg) bytes, from = in(reg) from, at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    bytes
}

/// Copies eight bytes.
///
/// # Safety
/// They can be read from `from + from_at`, and written to `to + to_at`, which has no other writer. Concurrent readers
/// use this module, and validate.
#[inline(always)]
unsafe fn copy_eight(from: *const u8, from_at: usize, to: *mut u8, to_at: usize) {
    // SAFETY: reads and writes only memory that the caller guarantees.
    unsafe {
        asm!(
            "mov {bytes}, qword ptr [{from} + {from_at}]",
            "mov qword ptr [{to} + {to_at}], {bytes}",
            bytes = out(reg) _, from = in(reg) from, from_at = in(reg) from_at, to = in(reg) to, to_at = in(reg) to_at,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies sixteen bytes.
///
/// # Safety
/// As for [`copy_eight`].
#[inline(always)]
unsafe fn copy_sixteen(from: *const u8, from_at: usize, to: *mut u8, to_at: usize) {
    // SAFETY: reads and writes only memory that the caller guarantees.
    unsafe {
        asm!(
            "movdqu {bytes}, xmmword ptr [{from} + {from_at}]",
            "movdqu xmmword ptr [{to} + {to_at}], {bytes}",
            bytes = out(xmm_reg) _, from = in(reg) from, from_at = in(reg) from_at, to = in(reg) to, to_at = in(reg) to_at,
            options(nostack, preserves_flags)
        );
    }
}

/// The caller has checked that the bytes lie in `words`.
#[inline(always)]
pub(super) fn copy_out(words: &[AtomicU64], start: usize, out: &mut [u8]) {
    debug_assert!(start + out.len() <= size_of_val(words));
    let (to, length) = (out.as_mut_ptr(), out.len());
    let from = words.as_ptr().cast::<u8>();
    if length >= STRING_FROM {
        let from = from.wrapping_add(start);
        // SAFETY: `length` bytes from `start` on lie in `words`, and `out` is ours alone.
        unsafe { copy_string(from, to, length) };
    } else if length >= 16 {
        let last = length - 16;
        let mut at = 0;
        while at < last {
            // SAFETY: `at + 16` is at most `length`, on both sides.
            unsafe { copy_sixteen(from, start + at, to, at) };
            at += 16;
        }
        // SAFETY: as above. These sixteen may overlap the ones before: the same bytes, unless there is a race, and
        // then the result is not validated.
        unsafe { copy_sixteen(from, start + last, to, last) };
    } else if length >= 8 {
        // SAFETY: as above, for eight bytes.
        unsafe { copy_eight(from, start, to, 0) };
        // SAFETY: as above.
        unsafe { copy_eight(from, start + length - 8, to, length - 8) };
    } else {
        copy_short(words, start, out);
    }
}

/// Like [`copy_out`], for fewer than eight bytes.
#[inline(never)]
fn copy_short(words: &[AtomicU64], start: usize, out: &mut [u8]) {
    let bytes = up_to_eight(words, start, out.len()).to_le_bytes();
    for (out, byte) in out.iter_mut().zip(bytes) {
        *out = byte;
    }
}

/// The `length` bytes from byte `start` on, at most eight of them and all in `words`; the higher bytes are
/// unspecified.
#[inline(always)]
pub(super) fn up_to_eight(words: &[AtomicU64], start: usize, length: usize) -> u64 {
    let from = words.as_ptr().cast::<u8>();
    if start + 8 <= size_of_val(words) {
        // SAFETY: eight bytes from `start` on lie in `words`, as checked.
        unsafe { eight_at(from, start) }
    } else if length > 0 {
        // The last eight bytes: there is a whole word, since `length` bytes lie in `words`.
        let last = size_of_val(words) - 8;
        // SAFETY: as above.
        unsafe { eight_at(from, last) >> ((start - last) * 8) }
    } else {
        0
    }
}

/// Copies a block by a string instruction.
///
/// # Safety
/// `length` bytes can be read from `from` and written to `to`, which has no other writer. Concurrent readers use this
/// module, and validate.
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: reads and writes only memory that the caller guarantees; the direction flag is clear by the calling
    // convention.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// The caller has checked that the bytes fit in `words`.
#[inline(always)]
pub(super) fn copy_in(words: &[AtomicU64], start: usize, bytes: &[u8]) {
    debug_assert!(start + bytes.len() <= size_of_val(words));
    let (from, length) = (bytes.as_ptr(), bytes.len());
    // The target consists of atomics, written by instructions that the compiler does not see.
    let to = words.as_ptr().cast_mut().cast::<u8>();
    if length >= STRING_FROM {
        let to = to.wrapping_add(start);
        // SAFETY: `length` bytes from `start` on lie in `words`, whose only writer is the caller.
        unsafe { copy_string(from, to, length) };
    } else if length >= 16 {
        let last = length - 16;
        let mut at = 0;
        while at < last {
            // SAFETY: `at + 16` is at most `length`, on both sides.
            unsafe { copy_sixteen(from, at, to, start + at) };
            at += 16;
        }
        // SAFETY: as above. These sixteen may overlap the ones before: the same bytes.
        unsafe { copy_sixteen(from, last, to, start + last) };
    } else if length >= 8 {
        // SAFETY: as above, for eight bytes.
        unsafe { copy_eight(from, 0, to, start) };
        // SAFETY: as above.
        unsafe { copy_eight(from, length - 8, to, start + length - 8) };
    } else {
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: byte `start + at` lies in `words`, whose only writer is the caller.
            unsafe { store_byte(to, start + at, *byte) };
        }
    }
}

/// # Safety
/// A byte can be written to `to + at`, which has no other writer.
#[inline(always)]
unsafe fn store_byte(to: *mut u8, at: usize, byte: u8) {
    // SAFETY: writes only memory that the caller guarantees.
    unsafe {
        asm!(
            "mov byte ptr [{to} + {at}], {byte}",
            byte = in(reg_byte) byte, to = in(reg) to, at = in(reg) at,
            options(nostack, preserves_flags)
        );
    }
}

/// The caller has checked that the bytes lie in `words`.
#[inline(always)]
pub(super) fn equal(words: &[AtomicU64], start: usize, bytes: &[u8]) -> bool {
    debug_assert!(start + bytes.len() <= size_of_val(words));
    let from = words.as_ptr().cast::<u8>();
    let length = bytes.len();
    let Some((_, last)) = bytes.split_last_chunk::<8>() else {
        return equal_short(words, start, bytes);
    };
    // No early exit: items that differ from the key nearly always have a different tag.
    let mut difference = 0;
    let mut at = start;
    for chunk in bytes[..length - 1].as_chunks::<8>().0 {
        // SAFETY: these eight bytes lie in `words`.
        difference |= unsafe { eight_at(from, at) } ^ u64::from_le_bytes(*chunk);
        at += 8;
    }
    // SAFETY: as above.
    difference |= unsafe { eight_at(from, start + length - 8) } ^ u64::from_le_bytes(*last);
    difference == 0
}

/// Like [`equal`], for fewer than eight bytes.
#[inline(never)]
fn equal_short(words: &[AtomicU64], start: usize, bytes: &[u8]) -> bool {
    let (mut wanted, mut shift) = (0, 0);
    for byte in bytes {
        wanted |= u64::from(*byte) << shift;
        shift += 8;
    }
    let mask = (1u64 << shift) - 1;
    (up_to_eight(words, start, bytes.len()) ^ wanted) & mask == 0
}

#[inline(always)]
pub(super) fn which_equal(lines: [&Line; 2], byte: u8) -> u32 {
    const EVERY: u64 = 0x0101_0101_0101_0101;
    let (first, second): (u32, u32);
    // SAFETY: reads the first sixteen of the 64 bytes of each line.
    unsafe {
        asm!(
            "movq {wanted}, {bytes}",
            "punpcklqdq {wanted}, {wanted}",
            "movdqu {tags}, xmmword ptr [{a}]",
            "pcmpeqb {tags}, {wanted}",
            "pmovmskb {first:e}, {tags}",
            "movdqu {tags}, xmmword ptr [{b}]",
            "pcmpeqb {tags}, {wanted}",
            "pmovmskb {second:e}, {tags}",
            wanted = out(xmm_reg) _, tags = out(xmm_reg) _,
            bytes = in(reg) EVERY * u64::from(byte), a = in(reg) lines[0].as_ptr(), b = in(reg) lines[1].as_ptr(),
            first = out(reg) first, second = lateout(reg) second,
            options(nostack, preserves_flags, readonly)
        );
    }
    first | second << 16
}

/// The caller ensures that `at` is below 64.
#[inline(always)]
pub(super) fn byte_of(line: &Line, at: usize) -> u8 {
    let at = at % 64;
    let byte: u32;
    // SAFETY: byte `at` lies in the line.
    unsafe {
        asm!(
            "movzx {byte:e}, byte ptr [{from} + {at}]",
            byte = out(reg) byte, from = in(reg) line.as_ptr(), at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    byte as u8
}

/// The caller ensures that `at` is a multiple of 4 below 64.
#[inline(always)]
pub(super) fn four_of(line: &Line, at: usize) -> u32 {
    let at = (at % 64) & !3;
    let bytes: u32;
    // SAFETY: these four bytes lie in the line.
    unsafe {
        asm!(
            "mov {bytes:e}, dword ptr [{from} + {at}]",
            bytes = out(reg) bytes, from = in(reg) line.as_ptr(), at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    bytes
}

#[inline(always)]
pub(super) fn which_pairs(line: &Line, pair: u16) -> u32 {
    const EVERY: u64 = 0x0001_0001_0001_0001;
    let found: u32;
    // SAFETY: reads bytes 4 to 34 of the 64 of the line, the two in the middle twice.
    unsafe {
        asm!(
            "movq {wanted}, {pairs}",
            "punpcklqdq {wanted}, {wanted}",
            "movdqu {first}, xmmword ptr [{from} + 4]",
            "movdqu {second}, xmmword ptr [{from} + 18]",
            "pcmpeqw {first}, {wanted}",
            "pcmpeqw {second}, {wanted}",
            "packsswb {first}, {second}",
            "pmovmskb {found:e}, {first}",
            wanted = out(xmm_reg) _, first = out(xmm_reg) _, second = out(xmm_reg) _,
            pairs = in(reg) EVERY * u64::from(pair), from = in(reg) line.as_ptr(), found = lateout(reg) found,
            options(nostack, preserves_flags, readonly)
        );
    }
    // Pair 7 was compared twice.
    (found & 0x7f) | (found >> 1 & 0x7f80)
}

/// The caller ensures that `at` is a multiple of 2 below 64.
#[inline(always)]
pub(super) fn two_of(line: &Line, at: usize) -> u16 {
    let at = (at % 64) & !1;
    let bytes: u32;
    // SAFETY: these two bytes lie in the line.
    unsafe {
        asm!(
            "movzx {bytes:e}, word ptr [{from} + {at}]",
            bytes = out(reg) bytes, from = in(reg) line.as_ptr(), at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    bytes as u16
}
