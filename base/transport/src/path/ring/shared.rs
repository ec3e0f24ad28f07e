//! Memory shared with another process.

use guira_sync::atomic::AtomicU64;
use guira_sync::words::WORD;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;

/// A mapping of memory that another process may have mapped too.
#[derive(Debug)]
pub(super) struct Shared {
    base: NonNull<u8>,
    words: usize,
}

// SAFETY: the mapping is owned and accessed only as atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// New memory, zeroed, and the descriptor by which others map it. It is sealed, so that it cannot be truncated.
    pub(super) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("guira-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (words * WORD) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, words)?, file))
    }

    /// Maps memory that another process created.
    pub(super) fn open(file: &OwnedFd, words: usize) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let is_long = u64::try_from(fstat(file)?.st_size).is_ok_and(|size| size >= (words * WORD) as u64);
        if !is_sealed || !is_long {
            return Err(io::Error::other("the memory of the ring is not as the server announced"));
        }
        Self::map(file, words)
    }

    fn map(file: &OwnedFd, words: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses a free address.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), words * WORD, prot, MapFlags::SHARED, file.as_fd(), 0)? };
        let base = NonNull::new(mapped.cast()).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Shared { base, words })
    }

    /// The memory, as words. The other process may change any of them at any time.
    #[inline(always)]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is aligned to pages, has this length, and lives as long as `self`: it is sealed against
        // truncation. It is accessed only as atomics, for which any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.words * WORD) };
        debug_assert!(unmapped.is_ok());
    }
}
