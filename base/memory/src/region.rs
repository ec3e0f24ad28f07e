//! A range of address space that holds all persistent state of an engine.

use crate::backing::Backing;
use crate::prefetch::prefetch;
use guira_sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use guira_sync::words::{self, Line, WORD};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use system::page_size;

#[cfg_attr(miri, path = "region/miri.rs")]
mod system;

/// Advice for the system about a range.
#[derive(Clone, Copy, Debug)]
enum Hint {
    HugePages,
    NoHugePages,
    /// Map the range now rather than by page faults.
    MapNow,
}

/// An address in a [`Region`], in bytes from its start; always a multiple of 8 below 2^43. Offset 0 is never
/// allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

/// The bits of an offset: a length can be added to any offset without overflow.
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

    /// The offset `bytes` further on.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Self {
        Self::from_bytes(self.0.wrapping_add(bytes as u64))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Requested from the system, which decides. Fewer TLB misses, but memory is committed in steps of 2 MiB.
    Requested,
    /// Do not request them: better for small caches, where a half-used huge page is a large part of the whole.
    No,
}

impl HugePages {
    /// Huge pages, if they have 2 MiB. A system with pages of 16 or 64 KiB, as arm64 may have, would commit 32 or
    /// 512 MiB for one store.
    pub fn of_2_mib() -> Self {
        if page_size() == SMALLEST_PAGE { HugePages::Requested } else { HugePages::No }
    }

    /// The system commits memory in steps of this many bytes.
    pub fn commit_step(self) -> usize {
        match self {
            HugePages::Requested => HUGE,
            HugePages::No => page_size(),
        }
    }
}

/// A range of address space, reserved at once and committed by the system as it is touched.
///
/// It is never truncated or partly unmapped while it lives, so any offset below [`Region::reserved`] can be read at
/// any time; memory that was given back reads as zero.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    reserved: usize,
    swap: Swap,
    /// The file that it maps; `None` for anonymous memory.
    file: Option<Backing>,
}

/// Whether the system may swap out committed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swap {
    Allowed,
    Never,
}

// SAFETY: the Region owns the mapping and accesses it only through shared references to atomics, or through `bytes`,
// whose caller excludes races.
unsafe impl Send for Region {}
// SAFETY: as above; nothing in it is tied to a thread.
unsafe impl Sync for Region {}

/// The alignment of a Region, and of everything that should start on a huge page.
const HUGE: usize = 2 << 20;
/// The smallest page that a system commits memory in. Its pages may have 16 or 64 KiB.
const SMALLEST_PAGE: usize = 4096;

impl Region {
    /// Reserves `bytes` (rounded up to 2 MiB) of zeroed anonymous memory. Nothing is committed until touched.
    ///
    /// # Errors
    /// The error of `mmap`, usually that the address space or overcommit limit is exhausted.
    pub fn anonymous(bytes: usize, huge: HugePages) -> io::Result<Self> {
        let reserved = Self::rounded(bytes);
        let base = system::map(reserved)?;
        Ok(Self::new(base, reserved, huge, None))
    }

