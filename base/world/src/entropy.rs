//! The system's randomness, which std and other crates take through the C library. Here each call returns the same
//! bytes, so that maps of every run iterate in the same order.

/// Stands in for getrandom(2) of the C library in the whole program.
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
// SAFETY: the C library has a function of this name and these types, and no promise of it but randomness is broken.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller upholds this, as it does for getrandom(2).
    unsafe { buffer.write_bytes(0x5A, length) };
    length as isize
}
