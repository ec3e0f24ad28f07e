//! A table of buckets.

use super::scheme::Scheme;
use std::marker::PhantomData;

/// A run of buckets in the Region. Any number of them will do; a table bound to powers of two would waste up to half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table<S> {
    /// Where bucket 0 is, in buckets from the start of the Region.
    base: usize,
    pub(crate) buckets: u32,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Table<S> {
    /// The table of `buckets` buckets whose first is at `base`, in buckets from the start of the Region.
    #[inline(always)]
    pub(crate) fn new(base: usize, buckets: u32) -> Self {
        Table { base, buckets, scheme: PhantomData }
    }

    /// Bytes that a table of `buckets` buckets takes.
    pub(crate) const fn bytes(buckets: u32) -> usize {
        buckets as usize * S::BUCKET_BYTES
    }

    /// Spreads 32 bits of a hash over the buckets.
    #[inline(always)]
    pub(crate) fn reduce(self, hash: u32) -> u32 {
        ((u64::from(hash) * u64::from(self.buckets)) >> 32) as u32
    }

    /// Where bucket `bucket` is, in buckets from the start of the Region.
    #[inline(always)]
    pub(crate) fn place_of(self, bucket: u32) -> usize {
        self.base + bucket as usize
    }

    /// Where bucket `bucket` begins, in bytes from the start of the Region.
    #[inline(always)]
    pub(crate) fn address(self, bucket: u32) -> usize {
        self.place_of(bucket) * S::BUCKET_BYTES
    }
}

/// A table that is being committed before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead<S> {
    pub(super) table: Table<S>,
    /// Bytes of it that are.
    pub(super) done: usize,
}

impl<S> Ahead<S> {
    pub(super) fn of(table: Table<S>) -> Self {
        Ahead { table, done: 0 }
    }
}
