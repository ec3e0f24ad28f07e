//! The file that a Region maps.
//!
//! It is as long as the Region, and sparse: a range takes space on disk when it is first stored to, and if the file
//! system is full at that moment the kernel kills the process. So a caller allocates a range before it uses it, and
//! does without the range if that fails.

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Milliseconds before a full file system is asked again: a failing `fallocate` takes longer than an eviction.
const PAUSE_MS: u64 = 100;

/// The file of a Region. All atomics are relaxed: an extra or a missing attempt to allocate does no harm.
#[derive(Debug)]
pub(crate) struct Backing {
    file: Arc<File>,
    mapped: Stopwatch,
    /// The time, in milliseconds, before which the file system is not asked again.
    pause_until: AtomicU64,
    refusals: AtomicU64,
    /// The file system does not support `fallocate`.
    is_unable: AtomicBool,
}

impl Backing {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Backing {
            file,
            mapped: Stopwatch::start(),
            pause_until: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            is_unable: AtomicBool::new(false),
        }
    }

    /// Allocates a range. False if the file system has no space for it.
    pub(crate) fn allocate(&self, at: usize, length: usize) -> bool {
        if length == 0 || self.is_unable.load(Ordering::Relaxed) {
            return true;
        }
        let now_ms = self.mapped.elapsed().as_millis() as u64;
        if now_ms < self.pause_until.load(Ordering::Relaxed) {
            return false;
        }
        loop {
            match fallocate(&*self.file, FallocateFlags::empty(), at as u64, length as u64) {
                Ok(()) => return true,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.is_unable.store(true, Ordering::Relaxed);
                    return true;
                }
                // Whatever the error is: a range that cannot be allocated is not used.
                Err(_) => {
                    self.refusals.fetch_add(1, Ordering::Relaxed);
                    self.pause_until.store(now_ms + PAUSE_MS, Ordering::Relaxed);
                    return false;
                }
            }
        }
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Whether at least `bytes` of the file are allocated.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.file.metadata().is_ok_and(|file| file.blocks().saturating_mul(512) >= bytes as u64)
    }

    /// Punches a hole. False if the file system does not support it.
    pub(crate) fn make_hole(&self, at: usize, length: usize) -> io::Result<bool> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&*self.file, flags, at as u64, length as u64) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