    /// Maps the first `bytes` (rounded up to 2 MiB) of a file that is at least as long. Stores go to the file.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub(crate) fn on_file(file: Arc<File>, bytes: usize, huge: HugePages) -> io::Result<Self> {
        let reserved = Self::rounded(bytes);
        let base = system::map(reserved)?;
        // SAFETY: the memory that was mapped above, to which no reference exists.
        let mapped = unsafe { system::map_file(base, reserved, &file) };
        let region = Self::new(base, reserved, huge, Some(Backing::new(file)));
        mapped?;
        Ok(region)
    }

    pub(crate) const fn rounded(bytes: usize) -> usize {
        let rounded = bytes.next_multiple_of(HUGE);
        if rounded < HUGE { HUGE } else { rounded }
    }

    fn new(base: NonNull<u8>, reserved: usize, huge: HugePages, file: Option<Backing>) -> Self {
        if huge == HugePages::Requested {
            system::advise(base, reserved, Hint::HugePages);
        }
        Region { base, reserved, swap: Swap::Allowed, file }
    }

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
        // SAFETY: inside the mapping, aligned, and valid as long as `self`. A word that is accessed by halves is
        // never accessed whole.
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
        // SAFETY: inside the mapping, and valid as long as `self`. A word that is accessed by bytes is never accessed
        // whole.
        unsafe { first.cast().as_ref() }
    }

    /// `count` words from `at` on, or `None` if they are not all in the Region: `at` may come from a racy read.
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

    /// Cache line number `line`, counted from the start.
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

    /// Cache lines number `2 * pair` and `2 * pair + 1`, counted from the start.
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

    /// `N` words from `at` on, or `None` if they are not all in the Region: `at` may come from a racy read.
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

    /// Prefetches the cache line that holds byte `at`. Any `at` is allowed.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        prefetch(self.base.as_ptr().wrapping_add(at));
    }

    /// The bytes of `range`, which is counted from `at` on, as plain memory.
    ///
    /// # Safety
    /// No thread stores to these bytes while the slice lives.
    ///
    /// # Panics
    /// If they do not all lie in the Region.
    pub unsafe fn bytes(&self, at: Offset, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && at.bytes() + range.end <= self.reserved);
        // SAFETY: the range begins in the mapping, as checked.
        let first = unsafe { self.base.add(at.bytes() + range.start) };
        // SAFETY: inside the mapping; the caller excludes writers.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), range.len()) }
    }

    /// Allocates space in the file for this range. False if the file system is full: then the range must not be
    /// stored to. Anonymous memory needs no allocation: a process that exceeds it is killed in any case.
    #[must_use]
    pub fn back(&self, at: usize, length: usize) -> bool {
        let Some(file) = &self.file else {
            return true;
        };
        // A store to a page allocates all of it.
        let from = at / page_size() * page_size();
        let to = (at + length).next_multiple_of(page_size()).min(self.reserved);
        file.allocate(from, to.saturating_sub(from))
    }

    pub fn refusals(&self) -> u64 {
        self.file.as_ref().map_or(0, Backing::refusals)
    }

    /// Whether at least `bytes` of the file are allocated: a copied file may have become sparse.
    pub fn takes(&self, bytes: usize) -> bool {
        self.file.as_ref().is_none_or(|file| file.takes(bytes))
    }

    pub(crate) fn addresses(&self) -> Range<usize> {
        let first = self.base.as_ptr() as usize;
        first..first + self.reserved
    }

    /// Tells the system not to commit this range in huge pages, but only touched pages. `at` and `length` are
    /// multiples of 4096. If it is refused, only memory is lost.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn commit_finely(&self, at: usize, length: usize) {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        system::advise(first, length, Hint::NoHugePages);
    }

    /// Tells the system to map this range now rather than by page faults. `at` and `length` are multiples of 4096. If
    /// it is refused, only time is lost.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn map_now(&self, at: usize, length: usize) {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        // SAFETY: `at` lies in the mapping, as checked.
        let first = unsafe { self.base.add(at) };
        system::advise(first, length, Hint::MapNow);
    }

    /// Has the system commit this range now, by a store to each of its pages that changes nothing. The range is not used
    /// yet, or only by words.
    ///
    /// One page after another, and not by advice: that would hold a lock which other threads' mappings wait for.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn commit(&self, at: usize, length: usize) {
        for page in (at / page_size() * page_size()..at + length).step_by(page_size()) {
            let word = self.word(Offset::from_bytes(page as u64));
            // Whatever it comes to: what is not zero was committed before.
            let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Locks all memory that is committed from now on: the system never swaps it out. Untouched memory stays
    /// uncommitted.
    ///
    /// # Errors
    /// The error of `mlock2`; usually that the limit of locked memory (`ulimit -l`) is less than the whole Region.
    pub fn lock(&mut self) -> io::Result<()> {
        system::lock(self.base, self.reserved)?;
        self.swap = Swap::Never;
        Ok(())
    }

    /// Waits until all stores have reached the file.
    ///
    /// # Errors
    /// The error of `msync`.
    pub(crate) fn sync(&self) -> io::Result<()> {
        system::sync(self.base, self.reserved)
    }

    /// Gives memory back to the system; it reads as zero from now on. `at` and `length` are multiples of 4096. Of
    /// larger pages of the system only those that lie wholly in the range are given back, and the rest is erased. A
    /// file gets a hole; if the file system does not support holes, zeroes, which take space in the file, but memory
    /// only as long as the system can spare it.
    ///
    /// # Errors
    /// The error of `madvise` or `fallocate`.
    ///
    /// # Panics
    /// If the range does not lie in the Region.
    pub fn discard(&self, at: usize, length: usize) -> io::Result<()> {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.reserved));
        if let Some(file) = &self.file {
            if !file.make_hole(at, length)? {
                self.erase(at, length);
            }
            return Ok(());
        }
        let [before, whole, after] = in_pages(at..at + length, page_size());
        self.discard_pages(whole)?;
        self.erase(before.start, before.len());
        self.erase(after.start, after.len());
        Ok(())
    }
}

