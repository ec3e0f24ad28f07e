//! The paper's hash tables, each a type: what is switched on from bar to bar of its figures is a parameter of the type.
//!
//! | part | types |
//! |---|---|
//! | pages of the system | [`Small`], [`Huge`] |
//! | comparison of keys | [`Bytes`], [`Integers`] |
//! | who waits for whom | [`Alone`], [`GlobalLock`], [`BucketLocks`], [`Optimistic`] |
//! | what a slot holds | [`Untagged`], [`Tagged`] |
//!
//! [`Chaining`] is memcached's table, [`Cuckoo`] the paper's, [`Ours`] the engine's own index.

mod chaining;
mod cuckoo;
mod discipline;
mod items;
mod ours;
mod slots;

pub(super) use chaining::{Chaining, FULL as CHAINING_FULL};
pub(super) use cuckoo::Cuckoo;
pub(super) use discipline::{Alone, BucketLocks, GlobalLock, Optimistic};
pub(super) use items::{Bytes, Huge, Integers, Key, Small};
pub(super) use ours::{Ours, bare as ours_bare};
pub(super) use slots::{SLOTS, Tagged, Untagged};

use crate::experiment::Failure;
use guira_workload::Rng;
use guira_workload::rng::mix64;

/// An index with the keys behind it. Keys are never removed: neither do the paper's experiments.
pub(super) trait Table: Sync + Sized {
    /// An empty table with room for about `slots` keys.
    fn new(slots: u32) -> Result<Self, Failure>;

    /// Stores `key`, which is not there yet, as item `number`: each from 1 up to the number of slots is given once. False
    /// if the table is full.
    fn insert(&self, number: u32, key: Key, writer: &mut Writer) -> bool;

    /// How many keys are looked up at once; all are prefetched before the first is looked up.
    const BATCH: usize = 1;

    /// Asks the processor for what a lookup will need first.
    fn ask(&self, _key: Key) {}

    fn find(&self, key: Key) -> Found;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The item; 0 for none.
    pub(super) number: u32,
    pub(super) compared: u32,
    /// How often it began anew because a version counter was odd or had moved.
    pub(super) repeats: u32,
}

/// What a thread that inserts keeps for itself.
#[derive(Debug)]
pub(super) struct Writer {
    rng: Rng,
    /// Cuckoo paths, one after another.
    steps: Vec<cuckoo::Step>,
    pub(super) displaced: u64,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), steps: Vec::new(), displaced: 0 }
    }
}

/// The hash of a key, from which every table takes its bits.
#[inline(always)]
pub(super) fn hash(key: Key) -> u64 {
    mix64(key[0] ^ key[1].rotate_left(32))
}

/// The key of item `number`: 16 random bytes.
#[inline(always)]
pub(super) fn key_of(seed: u64, number: u32) -> Key {
    let at = mix64(seed) ^ (u64::from(number) << 1);
    [mix64(at), mix64(at ^ 1)]
}

#[cfg(test)]
mod tests {
    use super::{
        Alone, BucketLocks, Bytes, Chaining, Cuckoo, GlobalLock, Huge, Integers, Optimistic, Ours, Small,
        Table, Tagged, Untagged, Writer, key_of,
    };

    const SLOTS: u32 = 1 << 14;
    const KEYS: u32 = SLOTS / 100 * 85;

    fn fill<T: Table>(table: &T, first: u32, last: u32) {
        let mut writer = Writer::new(u64::from(first));
        for number in first..=last {
            assert!(table.insert(number, key_of(1, number), &mut writer), "{number}");
        }
    }

    /// What is stored is found, and nothing else.
    fn keeps_what_it_is_given<T: Table>() {
        let table = T::new(SLOTS).unwrap();
        fill(&table, 1, KEYS);
        for number in 1..=KEYS {
            assert_eq!(table.find(key_of(1, number)).number, number);
            assert_eq!(table.find(key_of(1, number + SLOTS)).number, 0);
        }
    }

    /// A key that was there before is found all the time that another thread inserts and moves entries, and each reader finds what it
    /// has stored itself.
    fn keeps_it_while_others_insert<T: Table>() {
        let table = T::new(SLOTS).unwrap();
        let half = KEYS / 2;
        fill(&table, 1, half);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| fill(&table, half + 1, KEYS));
            let mut number = 0;
            while !writing.is_finished() || number == 0 {
                number = number % half + 1;
                assert_eq!(table.find(key_of(1, number)).number, number);
            }
        });
        assert!((1..=KEYS).all(|number| table.find(key_of(1, number)).number == number));
    }

    /// Two threads that insert at the same time lose nothing.
    fn keeps_what_two_threads_insert<T: Table>() {
        let table = T::new(SLOTS).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| fill(&table, 1, KEYS / 2));
            scope.spawn(|| fill(&table, KEYS / 2 + 1, KEYS));
        });
        assert!((1..=KEYS).all(|number| table.find(key_of(1, number)).number == number));
    }

    fn is_right_with_threads<T: Table>() {
        keeps_what_it_is_given::<T>();
        keeps_it_while_others_insert::<T>();
        keeps_what_two_threads_insert::<T>();
    }

    #[test]
    fn tables_of_one_thread_keep_what_they_are_given() {
        keeps_what_it_is_given::<Chaining<Small, Bytes, Alone>>();
        keeps_what_it_is_given::<Chaining<Huge, Integers, Alone>>();
        keeps_what_it_is_given::<Cuckoo<Untagged, Alone, 1>>();
        keeps_what_it_is_given::<Cuckoo<Tagged, Alone, 1>>();
        keeps_what_it_is_given::<Cuckoo<Tagged, Alone, 2>>();
    }

    #[test]
    fn chaining_under_a_global_lock_is_right_with_threads() {
        is_right_with_threads::<Chaining<Small, Bytes, GlobalLock>>();
        is_right_with_threads::<Chaining<Huge, Integers, GlobalLock>>();
    }

    #[test]
    fn chaining_with_bucket_locks_is_right_with_threads() {
        is_right_with_threads::<Chaining<Small, Bytes, BucketLocks>>();
    }

    #[test]
    fn cuckoo_with_bucket_locks_is_right_with_threads() {
        is_right_with_threads::<Cuckoo<Untagged, BucketLocks, 1>>();
        is_right_with_threads::<Cuckoo<Tagged, BucketLocks, 1>>();
    }

    #[test]
    fn cuckoo_with_version_counters_is_right_with_threads() {
        is_right_with_threads::<Cuckoo<Tagged, Optimistic, 1>>();
        is_right_with_threads::<Cuckoo<Tagged, Optimistic, 2>>();
    }

    #[test]
    fn our_index_is_right_with_threads() {
        is_right_with_threads::<Ours<1>>();
    }

    #[test]
    fn a_table_that_is_too_full_says_so() {
        fn until_full<T: Table>() -> u32 {
            let table = T::new(SLOTS).unwrap();
            let mut writer = Writer::new(1);
            let full = (1..=SLOTS).find(|&number| !table.insert(number, key_of(1, number), &mut writer));
            let full = full.unwrap();
            assert!((1..full).all(|number| table.find(key_of(1, number)).number == number));
            assert_eq!(table.find(key_of(1, full)).number, 0);
            full
        }
        let (one, four) =
            (until_full::<Cuckoo<Tagged, Alone, 1>>(), until_full::<Cuckoo<Tagged, Alone, 4>>());
        assert!(one > SLOTS / 100 * 85 && four > one, "{one} {four}");
    }
}
