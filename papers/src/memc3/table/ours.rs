//! The engine's own index, beside the paper's: ten slots of 6 bytes to a cache line, tags of 11 bits, a search breadth
//! first, several writers, and version counters of buckets (docs/develop/decisions/0003-cuckoo-index.md).

use guira_slab::index::{IndexProbe, SLOTS, SearchLimits};
use guira_sync::version::DEFAULT_STRIPES;

use super::items::{Huge, Integers, Items};
use super::{Found, Key, Table, Writer, hash};
use crate::experiment::Failure;

/// The engine's index over the same items; `BATCH` keys are looked up at once.
#[derive(Debug)]
pub(in crate::memc3) struct Ours<const BATCH: usize> {
    index: IndexProbe,
    items: Items,
}

pub(in crate::memc3) fn bare(slots: u32, counters: usize) -> IndexProbe {
    IndexProbe::new(slots / SLOTS as u32, counters, SearchLimits::default())
}

impl<const BATCH: usize> Ours<BATCH> {
    /// With `counters` version counters.
    pub(in crate::memc3) fn with(slots: u32, counters: usize) -> Result<Self, Failure> {
        Ok(Self { index: bare(slots, counters), items: Items::new::<Huge>(slots)? })
    }
}

impl<const B: usize> Table for Ours<B> {
    const BATCH: usize = B;

    fn new(slots: u32) -> Result<Self, Failure> {
        Self::with(slots, DEFAULT_STRIPES)
    }

    #[inline]
    fn insert(&self, number: u32, key: Key, writer: &mut Writer) -> bool {
        self.items.put(number, key);
        let displaced = self.index.insert(hash(key), u64::from(number));
        writer.displaced += displaced.unwrap_or(0);
        displaced.is_some()
    }

    #[inline]
    fn ask(&self, key: Key) {
        self.index.prefetch(hash(key));
    }

    #[inline]
    fn find(&self, key: Key) -> Found {
        let mut number = 0;
        let touched = self.index.find(hash(key), |item| {
            let is_it = self.items.same::<Integers>(item as u32, key);
            if is_it {
                number = item as u32;
            }
            is_it
        });
        let number = if touched.found { number } else { 0 };
        Found { number, compared: touched.items as u32, repeats: touched.repeats as u32 }
    }
}