/// A range in three parts: the whole pages in it, and what lies before and after those. The system would give back every
/// page that a range ends in.
fn in_pages(range: Range<usize>, page: usize) -> [Range<usize>; 3] {
    let first = range.start.next_multiple_of(page).min(range.end);
    let last = (range.end / page * page).max(first);
    [range.start..first, first..last, last..range.end]
}

impl Region {
    /// Gives whole pages of anonymous memory back. The range lies in the Region.
    fn discard_pages(&self, pages: Range<usize>) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping, as the caller has checked.
        let first = unsafe { self.base.add(pages.start) };
        if self.swap == Swap::Never {
            // SAFETY: the range lies in the Region, which is only accessed by atomics, but for `bytes`, whose contract
            // excludes writers.
            return unsafe { system::give_back_locked(first, pages.len()) };
        }
        // SAFETY: as above.
        unsafe { system::give_back(first, pages.len()) }
    }

    fn erase(&self, at: usize, length: usize) {
        for at in (at..at + length).step_by(WORD) {
            words::store(self.word(Offset::from_bytes(at as u64)), 0);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: all references to it have borrowed the Region.
        unsafe { system::unmap(self.base, self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_first_keeps_stores_and_is_zero_after_discard() {
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
    fn memory_beside_what_is_discarded_is_kept_whatever_the_pages_of_the_system() {
        let region = Region::anonymous(1 << 20, HugePages::No).unwrap();
        let word = |at: usize| region.word(Offset::from_bytes(at as u64));
        let ends = [(0, 4096), (4096, 4096), (65_536, 4096), (61_440, 73_728), (8192, 258_048), (4096, 0)];
        for (at, length) in ends {
            (0..1 << 20).step_by(4096).for_each(|at| words::store(word(at), 7));
            region.discard(at, length).unwrap();
            for place in (0..1 << 20).step_by(4096) {
                let expected = if (at..at + length).contains(&place) { 0 } else { 7 };
                assert_eq!(words::load(word(place)), expected, "{place} of {at} and {length}");
            }
        }
    }

    #[test]
    fn only_whole_pages_of_a_range_are_given_back() {
        assert_eq!(in_pages(4096..12_288, 4096), [4096..4096, 4096..12_288, 12_288..12_288]);
        assert_eq!(in_pages(4096..204_800, 65_536), [4096..65_536, 65_536..196_608, 196_608..204_800]);
        assert_eq!(in_pages(0..4096, 65_536), [0..0, 0..0, 0..4096]);
        assert_eq!(in_pages(4096..8192, 65_536), [4096..8192, 8192..8192, 8192..8192]);
        assert_eq!(in_pages(8192..69_632, 65_536), [8192..65_536, 65_536..65_536, 65_536..69_632]);
    }

    #[test]
    fn memory_that_is_committed_ahead_keeps_what_is_there() {
        let region = Region::anonymous(1 << 20, HugePages::No).unwrap();
        let word = |at: u64| region.word(Offset::from_bytes(at));
        words::store(word(4096), 7);
        words::store(word(8200), 8);
        region.commit(4104, 8192);
        assert_eq!([0, 4096, 8192, 8200, 12_288].map(|at| words::load(word(at))), [0, 7, 0, 8, 0]);
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
    #[cfg_attr(miri, ignore = "it needs the memory of the system")]
    fn a_locked_region_can_be_used_and_discarded_and_a_low_limit_is_an_error() {
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
    #[cfg_attr(miri, ignore = "it needs the memory of the system")]
    fn a_terabyte_can_be_reserved_at_once() {
        assert!(Region::anonymous(1 << 40, HugePages::Requested).is_ok());
    }
}
