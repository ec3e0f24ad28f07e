//! Version counters (MemC3, section 3.2.1): a striped array of counters that are even when unlocked and odd while a
//! writer changes the data they cover. To a writer a counter is a spin lock; to a reader it shows whether data that
//! was read without a lock changed meanwhile.
//!
//! The paper counts per key and has one writer. Here a counter covers the *buckets* that map to it, and several
//! writers work at once; each locks the counters of all buckets that it is about to change, in ascending order.
//! docs/develop/concurrency.md argues why this also closes the hole that the paper's Algorithm 1 leaves open.
//!
//! Orderings, by their partners:
//! - `try_acquire` (Acquire on success) pairs with `release` (Release): a writer sees all that earlier writers of the
//!   stripe did. The Release fence after locking pairs with the reader's Acquire fence in [`Versions::validate`]: a reader that
//!   saw any of this writer's data also sees the counter odd, or later.
//! - `try_begin_both` (Acquire) pairs with `release` (Release): a reader sees at least what was done under the version it starts from.

use crate::atomic::{AtomicU32, Backoff, Ordering, fence};
use crate::waits::Waits;

/// The default number of counters, as in the paper: they fit in a first-level cache.
pub const DEFAULT_STRIPES: usize = 8192;

/// Striped version counters.
#[derive(Debug)]
pub struct Versions {
    counters: Box<[AtomicU32]>,
    mask: u32,
    waits: Waits,
}

/// The version at the start of a read; always even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version(u32);

/// The counter that covers a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripe(u32);

impl Versions {
    /// `stripes` counters, rounded up to a power of two.
    pub fn new(stripes: usize) -> Self {
        let count = stripes.max(1).next_power_of_two();
        Versions {
            counters: (0..count).map(|_| AtomicU32::new(0)).collect(),
            mask: (count - 1) as u32,
            waits: Waits::default(),
        }
    }

    /// How often a writer waited for another.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// How many counters there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// The counter that covers bucket `bucket`.
    #[inline(always)]
    pub fn stripe(&self, bucket: u32) -> Stripe {
        Stripe(bucket & self.mask)
    }

    #[inline(always)]
    fn counter(&self, stripe: Stripe) -> &AtomicU32 {
        // SAFETY: there are `mask + 1` counters.
        unsafe { self.counters.get_unchecked((stripe.0 & self.mask) as usize) }
    }

    /// The version at the start of a read, or `None` while a writer holds the counter.
    #[cfg(test)]
    fn try_begin(&self, stripe: Stripe) -> Option<Version> {
        // Acquire: pairs with the Release of `release`.
        let version = self.counter(stripe).load(Ordering::Acquire);
        (version & 1 == 0).then_some(Version(version))
    }

    /// The versions of two counters at the start of a read, or `None` while a writer holds either.
    #[inline(always)]
    pub fn try_begin_both(&self, stripes: [Stripe; 2]) -> Option<[Version; 2]> {
        // Acquire: pairs with the Release of `release`.
        let versions = stripes.map(|stripe| self.counter(stripe).load(Ordering::Acquire));
        ((versions[0] | versions[1]) & 1 == 0).then_some(versions.map(Version))
    }

    /// Orders all racy loads before it with the [`Versions::same`] calls after it: once for each validation.
    #[inline(always)]
    pub fn validate() {
        // Acquire fence: pairs with the Release fence in `acquire`.
        fence(Ordering::Acquire);
    }

    /// Whether the counter still has the version of the start of the read. Call [`Versions::validate`] first.
    #[inline(always)]
    pub fn same(&self, stripe: Stripe, version: Version) -> bool {
        self.counter(stripe).load(Ordering::Relaxed) == version.0
    }

    #[inline(always)]
    fn acquire(&self, stripe: Stripe) -> u32 {
        let counter = self.counter(stripe);
        let version = Self::try_acquire(counter).unwrap_or_else(|| self.wait_for(counter));
        // Release fence: pairs with the Acquire fence of `validate`. Without it the stores that follow could become
        // visible before the odd version, and a reader could validate data that was changing.
        fence(Ordering::Release);
        version
    }

