//! The locks of `memclock` (FLeeC's MemCLOCK): the same table and the same eviction, but one thread at a time uses a bucket, to read as well
//! as to write. It exists for comparison.
//!
//! A lock serves all buckets whose numbers have the same lowest bits. A bucket is split from one with the same lowest bits as long as there are at least
//! as many buckets as locks, so one lock covers a bucket and the one that it is split from.

use super::order::BUCKETS_FIRST;
use crate::options::Buckets;
use guira_sync::atomic::Padded;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::waits::Waits;

const STRIPES: u64 = BUCKETS_FIRST;

/// Every operation passes it on the way to a bucket.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// LOCK: buckets. Leaf; held by one operation for as long as it looks at a bucket or changes it. `None`: nothing waits here.
    stripes: Option<Box<[Padded<Mutex<()>>]>>,
    waits: Waits,
}

impl Gate {
    pub(crate) fn new(buckets: Buckets) -> Self {
        let stripes = || (0..STRIPES).map(|_| Padded::default()).collect();
        let stripes = (buckets == Buckets::Locked).then(stripes);
        Gate { stripes, waits: Waits::default() }
    }

    /// How often an operation waited for a bucket.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Enters the bucket with this number, or that of a key with this hash. A locked bucket stays the caller's until the guard is dropped.
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
        guira_sync::thread::scope(|scope| {
            let second = scope.spawn(|| drop(locked.enter(7 + STRIPES)));
            while locked.waits().count() == 0 {
                guira_sync::thread::yield_now();
            }
            assert!(!second.is_finished(), "bucket {} was divided from 7", 7 + STRIPES);
            drop(first);
        });
        assert_eq!(locked.waits().count(), 1);
    }
}
