//! One range of address space in which an engine keeps everything that lasts.

use crate::backing::Backing;
use crate::prefetch::prefetch;
use guira_sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use guira_sync::words::{self, Line, WORD};
use rustix::mm::{
    Advice, MapFlags, MlockFlags, MsyncFlags, ProtFlags, madvise, mlock_with, mmap, mmap_anonymous, msync,
    munlock, munmap,
};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A place in a [`Region`], in bytes from its start; always a multiple of 8 below 2^43. Place 0 belongs to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

/// The bits that an offset has: whatever number one is made from, a length can be added to it without overflow.
const OFFSET_BITS: u64 = (1 << 43) - WORD as u64;

impl Offset {
    /// The offset of the byte `bytes` from the start; rounded down to a multiple of 8, and modulo 2^43.
    #[inline(always)]
    pub const fn from_bytes(bytes: u64) -> Self {
        Offset(bytes & OFFSET_BITS)
    }

    /// Distance from the start, in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Distance from the start, in units of 8 bytes.
    #[inline(always)]
    pub const fn units(self) -> u64 {
        self.0 >> 3
    }

    /// The offset of unit `units`.
    #[inline(always)]
    pub const fn from_units(units: u64) -> Self {
        Self::from_bytes(units << 3)
    }

    /// The place `bytes` further on.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Self {
        Self::from_bytes(self.0.wrapping_add(bytes as u64))
    }
}

/// Whether the Region asks for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Ask; the system decides. Fewer TLB misses, memory committed in steps of 2 MiB.
    Ask,
    /// Do not ask: right for small caches, where a half-used huge page is a large part of the whole.
    No,
}

/// A range of address space, reserved at once and committed by the system as it is touched.
///
/// It is never truncated or unmapped in part while it lives, so any offset below [`Region::reserved`] can be
/// read at any time; memory that was given back reads as zero.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    reserved: usize,
    swap: Swap,
    /// What it is a mapping of, if not of anonymous memory.
    file: Option<Backing>,
}

/// Whether the system may write what was committed to its swap space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swap {
    Allowed,
    Never,
}

// SAFETY: the mapping belongs to the Region alone and is reached only through shared references to atomics, or
// through `bytes`, whose caller answers for races.
unsafe impl Send for Region {}
// SAFETY: as above; nothing in it is tied to a thread.
unsafe impl Sync for Region {}

/// Alignment of a Region and of whatever should start on a huge page.
const HUGE: usize = 2 << 20;
/// What the system commits at once, and file systems give.
const SYSTEM_PAGE: usize = 4096;

impl Region {
    /// Reserves `bytes` (rounded up to 2 MiB) of zeroed anonymous memory. Nothing is committed until touched.
    ///
    /// # Errors
    /// What `mmap` says, usually that the address space or overcommit limit is exhausted.
    pub fn anonymous(bytes: usize, huge: HugePages) -> io::Result<Self> {
        let reserved = Self::rounded(bytes);
        let base = Self::reserve(reserved)?;
        Ok(Self::new(base, reserved, huge, None))
    }

    /// Maps the first `bytes` (rounded up to 2 MiB) of a file, which is as long, to be shared with whoever maps it later: what is
    /// stored stays in the file.
    ///
    /// # Errors
    /// What `mmap` says.
    pub(crate) fn on_file(file: Arc<File>, bytes: usize, huge: HugePages) -> io::Result<Self> {
        let reserved = Self::rounded(bytes);
        let base = Self::reserve(reserved)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: it takes the place of the reservation just made, of which no reference exists.
        let mapped = unsafe { mmap(base.as_ptr().cast(), reserved, prot, flags, &*file, 0) };
        let region = Self::new(base, reserved, huge, Some(Backing::new(file)));
        mapped?;
        Ok(region)
    }

    /// What `bytes` are rounded up to.
    pub(crate) const fn rounded(bytes: usize) -> usize {
        let rounded = bytes.next_multiple_of(HUGE);
        if rounded < HUGE { HUGE } else { rounded }
    }

