//! Free chunks that a session keeps for itself, so that a store takes no lock.

use super::ChunkPool;
use guira_memory::Offset;
use guira_memory::slab::{ClassGuard, ClassId, PageState};

/// A session takes chunks by the batch, of up to this many …
const BATCH_CHUNKS: usize = 32;
/// … and up to this many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// How many chunks of `chunk` bytes a session takes at once.
pub(crate) fn batch_of(chunk: u32) -> usize {
    (BATCH_BYTES / chunk as usize).clamp(1, BATCH_CHUNKS)
}

/// Free chunks of each class.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    classes: Vec<Vec<Offset>>,
    /// How many drains had begun when chunks of draining pages were last given back.
    drains_seen: u64,
}

impl ChunkCache {
    pub(crate) fn new(pool: &ChunkPool) -> Self {
        ChunkCache { classes: pool.memory().classes().ids().map(|_| Vec::new()).collect(), drains_seen: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self, class: ClassId) -> bool {
        self.classes[usize::from(class.0)].is_empty()
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, class: ClassId) -> Option<Offset> {
        self.classes[usize::from(class.0)].pop()
    }

    /// Takes up to `want` free chunks of a locked class. Returns how many.
    pub(crate) fn take(&mut self, class: ClassId, guard: &mut ClassGuard<'_>, want: usize) -> usize {
        guard.take(want, &mut self.classes[usize::from(class.0)])
    }

    /// Keeps a free chunk, or gives it back if there are enough or its page is draining.
    pub(crate) fn put(&mut self, pool: &ChunkPool, at: Offset) {
        let Some((page, geometry, _)) = pool.memory().locate(at) else {
            return;
        };
        let PageState::Serving(class) = pool.memory().state_of(page) else {
            return pool.give(at);
        };
        let cache = &mut self.classes[usize::from(class.0)];
        cache.push(at);
        if cache.len() > 2 * BATCH_CHUNKS {
            let surplus = cache.len().saturating_sub(batch_of(geometry.chunk));
            for at in cache.drain(..surplus) {
                pool.give(at);
            }
        } else if cache.len() > 2 && cache.len() * geometry.chunk as usize > 2 * BATCH_BYTES {
            let oldest = cache.remove(0);
            pool.give(oldest);
        }
    }

    /// Gives chunks of draining pages back. Called at the end of each batch; does something only after a drain began.
    #[inline]
    pub(crate) fn return_draining(&mut self, pool: &ChunkPool) {
        let begun = pool.drains().begun();
        if begun != self.drains_seen {
            self.drains_seen = begun;
            self.return_if(pool, |state| !matches!(state, PageState::Serving(_)));
        }
    }

    /// Gives all chunks back.
    pub(crate) fn release(&mut self, pool: &ChunkPool) {
        self.return_if(pool, |_| true);
    }

    #[cold]
    #[inline(never)]
    fn return_if(&mut self, pool: &ChunkPool, gives: impl Fn(PageState) -> bool) {
        for cache in &mut self.classes {
            let stays = |at: &Offset| {
                pool.memory().page_at(*at).is_some_and(|page| !gives(pool.memory().state_of(page)))
            };
            let (kept, given): (Vec<_>, Vec<_>) = std::mem::take(cache).into_iter().partition(stays);
            *cache = kept;
            given.into_iter().for_each(|at| pool.give(at));
        }
    }
}
