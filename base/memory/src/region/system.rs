//! What a Region asks of the system.

use super::{HUGE, Hint};
use rustix::mm::{
    Advice, MapFlags, MlockFlags, MsyncFlags, ProtFlags, madvise, mlock_with, mmap, mmap_anonymous, msync,
    munlock, munmap,
};
pub(super) use rustix::param::page_size;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

/// Maps `reserved` bytes of anonymous memory, aligned to a huge page. They read as zero.
pub(super) fn map(reserved: usize) -> io::Result<NonNull<u8>> {
    let raw = reserved + HUGE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), raw, prot, flags) }?;
    let address = start as usize;
    let aligned = address.next_multiple_of(HUGE);
    let head = aligned - address;
    if head > 0 {
        // SAFETY: the first `head` bytes of the mapping made above, to which no reference exists.
        unsafe { munmap(start, head) }?;
    }
    let tail = HUGE - head;
    if tail > 0 {
        // SAFETY: the last `tail` bytes of the mapping made above, to which no reference exists.
        unsafe { munmap((aligned + reserved) as *mut c_void, tail) }?;
    }
    NonNull::new(aligned as *mut u8).ok_or_else(|| io::Error::other("mapped at zero"))
}

/// Maps the first `reserved` bytes of `file` over anonymous memory.
///
/// # Safety
/// [`map`] has returned `base` for `reserved` bytes, and no reference to them exists.
pub(super) unsafe fn map_file(base: NonNull<u8>, reserved: usize, file: &File) -> io::Result<()> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: it replaces a mapping of the same length, to which no reference exists, as the caller promises.
    unsafe { mmap(base.as_ptr().cast(), reserved, prot, flags, file, 0) }?;
    Ok(())
}

/// Unmaps a Region. An error would leave it mapped: a leak.
///
/// # Safety
/// [`map`] has returned `base` for `reserved` bytes, and no reference to them exists any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, reserved: usize) {
    // SAFETY: the whole mapping, to which no references exist, as the caller promises.
    let _ = unsafe { munmap(base.as_ptr().cast(), reserved) };
}

/// Gives the system a hint about a part of a Region. If it is refused, only time or memory is lost.
pub(super) fn advise(first: NonNull<u8>, length: usize, hint: Hint) {
    let advice = match hint {
        Hint::HugePages => Advice::LinuxHugepage,
        Hint::NoHugePages => Advice::LinuxNoHugepage,
        Hint::MapNow => Advice::LinuxPopulateRead,
    };
    // SAFETY: advice of these kinds on our own mapping changes no contents.
    let _ = unsafe { madvise(first.as_ptr().cast(), length, advice) };
}

/// Locks the pages of a part of a Region when they are committed.
pub(super) fn lock(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: locking our own mapping changes no contents.
    Ok(unsafe { mlock_with(first.as_ptr().cast(), length, MlockFlags::ONFAULT) }?)
}

/// Waits until all stores to a part of a Region have reached the file.
pub(super) fn sync(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: our own mapping, whose contents it does not change.
    Ok(unsafe { msync(first.as_ptr().cast(), length, MsyncFlags::SYNC) }?)
}

/// Gives whole pages of anonymous memory back. They read as zero afterwards.
///
/// # Safety
/// The range lies in a Region, and all references to it are to atomics.
pub(super) unsafe fn give_back(first: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: the system's zeroes are one more writer to the atomics that the caller promises.
    Ok(unsafe { madvise(first.as_ptr().cast(), length, Advice::LinuxDontNeed) }?)
}

/// The same for memory that is locked. Linux 5.18 has advice for that; before, the part has to be unlocked.
///
/// # Safety
/// As for [`give_back`].
pub(super) unsafe fn give_back_locked(first: NonNull<u8>, length: usize) -> io::Result<()> {
    let start: *mut c_void = first.as_ptr().cast();
    // SAFETY: as in `give_back`, whose conditions the caller keeps.
    if unsafe { madvise(start, length, Advice::LinuxDontneedLocked) }.is_ok() {
        return Ok(());
    }
    // SAFETY: unlocking changes no contents.
    unsafe { munlock(start, length) }?;
    // SAFETY: the caller keeps its conditions.
    let given = unsafe { give_back(first, length) };
    // The same amount was locked before, so the limit allows it.
    lock(first, length)?;
    given
}
