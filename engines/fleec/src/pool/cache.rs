//! The free chunks that a session keeps.

use super::chunk_pool::{ChunkPool, Taking};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, PageId};

/// Free chunks of each class, the session's alone.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    chunks: Vec<Vec<Offset>>,
}

impl ChunkCache {
    pub(crate) fn new(pool: &ChunkPool) -> Self {
        ChunkCache { chunks: pool.classes().ids().map(|_| Vec::new()).collect() }
    }

    #[inline(always)]
    fn of(&mut self, class: ClassId) -> &mut Vec<Offset> {
        &mut self.chunks[usize::from(class.0)]
    }

    #[inline(always)]
    pub(crate) fn has(&self, class: ClassId) -> bool {
        !self.chunks[usize::from(class.0)].is_empty()
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, class: ClassId) -> Option<Offset> {
        self.of(class).pop()
    }

    /// Takes back a chunk that was not used after all.
    pub(crate) fn push(&mut self, class: ClassId, at: Offset) {
        self.of(class).push(at);
    }

    /// Takes free chunks from the pages of the class, or from a new one. False if there are none.
    pub(crate) fn refill(&mut self, pool: &ChunkPool, class: ClassId, taking: Taking) -> bool {
        // The last chunks are taken one at a time, and only for changes.
        let is_last = taking == Taking::Exchange && pool.spare(class, Taking::Fresh) == 0;
        let batch = if is_last { 1 } else { pool.batch_of(class) };
        let cache = self.of(class);
        let mut take = || {
            let most = pool.spare(class, taking).min(batch as u64) as usize;
            most > 0 && pool.slab().take(class, most, cache) > 0
        };
        take() || (pool.slab().grow(class) && take())
    }

    /// Takes a chunk of a class with slightly larger ones, if memory is so small that there are few pages for each class.
    pub(crate) fn borrow(&mut self, pool: &ChunkPool, class: ClassId) -> bool {
        let lender = pool.lender(class);
        lender.is_some_and(|lender| pool.slab().take(lender, 1, self.of(class)) > 0)
    }

    /// Takes a free chunk of the class that is not in `page`.
    pub(crate) fn take_outside(&mut self, pool: &ChunkPool, class: ClassId, page: PageId) -> Option<Offset> {
        let cache = self.of(class);
        let outside = |cache: &mut Vec<Offset>| {
            while let Some(at) = cache.pop() {
                if pool.slab().page_at(at) != Some(page) {
                    return Some(at);
                }
                pool.give(at);
            }
            None
        };
        outside(cache).or_else(|| {
            pool.slab().take(class, 1, cache);
            outside(cache)
        })
    }

    /// Frees a chunk: keeps it for the session's next store. If there are too many, half go to the pool.
    pub(crate) fn keep(&mut self, pool: &ChunkPool, at: Offset) {
        let Some(class) = pool.class_at(at) else {
            return;
        };
        let batch = pool.batch_of(class);
        let cache = self.of(class);
        cache.push(at);
        // While the reserve is in use nothing is kept: the session's next store may be a new item.
        let most = if batch == 1 || pool.spare(class, Taking::Fresh) == 0 { 0 } else { 2 * batch };
        if cache.len() > most {
            let given = batch.min(cache.len());
            cache.drain(..given).for_each(|at| pool.give(at));
        }
    }

    /// Gives the chunks of a class to the pool.
    pub(crate) fn give(&mut self, pool: &ChunkPool, class: ClassId) {
        std::mem::take(self.of(class)).into_iter().for_each(|at| pool.give(at));
    }

