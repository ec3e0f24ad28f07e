//! memcached's table: chains of items, linked to each other, and as many buckets as are filled by 1.5 items each.

use std::marker::PhantomData;

use guira_memory::{Offset, Region};
use guira_sync::words::{self, WORD};

use super::discipline::{COUNTERS, Discipline};
use super::items::{Compare, Items, Pages};
use super::{Found, Key, Table, Writer, hash};
use crate::experiment::Failure;

/// Items per bucket at which memcached's table is full.
pub(in crate::memc3) const FULL: f64 = 1.5;

/// The share of a cuckoo table's slots that both tables hold when they are full.
const LOAD: f64 = 0.9;

/// Chains whose pages, comparison of keys and locks are `P`, `C` and `D`.
#[derive(Debug)]
pub(in crate::memc3) struct Chaining<P, C, D> {
    heads: Region,
    buckets: u32,
    items: Items,
    discipline: D,
    parts: PhantomData<(P, C)>,
}

impl<P, C, D> Chaining<P, C, D> {
    fn bucket(&self, key: Key) -> u32 {
        (((hash(key) >> 32) * u64::from(self.buckets)) >> 32) as u32
    }

    fn head(bucket: u32) -> Offset {
        Offset::from_bytes(u64::from(bucket) * WORD as u64)
    }
}

impl<P: Pages, C, D: Discipline> Chaining<P, C, D> {
    /// A table of `buckets` buckets with room for `items` items.
    pub(in crate::memc3) fn with(buckets: u32, items: u32) -> Result<Self, Failure> {
        Ok(Self {
            heads: P::region(buckets as usize * WORD)?,
            buckets,
            items: Items::new::<P>(items)?,
            discipline: D::new(COUNTERS),
            parts: PhantomData,
        })
    }

    /// The most items in a bucket.
    pub(in crate::memc3) fn longest(&self) -> u32 {
        let length = |bucket: u32| {
            let mut number = words::load(self.heads.word(Self::head(bucket)));
            let mut length = 0;
            while let Some(item) = self.items.words(number as u32).filter(|_| number != 0) {
                number = words::load(&item[0]);
                length += 1;
            }
            length
        };
        (0..self.buckets).map(length).max().unwrap_or(0)
    }
}

impl<P: Pages, C: Compare, D: Discipline> Table for Chaining<P, C, D> {
    fn new(slots: u32) -> Result<Self, Failure> {
        Self::with((f64::from(slots) * LOAD / FULL) as u32, slots)
    }

    #[inline]
    fn insert(&self, number: u32, key: Key, _writer: &mut Writer) -> bool {
        self.items.put(number, key);
        let bucket = self.bucket(key);
        let link = || {
            let head = self.heads.word(Self::head(bucket));
            if let Some(item) = self.items.words(number) {
                words::store(&item[0], words::load(head));
                words::store(head, u64::from(number));
            }
        };
        self.discipline.alone(|| self.discipline.change([bucket; 2], link));
        true
    }

    #[inline]
    fn find(&self, key: Key) -> Found {
        let bucket = self.bucket(key);
        let look = || {
            let head = words::load(self.heads.word(Self::head(bucket)));
            let mut found = Found { number: head as u32, ..Found::default() };
            while let Some(item) = self.items.words(found.number).filter(|_| found.number != 0) {
                found.compared += 1;
                if C::same(item, key) {
                    break;
                }
                found.number = words::load(&item[0]) as u32;
            }
            found
        };
        self.discipline.read([bucket; 2], look).0
    }
}