    /// Makes a counter odd if it is even. Returns the version before.
    #[inline(always)]
    fn try_acquire(counter: &AtomicU32) -> Option<u32> {
        let version = counter.load(Ordering::Relaxed);
        // Acquire: pairs with the Release of `release`.
        let swap =
            || counter.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        (version & 1 == 0 && swap()).then_some(version)
    }

    /// Waits until a counter that another writer holds is free, and locks it.
    #[cold]
    #[inline(never)]
    fn wait_for(&self, counter: &AtomicU32) -> u32 {
        self.waits.note();
        let mut backoff = Backoff::default();
        loop {
            backoff.wait();
            if let Some(version) = Self::try_acquire(counter) {
                return version;
            }
        }
    }

    /// Locks the counters of `stripes`, each once, in ascending order.
    ///
    /// LOCK: version stripes. Leaf locks: no other lock is taken while one is held, and a thread that needs several
    /// takes them all here at once.
    #[inline(always)]
    pub fn lock<const N: usize>(&self, mut stripes: [Stripe; N]) -> Locked<'_, N> {
        if N == 2 {
            if stripes[0] > stripes[1] {
                stripes.swap(0, 1);
            }
        } else if N > 2 {
            stripes.sort_unstable();
        }
        let mut locked = Locked { versions: self, held: stripes.map(|stripe| (stripe, None)) };
        for index in 0..N {
            if index == 0 || stripes[index] != stripes[index - 1] {
                locked.held[index].1 = Some(self.acquire(stripes[index]));
            }
        }
        locked
    }
}

/// Locked counters. Dropping the guard advances each by two, to the next even version.
#[derive(Debug)]
#[must_use = "the counters are unlocked when this is dropped"]
pub struct Locked<'a, const N: usize> {
    versions: &'a Versions,
    /// The counters, and their versions before; `None` if the counter is the same as the one in front of it, or is not locked.
    held: [(Stripe, Option<u32>); N],
}

impl<'a, const N: usize> Locked<'a, N> {
    #[inline(always)]
    fn release(&mut self, step: u32) {
        for (stripe, version) in &mut self.held {
            if let Some(version) = version.take() {
                // Release: pairs with the Acquire of `try_begin_both` and of `try_acquire`.
                self.versions.counter(*stripe).store(version.wrapping_add(step), Ordering::Release);
            }
        }
    }

    /// Unlocks without a new version, after no data was changed: no reader has to retry.
    #[inline(always)]
    pub fn release_unchanged(mut self) {
        self.release(0);
    }

    /// Whether the counter of `bucket` is among these.
    #[inline(always)]
    pub fn covers(&self, bucket: u32) -> bool {
        let stripe = self.versions.stripe(bucket);
        // A counter that two buckets have in common is locked once.
        self.held.iter().any(|(held, version)| *held == stripe && version.is_some())
    }

    /// The same, with room for `M` counters, of which there may be no fewer.
    pub fn among<const M: usize>(mut self) -> Locked<'a, M> {
        const { assert!(N <= M) };
        let mut held = [(Stripe::default(), None); M];
        for (to, from) in held.iter_mut().zip(&mut self.held) {
            *to = (from.0, from.1.take());
        }
        Locked { versions: self.versions, held }
    }
}

