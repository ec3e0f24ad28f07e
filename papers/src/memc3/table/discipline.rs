//! Who waits for whom. In all of them there is one writer at a time, as in the paper.

use std::sync::{Mutex, PoisonError};

use guira_sync::atomic::Backoff;
use guira_sync::version::{DEFAULT_STRIPES, Versions};

/// How readers of a table and its one writer get along.
pub(in crate::memc3) trait Discipline: Sync {
    /// With `counters` version counters, if it has any.
    fn new(counters: usize) -> Self;

    /// Does the work of the one writer.
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R;

    /// Changes something about a key that belongs to these buckets.
    fn change<R>(&self, buckets: [u32; 2], change: impl FnOnce() -> R) -> R;

    /// Looks for a key that belongs to these buckets, and says how often it had to begin anew.
    fn read<R>(&self, buckets: [u32; 2], look: impl FnMut() -> R) -> (R, u32);
}

/// No locks: there is one thread.
#[derive(Debug)]
pub(in crate::memc3) struct Alone;

impl Discipline for Alone {
    fn new(_counters: usize) -> Self {
        Self
    }

    #[inline(always)]
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline(always)]
    fn change<R>(&self, _buckets: [u32; 2], change: impl FnOnce() -> R) -> R {
        change()
    }

    #[inline(always)]
    fn read<R>(&self, _buckets: [u32; 2], mut look: impl FnMut() -> R) -> (R, u32) {
        (look(), 0)
    }
}

/// One lock for everything, memcached's `cache_lock`.
#[derive(Debug)]
pub(in crate::memc3) struct GlobalLock {
    /// LOCK: the whole table. A leaf.
    lock: Mutex<()>,
}

impl Discipline for GlobalLock {
    fn new(_counters: usize) -> Self {
        Self { lock: Mutex::new(()) }
    }

    #[inline(always)]
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    #[inline(always)]
    fn change<R>(&self, _buckets: [u32; 2], change: impl FnOnce() -> R) -> R {
        change()
    }

    #[inline(always)]
    fn read<R>(&self, _buckets: [u32; 2], mut look: impl FnMut() -> R) -> (R, u32) {
        (self.alone(&mut look), 0)
    }
}

/// A lock for each stripe of buckets, taken by readers too: both buckets of a key, in ascending order.
#[derive(Debug)]
pub(in crate::memc3) struct BucketLocks {
    /// LOCK: the writer. Held while stripes are taken.
    writer: Mutex<()>,
    stripes: Versions,
}

impl Discipline for BucketLocks {
    fn new(counters: usize) -> Self {
        Self { writer: Mutex::new(()), stripes: Versions::new(counters) }
    }

    #[inline(always)]
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    #[inline(always)]
    fn change<R>(&self, buckets: [u32; 2], change: impl FnOnce() -> R) -> R {
        let _locked = self.stripes.lock(buckets.map(|bucket| self.stripes.stripe(bucket)));
        change()
    }

    #[inline(always)]
    fn read<R>(&self, buckets: [u32; 2], mut look: impl FnMut() -> R) -> (R, u32) {
        (self.change(buckets, &mut look), 0)
    }
}

/// A version counter for each key, shared by those that hash to it (section 3.2.1). A key is known by its pair of
/// buckets, which the writer knows too when it moves an entry.
#[derive(Debug)]
pub(in crate::memc3) struct Optimistic {
    /// LOCK: the writer. Held while a counter is taken.
    writer: Mutex<()>,
    versions: Versions,
}

impl Optimistic {
    #[inline(always)]
    fn counter(buckets: [u32; 2]) -> u32 {
        buckets[0].wrapping_add(buckets[1])
    }
}

impl Discipline for Optimistic {
    fn new(counters: usize) -> Self {
        Self { writer: Mutex::new(()), versions: Versions::new(counters) }
    }

    #[inline(always)]
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    #[inline(always)]
    fn change<R>(&self, buckets: [u32; 2], change: impl FnOnce() -> R) -> R {
        let _odd = self.versions.lock([self.versions.stripe(Self::counter(buckets))]);
        change()
    }

    #[inline(always)]
    fn read<R>(&self, buckets: [u32; 2], mut look: impl FnMut() -> R) -> (R, u32) {
        let stripe = self.versions.stripe(Self::counter(buckets));
        let (mut backoff, mut repeats) = (Backoff::default(), 0);
        loop {
            if let Some([version, _]) = self.versions.try_begin_both([stripe; 2]) {
                let result = look();
                Versions::validate();
                if self.versions.same(stripe, version) {
                    return (result, repeats);
                }
            }
            repeats += 1;
            backoff.wait();
        }
    }
}

/// As many counters as in the paper.
pub(super) const COUNTERS: usize = DEFAULT_STRIPES;
