//! Memory that two processes have.

use guira_sync::atomic::AtomicU64;
use guira_sync::words::WORD;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;

/// A mapping of memory that another process may have too.
#[derive(Debug)]
pub(super) struct Shared {
    base: NonNull<u8>,
    words: usize,
}

// SAFETY: the mapping belongs to this alone and is reached only as atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// New memory, of zeroes, and what others map it by. Nobody can make it shorter under our feet.
    pub(super) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("guira-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (words * WORD) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, words)?, file))
    }

    /// The memory that somebody else has created.
    pub(super) fn open(file: &OwnedFd, words: usize) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let is_long = u64::try_from(fstat(file)?.st_size).is_ok_and(|size| size >= (words * WORD) as u64);
        if !is_sealed || !is_long {
            return Err(io::Error::other("the memory for the ring is not what the server has promised"));
        }
        Self::map(file, words)
    }

    fn map(file: &OwnedFd, words: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system picks a place that nobody has.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), words * WORD, prot, MapFlags::SHARED, file.as_fd(), 0)? };
        let base = NonNull::new(mapped.cast()).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Shared { base, words })
    }

    /// All of it, in words. Whoever else has it may change any at any time.
    #[inline(always)]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is aligned to pages, as long as that, and lives as long as `self`: it is sealed against being made shorter.
        // It is reached as atomics only, which any bytes are good for.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing of it is borrowed any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.words * WORD) };
        debug_assert!(unmapped.is_ok());
    }
}
