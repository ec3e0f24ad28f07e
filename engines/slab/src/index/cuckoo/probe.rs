//! The bare index, for benchmarks: MemC3's section 5.2 measures it without items behind it.

use super::pair::Cuckoo;
use crate::index::lookup::{Index, Visitor};
use crate::index::scheme::SearchLimits;
use crate::index::table::Table;
use guira_contract::KeyHash;
use guira_memory::{HugePages, Offset, Region};
use std::sync::Arc;

/// An index of fixed size whose "items" are numbers.
#[derive(Debug)]
pub struct IndexProbe {
    index: Index<Cuckoo>,
    region: Arc<Region>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub items: u64,
    /// Whether the wanted one was among them.
    pub found: bool,
    /// How often it began anew because a counter was odd or had moved.
    pub repeats: u64,
}

struct Wanted<F> {
    is_wanted: F,
    touched: Touched,
}

impl<F: FnMut(u64) -> bool> Visitor for Wanted<F> {
    type Result = ();

    #[inline(always)]
    fn visit(&mut self, at: Offset) -> Option<()> {
        self.touched.items += 1;
        (self.is_wanted)(at.units()).then_some(())
    }

    fn undo(&mut self, (): ()) {}

    fn repeats(&mut self) {
        self.touched.repeats += 1;
    }
}

impl IndexProbe {
    /// An empty index of `buckets` buckets of ten slots.
    ///
    /// # Panics
    /// If the system refuses the memory.
    pub fn new(buckets: u32, stripes: usize, limits: SearchLimits) -> Self {
        let bytes = Table::<Cuckoo>::bytes(buckets).next_multiple_of(2 << 20);
        let region =
            Arc::new(Region::anonymous(bytes + (2 << 20), HugePages::Requested).expect("address space"));
        let arenas = [2 << 20, 2 << 20];
        let index = Index::new(region.clone(), arenas, (buckets, buckets), 4096, stripes, limits);
        IndexProbe { index, region }
    }

    pub fn bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Bytes of address space, for the curious.
    pub fn reserved(&self) -> usize {
        self.region.reserved()
    }

    pub fn slots(&self) -> u64 {
        self.index.slots()
    }

    /// Asks for the buckets of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch_buckets(KeyHash(hash));
    }

    /// Inserts item `number`, counted from 1. Returns how many entries were displaced, or `None` if no path was found.
    #[inline]
    pub fn insert(&self, hash: u64, number: u64) -> Option<u64> {
        let mut displaced = 0;
        loop {
            let held = self.index.lock(KeyHash(hash));
            if held.insert(Offset::from_units(number)) {
                return Some(displaced);
            }
            held.release_unchanged();
            displaced += self.index.make_room(KeyHash(hash))?;
        }
    }

    /// Looks item `number` up.
    #[inline]
    pub fn lookup(&self, hash: u64, number: u64) -> Touched {
        self.find(hash, |item| item == number)
    }

    /// Looks for the item that `is_wanted` says yes to. It is asked for every item with the tag, and those may change meanwhile.
    #[inline]
    pub fn find(&self, hash: u64, is_wanted: impl FnMut(u64) -> bool) -> Touched {
        let mut wanted = Wanted { is_wanted, touched: Touched::default() };
        let found = self.index.search(KeyHash(hash), &mut wanted);
        Touched { found: found.is_some(), ..wanted.touched }
    }
}
