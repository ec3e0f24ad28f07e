//! The file that a Region is a mapping of.
//!
//! It is as long as the Region, and takes no room where nothing was stored yet. What is stored there takes room at that moment, and if the file system has none
//! left the system kills the process. So whoever is about to use a range has it allocated first, and does without the range if there is none.

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// A file system that was full is not asked again for so many milliseconds: a refusal takes it longer than an eviction takes us.
const PAUSE_MS: u64 = 100;

/// The file of a Region. Relaxed, all of it: who asks once more or once less does no harm.
#[derive(Debug)]
pub(crate) struct Backing {
    file: Arc<File>,
    mapped: Stopwatch,
    /// Milliseconds after which the file system is asked again.
    pause_until: AtomicU64,
    refusals: AtomicU64,
    /// The file system does not know how to set room aside.
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

    /// Has the file system allocate a range. False if there is none.
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
                // Whatever else it is: what cannot be had is not used.
                Err(_) => {
                    self.refusals.fetch_add(1, Ordering::Relaxed);
                    self.pause_until.store(now_ms + PAUSE_MS, Ordering::Relaxed);
                    return false;
                }
            }
        }
    }

    /// How often there was no room.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Whether so many bytes of the file have room.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.file.metadata().is_ok_and(|file| file.blocks().saturating_mul(512) >= bytes as u64)
    }

    /// Makes a hole. False if the file system cannot make one.
    pub(crate) fn make_hole(&self, at: usize, length: usize) -> io::Result<bool> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&*self.file, flags, at as u64, length as u64) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
