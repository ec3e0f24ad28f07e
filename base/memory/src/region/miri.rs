//! What a Region asks of the system, for Miri, which knows no mappings: memory of the allocator. There are no files.

use super::{HUGE, Hint};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::ptr::NonNull;

pub(super) fn page_size() -> usize {
    4096
}

fn layout(reserved: usize) -> io::Result<Layout> {
    Layout::from_size_align(reserved, HUGE).map_err(io::Error::other)
}

pub(super) fn map(reserved: usize) -> io::Result<NonNull<u8>> {
    let layout = layout(reserved)?;
    // SAFETY: a Region has at least one huge page.
    let base = unsafe { alloc_zeroed(layout) };
    NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// None: it does nothing.
pub(super) unsafe fn map_file(_base: NonNull<u8>, _reserved: usize, _file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Frees a Region.
///
/// # Safety
/// [`map`] has returned `base` for `reserved` bytes, and no reference to them exists any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, reserved: usize) {
    if let Ok(layout) = layout(reserved) {
        // SAFETY: `map` has allocated it with this layout, and no references exist, as the caller promises.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}

pub(super) fn advise(_first: NonNull<u8>, _length: usize, _hint: Hint) {}

pub(super) fn lock(_first: NonNull<u8>, _length: usize) -> io::Result<()> {
    Ok(())
}

pub(super) fn sync(_first: NonNull<u8>, _length: usize) -> io::Result<()> {
    Ok(())
}

/// # Safety
/// The range lies in a Region, and no other thread accesses it, which Miri would report.
pub(super) unsafe fn give_back(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: in a Region, and without other threads, as the caller promises.
    unsafe { first.write_bytes(0, length) };
    Ok(())
}

/// # Safety
/// As for [`give_back`].
pub(super) unsafe fn give_back_locked(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: the caller keeps its conditions.
    unsafe { give_back(first, length) }
}
