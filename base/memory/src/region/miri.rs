//! What a Region asks of the system, for Miri, which knows no mappings: memory of the allocator. There are no files.

use crate::region::HUGE;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    HugePages,
    NoHugePages,
    MapNow,
}

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

pub(super) fn map_file(_base: NonNull<u8>, _reserved: usize, _file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Frees what [`map`] has returned, to which no reference exists any more.
pub(super) fn unmap(base: NonNull<u8>, reserved: usize) {
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

pub(super) fn give_back(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: the part of the mapping that the caller gives back. Miri would report another thread that accesses it.
    unsafe { first.write_bytes(0, length) };
    Ok(())
}

pub(super) fn give_back_locked(first: NonNull<u8>, length: usize) -> io::Result<()> {
    give_back(first, length)
}