    /// Gives all chunks to the pool.
    pub(crate) fn give_all(&mut self, pool: &ChunkPool) {
        pool.classes().ids().for_each(|class| self.give(pool, class));
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_items::Eviction;
    use guira_memory::slab::lockfree::LockFreeSlab;
    use guira_memory::slab::{ClassTable, PAGE_BYTES};
    use guira_memory::{Budget, HugePages, MIB, Region};
    use std::sync::Arc;

    /// A pool of this many pages. The limit is what the rules go by.
    fn pool(pages: u32, limit: usize, eviction: Eviction) -> ChunkPool {
        let pages_at = LockFreeSlab::metadata_bytes(pages as usize).next_multiple_of(PAGE_BYTES);
        let bytes = pages_at + pages as usize * PAGE_BYTES;
        let region = Arc::new(Region::anonymous(bytes, HugePages::No).unwrap());
        let budget = Arc::new(Budget::new(limit));
        let (metadata, pages_at) = (Offset::from_bytes(0), Offset::from_bytes(pages_at as u64));
        let classes = ClassTable::new(1.25, 16);
        ChunkPool::new(
            LockFreeSlab::new(region, budget.clone(), classes, metadata, pages_at, pages, 1),
            budget,
            eviction,
        )
    }

    #[test]
    fn a_session_takes_batches_keeps_two_at_most_and_gives_all_back() {
        let pool = pool(4, 256 * MIB, Eviction::On);
        let class = pool.classes().class_for(64).unwrap();
        let mut cache = ChunkCache::new(&pool);
        assert!(!cache.has(class) && cache.refill(&pool, class, Taking::Fresh));
        let all = pool.free_chunks(class) + 32;
        let mut taken: Vec<_> = std::iter::from_fn(|| cache.pop(class)).collect();
        assert_eq!(taken.len(), 32);
        assert!(cache.refill(&pool, class, Taking::Fresh) && cache.refill(&pool, class, Taking::Fresh));
        taken.drain(..).for_each(|at| cache.keep(&pool, at));
        assert!(pool.free_chunks(class) >= all - 64, "of too many, half went to the pool");
        cache.give_all(&pool);
        assert_eq!(pool.free_chunks(class), all);
    }

    #[test]
    fn where_memory_is_scarce_nothing_is_kept() {
        let pool = pool(4, 8 * MIB, Eviction::On);
        let class = pool.classes().class_for(64).unwrap();
        let mut cache = ChunkCache::new(&pool);
        cache.refill(&pool, class, Taking::Fresh);
        let at = cache.pop(class).unwrap();
        assert!(!cache.has(class));
        cache.keep(&pool, at);
        assert!(!cache.has(class));
    }

    #[test]
    fn without_eviction_the_last_chunks_are_for_changes() {
        let pool = pool(1, 256 * MIB, Eviction::Off);
        let class = pool.classes().class_for(1000).unwrap();
        let mut cache = ChunkCache::new(&pool);
        let mut fresh = 0;
        while cache.refill(&pool, class, Taking::Fresh) {
            fresh += std::iter::from_fn(|| cache.pop(class)).count() as u64;
        }
        let chunks = u64::from(pool.classes().geometry(class).chunks);
        assert_eq!(fresh, chunks - 2);
        for _ in 0..2 {
            assert!(cache.refill(&pool, class, Taking::Exchange));
            assert!(cache.pop(class).is_some() && !cache.has(class), "one at a time");
        }
        assert!(!cache.refill(&pool, class, Taking::Exchange));
    }

    #[test]
    fn a_chunk_in_another_page_is_found_and_those_in_this_one_are_given_back() {
        let pool = pool(2, 8 * MIB, Eviction::On);
        let class = pool.classes().class_for(10_000).unwrap();
        let chunks = u64::from(pool.classes().geometry(class).chunks);
        let mut cache = ChunkCache::new(&pool);
        cache.refill(&pool, class, Taking::Fresh);
        let at = cache.pop(class).unwrap();
        let page = pool.slab().page_at(at).unwrap();
        cache.push(class, at);
        assert_eq!(cache.take_outside(&pool, class, page), None);
        assert_eq!(pool.free_chunks(class), chunks);
        pool.slab().take(class, chunks as usize, &mut Vec::new());
        assert!(pool.slab().grow(class));
        let outside = cache.take_outside(&pool, class, page).unwrap();
        assert_ne!(pool.slab().page_at(outside), Some(page));
    }
}