    fn new(base: NonNull<u8>, reserved: usize, huge: HugePages, file: Option<Backing>) -> Self {
        if huge == HugePages::Ask {
            // SAFETY: advice on our own mapping changes no contents. Refusal costs speed only.
            let _ = unsafe { madvise(base.as_ptr().cast(), reserved, Advice::LinuxHugepage) };
        }
        Region { base, reserved, swap: Swap::Allowed, file }
    }

    /// Maps `reserved` bytes of anonymous memory that begin at a huge page.
    fn reserve(reserved: usize) -> io::Result<NonNull<u8>> {
        let raw = reserved + HUGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), raw, prot, flags) }?;
        let address = start as usize;
        let aligned = address.next_multiple_of(HUGE);
        let head = aligned - address;
        if head > 0 {
            // SAFETY: the first `head` bytes of the mapping just made, of which no reference exists.
            unsafe { munmap(start, head) }?;
        }
        let tail = HUGE - head;
        if tail > 0 {
            // SAFETY: the last `tail` bytes of the mapping just made, of which no reference exists.
            unsafe { munmap((aligned + reserved) as *mut c_void, tail) }?;
        }
        NonNull::new(aligned as *mut u8).ok_or_else(|| io::Error::other("mapped at zero"))
    }

    /// How many bytes are reserved.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The word at `at`.
    ///
    /// # Panics
    /// If `at` lies outside the Region.
    #[inline(always)]
    pub fn word(&self, at: Offset) -> &AtomicU64 {
        assert!(at.bytes() + WORD <= self.reserved);
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at.bytes()) };
        // SAFETY: inside the mapping, aligned (offsets are multiples of 8), and valid as long as `self`. All
        // access to Region memory is atomic, but for `bytes`, whose contract excludes writers.
        unsafe { first.cast().as_ref() }
    }

    /// The half of a word at byte `at`, a multiple of 4.
    ///
    /// # Panics
    /// If `at` lies outside the Region, or is no multiple of 4.
    #[inline(always)]
    pub fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at + WORD / 2 <= self.reserved && at.is_multiple_of(WORD / 2));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        // SAFETY: inside the mapping, aligned, and valid as long as `self`. Who uses halves of a word uses no whole ones there.
        unsafe { first.cast().as_ref() }
    }

    /// The byte at `at`.
    ///
    /// # Panics
    /// If `at` lies outside the Region.
    #[inline(always)]
    pub fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < self.reserved);
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        // SAFETY: inside the mapping, and valid as long as `self`. Who uses bytes of a word uses no whole ones there.
        unsafe { first.cast().as_ref() }
    }

    /// `count` words from `at` on, or `None` if they do not all lie in the Region: `at` may come from a racy read.
    #[inline(always)]
    pub fn words(&self, at: Offset, count: usize) -> Option<&[AtomicU64]> {
        let end = at.bytes().checked_add(count * WORD)?;
        if end > self.reserved {
            return None;
        }
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at.bytes()) };
        // SAFETY: as for `word`, for `count` words, all inside the mapping.
        Some(unsafe { std::slice::from_raw_parts(first.as_ptr().cast(), count) })
    }

    /// The cache line with the number `line`, counted from the start.
    ///
    /// # Panics
    /// If it does not lie in the Region.
    #[inline(always)]
    pub fn line(&self, line: usize) -> &Line {
        assert!(line < self.reserved / size_of::<Line>());
        // SAFETY: the line lies in the mapping, as checked.
        let first = unsafe { self.base.add(line * size_of::<Line>()) };
        // SAFETY: as for `word`, for 8 words, all inside the mapping.
        unsafe { first.cast().as_ref() }
    }

    /// The two cache lines with the numbers `2 * pair` and one more, counted from the start.
    ///
    /// # Panics
    /// If they do not lie in the Region.
    #[inline(always)]
    pub fn line_pair(&self, pair: usize) -> &[Line; 2] {
        assert!(pair < self.reserved / size_of::<[Line; 2]>());
        // SAFETY: the lines lie in the mapping, as checked.
        let first = unsafe { self.base.add(pair * size_of::<[Line; 2]>()) };
        // SAFETY: as for `word`, for 16 words, all inside the mapping.
        unsafe { first.cast().as_ref() }
    }

    /// `N` words from `at` on, or `None` if they do not all lie in the Region: `at` may come from a racy read.
    #[inline(always)]
    pub fn window<const N: usize>(&self, at: Offset) -> Option<&[AtomicU64; N]> {
        if at.bytes() + N * WORD > self.reserved {
            return None;
        }
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at.bytes()) };
        // SAFETY: as for `word`, for `N` words, all inside the mapping.
        Some(unsafe { first.cast().as_ref() })
    }

    /// Asks the processor to fetch the cache line that holds byte `at`. Any `at` is allowed.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        prefetch(self.base.as_ptr().wrapping_add(at));
    }

    /// `length` bytes from `at` on, as plain memory.
    ///
    /// # Safety
    /// Nobody stores to these bytes while the slice lives.
    ///
    /// # Panics
    /// If they do not all lie in the Region.
    pub unsafe fn bytes(&self, at: Offset, length: usize) -> &[u8] {
        assert!(at.bytes() + length <= self.reserved);
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at.bytes()) };
        // SAFETY: inside the mapping; the caller excludes writers.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), length) }
    }

    /// Sees to it that whatever is stored into this range finds room. False if it would not, since the file system on which the Region lies is full:
    /// then nothing may be stored there. In memory there is nothing to do: who has no more of it is killed wherever he is.
    #[must_use]
    pub fn back(&self, at: usize, length: usize) -> bool {
        let Some(file) = &self.file else {
            return true;
        };
        let from = at / SYSTEM_PAGE * SYSTEM_PAGE;
        let to = (at + length).next_multiple_of(SYSTEM_PAGE).min(self.reserved);
        file.allocate(from, to.saturating_sub(from))
    }

    /// How often the file system had no room.
    pub fn refusals(&self) -> u64 {
        self.file.as_ref().map_or(0, Backing::refusals)
    }

    /// Whether so many bytes of it have room: a file that was copied may have lost some of it.
    pub fn takes(&self, bytes: usize) -> bool {
        self.file.as_ref().is_none_or(|file| file.takes(bytes))
    }

    /// The addresses that it is mapped to.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let first = self.base.as_ptr() as usize;
        first..first + self.reserved
    }

    /// Asks the system not to commit this range in huge pages, but only what is touched of it. `at` and `length` are multiples of
    /// 4096. Refusal costs memory only.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn commit_finely(&self, at: usize, length: usize) {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        // SAFETY: advice on our own mapping changes no contents.
        let _ = unsafe { madvise(first.as_ptr().cast(), length, Advice::LinuxNoHugepage) };
    }

    /// Asks the system to map this range now rather than page by page as it is looked at. `at` and `length` are multiples of 4096. Refusal
    /// costs time only.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn map_now(&self, at: usize, length: usize) {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        // SAFETY: advice on our own mapping changes no contents.
        let _ = unsafe { madvise(first.as_ptr().cast(), length, Advice::LinuxPopulateRead) };
    }

    /// Keeps in memory whatever is committed from now on: the system never writes it to swap space. What is not touched stays
    /// uncommitted all the same.
    ///
    /// # Errors
    /// What `mlock2` says; usually that the limit of locked memory (`ulimit -l`) is less than the whole Region.
    pub fn lock(&mut self) -> io::Result<()> {
        // SAFETY: locking our own mapping changes no contents.
        unsafe { mlock_with(self.base.as_ptr().cast(), self.reserved, MlockFlags::ONFAULT) }?;
        self.swap = Swap::Never;
        Ok(())
    }

    /// Waits until the file holds all that was stored.
    ///
    /// # Errors
    /// What `msync` says.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: our own mapping, whose contents it does not change.
        unsafe { msync(self.base.as_ptr().cast(), self.reserved, MsyncFlags::SYNC) }?;
        Ok(())
    }

    /// Gives memory back to the system; it reads as zero from now on. `at` and `length` are multiples of 4096. A file gets a hole; where
    /// the file system cannot make one, zeroes, which take up room in the file, but memory only as long as the system has it to spare.
    ///
    /// # Errors
    /// What `madvise` says, or `fallocate`.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn discard(&self, at: usize, length: usize) -> io::Result<()> {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        let first: *mut c_void = first.as_ptr().cast();
        if let Some(file) = &self.file {
            if !file.make_hole(at, length)? {
                self.erase(at, length);
            }
            return Ok(());
        }
        if self.swap == Swap::Never {
            return discard_locked(first, length);
        }
        // SAFETY: our own mapping; its words are atomics, to which the system's zeroes look like one more writer.
        unsafe { madvise(first, length, Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

impl Region {
    /// Stores zeroes.
    fn erase(&self, at: usize, length: usize) {
        for at in (at..at + length).step_by(WORD) {
            words::store(self.word(Offset::from_bytes(at as u64)), 0);
        }
    }
}

/// Gives back a part of our own mapping that is locked. Since Linux 5.18 there is advice for that; before, it has to be unlocked.
fn discard_locked(first: *mut c_void, length: usize) -> io::Result<()> {
    // SAFETY: as in `Region::discard`.
    if unsafe { madvise(first, length, Advice::LinuxDontneedLocked) }.is_ok() {
        return Ok(());
    }
    // SAFETY: unlocking changes no contents.
    unsafe { munlock(first, length) }?;
    // SAFETY: as in `Region::discard`.
    let discarded = unsafe { madvise(first, length, Advice::LinuxDontNeed) };
    // SAFETY: locking changes no contents. As much was locked a moment ago, so that the limit allows it.
    unsafe { mlock_with(first, length, MlockFlags::ONFAULT) }?;
    Ok(discarded?)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody can reach any more. An error would leave it mapped: a leak.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_first_keeps_what_is_stored_and_is_zero_after_discard() {
        let region = Region::anonymous(3 << 20, HugePages::No).unwrap();
        assert_eq!(region.reserved(), 4 << 20);
        let at = Offset::from_bytes(8192);
        assert_eq!(words::load(region.word(at)), 0);
        words::store(region.word(at), 7);
        assert_eq!(words::load(region.word(at)), 7);
        region.discard(8192, 4096).unwrap();
        assert_eq!(words::load(region.word(at)), 0);
    }

    #[test]
    fn where_holes_cannot_be_made_zeroes_are_stored() {
        let region = Region::anonymous(1 << 20, HugePages::No).unwrap();
        let word = |at: u64| region.word(Offset::from_bytes(at));
        for at in [4088, 4096, 8184, 8192] {
            words::store(word(at), 7);
        }
        region.erase(4096, 4096);
        assert_eq!([4088, 4096, 8184, 8192].map(|at| words::load(word(at))), [7, 0, 0, 7]);
    }

    #[test]
    fn an_offset_outside_is_refused_where_it_may_come_from_a_race() {
        let region = Region::anonymous(1, HugePages::No).unwrap();
        assert!(region.words(Offset::from_bytes((2 << 20) - 8), 1).is_some());
        assert!(region.words(Offset::from_bytes((2 << 20) - 8), 2).is_none());
        assert!(region.words(Offset::from_units((1 << 40) - 1), 1).is_none());
    }

    #[test]
    fn a_locked_region_can_be_used_and_discarded_and_a_limit_that_forbids_it_is_told() {
        let mut region = Region::anonymous(4 << 20, HugePages::No).unwrap();
        if let Err(error) = region.lock() {
            assert!(matches!(error.raw_os_error(), Some(1 | 12)), "the limit of locked memory: {error}");
            return;
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        assert_ne!(locked.trim(), "0 kB");
        let at = Offset::from_bytes(1 << 20);
        words::store(region.word(at), 7);
        region.discard(1 << 20, 4096).unwrap();
        assert_eq!(words::load(region.word(at)), 0);
    }

    #[test]
    fn a_terabyte_can_be_reserved_at_once() {
        assert!(Region::anonymous(1 << 40, HugePages::Ask).is_ok());
    }
}
