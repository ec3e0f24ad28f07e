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
        if cache.is_empty() {
            pool.slab().take(class, 1, cache);
        }
        while let Some(at) = cache.pop() {
            if pool.slab().page_at(at) != Some(page) {
                return Some(at);
            }
            pool.give(at);
        }
        None
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
