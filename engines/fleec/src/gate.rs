//! The locks of `memclock` (FLeeC's MemCLOCK): the same table and the same eviction, with buckets that one thread at a time uses, to
//! read as well as to write. It is there to be compared with.
//!
//! A lock is for all buckets whose numbers have the same lowest bits. A bucket is a part of one with the same lowest bits as long as there are at least
//! as many buckets as locks, so that whatever is done to a bucket and to the one that it is divided from is done under one lock.

use crate::options::Buckets;
use crate::table::BUCKETS_FIRST;
use guira_sync::atomic::Padded;
use guira_sync::waits::Waits;
use std::sync::{Mutex, MutexGuard};

/// Locks there are.
const STRIPES: u64 = BUCKETS_FIRST;

/// What an operation passes on its way to a bucket.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// LOCK: buckets. Leaf; held by one operation for as long as it looks at a bucket or changes it. None: nobody waits here.
    stripes: Option<Box<[Padded<Mutex<()>>]>>,
    pub(crate) waits: Waits,
}

impl Gate {
    /// As buckets are to be used.
    pub(crate) fn new(buckets: Buckets) -> Self {
        let stripes = || (0..STRIPES).map(|_| Padded::default()).collect();
        let stripes = (buckets == Buckets::Locked).then(stripes);
        Gate { stripes, waits: Waits::default() }
    }

    /// Enters the bucket with this number, or that of a key with this hash. Nobody else is there until the answer is dropped.
    #[inline(always)]
    pub(crate) fn enter(&self, bucket_or_hash: u64) -> Option<MutexGuard<'_, ()>> {
        let stripes = self.stripes.as_deref()?;
        Some(self.waits.lock(&stripes[(bucket_or_hash % STRIPES) as usize]))
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_enters_a_locked_bucket_and_anybody_an_open_one() {
        let (locked, open) = (Gate::new(Buckets::Locked), Gate::new(Buckets::Open));
        assert!(open.enter(7).is_none());
        let first = locked.enter(7);
        assert!(first.is_some());
        drop(locked.enter(8));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(locked.enter(7 + STRIPES)));
            while locked.waits.count() == 0 {
                std::thread::yield_now();
            }
            assert!(!second.is_finished(), "bucket {} was divided from 7", 7 + STRIPES);
            drop(first);
        });
        assert_eq!(locked.waits.count(), 1);
    }
}