impl<const N: usize> Drop for Locked<'_, N> {
    #[inline(always)]
    fn drop(&mut self) {
        self.release(2);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_changes_the_version_and_a_look_does_not() {
        let versions = Versions::new(8);
        let stripe = versions.stripe(3);
        let before = versions.try_begin(stripe).unwrap();
        drop(versions.lock([stripe, versions.stripe(5)]));
        assert!(!versions.same(stripe, before));
        let before = versions.try_begin(stripe).unwrap();
        versions.lock([stripe]).release_unchanged();
        assert!(versions.same(stripe, before));
    }

    #[test]
    fn a_locked_counter_is_odd_and_buckets_of_one_stripe_lock_once() {
        let versions = Versions::new(8);
        let (a, b) = (versions.stripe(1), versions.stripe(9));
        assert_eq!(a, b);
        let locked = versions.lock([a, b]);
        assert_eq!(versions.try_begin(a), None);
        drop(locked);
        assert!(versions.try_begin(a).is_some());
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use crate::atomic::AtomicU64;
    use crate::words;
    use loom::sync::Arc;

    /// Two words that a writer always changes together; a reader that validates must see them equal.
    #[test]
    fn loom_a_validated_read_is_never_torn() {
        loom::model(|| {
            let state = Arc::new((Versions::new(1), AtomicU64::new(0), AtomicU64::new(0)));
            let writer = state.clone();
            let thread = loom::thread::spawn(move || {
                let (versions, a, b) = &*writer;
                let _locked = versions.lock([versions.stripe(0)]);
                words::store(a, 1);
                words::store(b, 1);
            });
            let (versions, a, b) = &*state;
            let stripe = versions.stripe(0);
            if let Some(version) = versions.try_begin(stripe) {
                let seen = (words::load(a), words::load(b));
                Versions::validate();
                if versions.same(stripe, version) {
                    assert_eq!(seen.0, seen.1);
                }
            }
            thread.join().unwrap();
        });
    }

    /// Two writers that lock the same two stripes in opposite order of argument.
    #[test]
    fn loom_writers_exclude_each_other_and_do_not_deadlock() {
        loom::model(|| {
            let state = Arc::new((Versions::new(2), AtomicU64::new(0)));
            let other = state.clone();
            let bump = |state: &(Versions, AtomicU64), first: u32, second: u32| {
                let (versions, sum) = state;
                let _locked = versions.lock([versions.stripe(first), versions.stripe(second)]);
                words::store(sum, words::load(sum) + 1);
            };
            let thread = loom::thread::spawn(move || bump(&other, 1, 0));
            bump(&state, 0, 1);
            thread.join().unwrap();
            assert_eq!(words::load(&state.1), 2);
        });
    }

    /// Hazard 3: a chunk leaves the table under the lock, is filled again without it, and a reader that still holds
    /// the old slot must not validate what it reads there.
    #[test]
    fn loom_a_chunk_filled_again_is_not_validated_through_the_old_slot() {
        loom::model(|| {
            let state = Arc::new((Versions::new(1), AtomicU64::new(7), AtomicU64::new(1)));
            let writer = state.clone();
            let thread = loom::thread::spawn(move || {
                let (versions, slot, chunk) = &*writer;
                let locked = versions.lock([versions.stripe(0)]);
                words::store(slot, 0);
                drop(locked);
                // The filler's fence: see guira_slab's `item` module.
                fence(Ordering::Release);
                words::store(chunk, 2);
            });
            let (versions, slot, chunk) = &*state;
            let stripe = versions.stripe(0);
            if let Some(version) = versions.try_begin(stripe) {
                if words::load(slot) == 7 {
                    let seen = words::load(chunk);
                    Versions::validate();
                    if versions.same(stripe, version) {
                        assert_eq!(seen, 1);
                    }
                }
            }
            thread.join().unwrap();
        });
    }

    /// Hazard 1: an entry moves from one bucket to the other; a reader that checks both must find it or retry.
    #[test]
    fn loom_an_entry_on_its_way_between_two_buckets_is_not_missed() {
        loom::model(|| {
            let state = Arc::new((Versions::new(2), [AtomicU64::new(7), AtomicU64::new(0)]));
            let writer = state.clone();
            let thread = loom::thread::spawn(move || {
                let (versions, buckets) = &*writer;
                let _locked = versions.lock([versions.stripe(0), versions.stripe(1)]);
                words::store(&buckets[0], 0);
                words::store(&buckets[1], 7);
            });
            let (versions, buckets) = &*state;
            let stripes = [versions.stripe(0), versions.stripe(1)];
            if let Some(seen) = versions.try_begin_both(stripes) {
                let found = buckets.each_ref().map(words::load).contains(&7);
                Versions::validate();
                if versions.same(stripes[0], seen[0]) && versions.same(stripes[1], seen[1]) {
                    assert!(found);
                }
            }
            thread.join().unwrap();
        });
    }

    /// A key whose entry is in one of two buckets, each with a counter of its own.
    struct TwoBuckets(Versions, [AtomicU64; 2]);

    impl TwoBuckets {
        fn with(entry: u64) -> Arc<Self> {
            Arc::new(TwoBuckets(Versions::new(2), [AtomicU64::new(entry), AtomicU64::new(0)]))
        }

        /// The bucket with the entry.
        fn found(&self) -> Option<usize> {
            (0..2).find(|bucket| words::load(&self.1[*bucket]) != 0)
        }

        /// Changes an entry that is there under the counter of its bucket alone. False if it is not there, or not any more.
        fn change(&self, entry: u64) -> bool {
            let TwoBuckets(versions, buckets) = self;
            let Some(bucket) = self.found() else { return false };
            let locked = versions.lock([versions.stripe(bucket as u32)]);
            if words::load(&buckets[bucket]) == 0 {
                locked.release_unchanged();
                return false;
            }
            words::store(&buckets[bucket], entry);
            true
        }

        /// Adds the entry, or changes it, under both counters.
        fn put(&self, entry: u64) {
            let TwoBuckets(versions, buckets) = self;
            let _locked = versions.lock([versions.stripe(0), versions.stripe(1)]);
            words::store(&buckets[self.found().unwrap_or(1)], entry);
        }

        fn set(&self, entry: u64) {
            if !self.change(entry) {
                self.put(entry);
            }
        }

        /// Moves the entry to the other bucket.
        fn displace(&self) {
            let TwoBuckets(versions, buckets) = self;
            let _locked = versions.lock([versions.stripe(0), versions.stripe(1)]);
            if let Some(bucket) = self.found() {
                words::store(&buckets[1 - bucket], words::load(&buckets[bucket]));
                words::store(&buckets[bucket], 0);
            }
        }

        /// Both buckets as a reader believes them.
        fn read(&self) -> Option<[u64; 2]> {
            let TwoBuckets(versions, buckets) = self;
            let stripes = [versions.stripe(0), versions.stripe(1)];
            let seen = versions.try_begin_both(stripes)?;
            let entries = buckets.each_ref().map(words::load);
            Versions::validate();
            let stands = versions.same(stripes[0], seen[0]) && versions.same(stripes[1], seen[1]);
            stands.then_some(entries)
        }
    }

    /// A set replaces an entry under the counter of its bucket while the entry is moved to the other bucket: it is in one
    /// of them at all times.
    #[test]
    fn loom_an_entry_that_is_replaced_under_one_counter_is_in_one_bucket() {
        loom::model(|| {
            let table = TwoBuckets::with(7);
            let other = table.clone();
            let thread = loom::thread::spawn(move || other.set(8));
            table.displace();
            if let Some(entries) = table.read() {
                assert!(matches!(entries, [0, 7 | 8] | [7 | 8, 0]), "{entries:?}");
            }
            thread.join().unwrap();
            assert!(matches!(table.read(), Some([0, 8] | [8, 0])), "{:?}", table.read());
        });
    }

    /// A delete removes the entry under the counter of its bucket, and a set that finds none adds one under both, while
    /// another set replaces what it finds.
    #[test]
    fn loom_entries_that_are_removed_under_one_counter_are_added_once() {
        loom::model(|| {
            let table = TwoBuckets::with(7);
            let other = table.clone();
            let thread = loom::thread::spawn(move || other.set(8));
            table.change(0);
            table.set(9);
            thread.join().unwrap();
            assert!(matches!(table.read(), Some([0, 8 | 9] | [8 | 9, 0])), "{:?}", table.read());
        });
    }

    /// The writer protocol: two threads have chosen the same item to unlink, one to replace it and one to evict it.
    /// Each checks again once it holds the counter, so that its chunk is freed once.
    #[test]
    fn loom_a_victim_that_is_looked_at_again_under_the_lock_is_freed_once() {
        loom::model(|| {
            let state = Arc::new((Versions::new(1), AtomicU64::new(7), AtomicU64::new(0)));
            let other = state.clone();
            let unlink = |state: &(Versions, AtomicU64, AtomicU64), replacement: u64| {
                let (versions, slot, freed) = state;
                let victim = words::load(slot);
                let locked = versions.lock([versions.stripe(0)]);
                if victim != 7 || words::load(slot) != victim {
                    return locked.release_unchanged();
                }
                words::store(slot, replacement);
                drop(locked);
                freed.fetch_add(1, Ordering::Relaxed);
            };
            let thread = loom::thread::spawn(move || unlink(&other, 8));
            unlink(&state, 0);
            thread.join().unwrap();
            assert_eq!(state.2.load(Ordering::Relaxed), 1);
        });
    }
}
