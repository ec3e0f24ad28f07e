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

/// More of them than this are too many: two batches, but two chunks in any case.
fn most_of(chunk: u32) -> usize {
    (2 * BATCH_BYTES / chunk as usize).clamp(2, 2 * BATCH_CHUNKS)
}

#[derive(Debug)]
struct Kept {
    chunks: Vec<Offset>,
    most: usize,
}

#[derive(Debug)]
pub(crate) struct ChunkCache {
    classes: Vec<Kept>,
    /// How many drains had begun when chunks of draining pages were last given back.
    drains_seen: u64,
}

impl Kept {
    /// There are too many: gives the oldest back, of large chunks one, of small ones all but a batch.
    #[cold]
    #[inline(never)]
    fn give_surplus(&mut self, pool: &ChunkPool, class: ClassId) {
        let surplus = if self.most == 2 * BATCH_CHUNKS {
            self.chunks.len().saturating_sub(batch_of(pool.memory().classes().geometry(class).chunk))
        } else {
            1
        };
        for at in self.chunks.drain(..surplus) {
            pool.give(at);
        }
    }
}

impl ChunkCache {
    pub(crate) fn new(pool: &ChunkPool) -> Self {
        let classes = pool.memory().classes();
        let kept = |class| Kept { chunks: Vec::new(), most: most_of(classes.geometry(class).chunk) };
        ChunkCache { classes: classes.ids().map(kept).collect(), drains_seen: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self, class: ClassId) -> bool {
        self.classes[usize::from(class.0)].chunks.is_empty()
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, class: ClassId) -> Option<Offset> {
        self.classes[usize::from(class.0)].chunks.pop()
    }

    /// Takes up to `want` free chunks of a locked class. Returns how many.
    pub(crate) fn take(&mut self, class: ClassId, guard: &mut ClassGuard<'_>, want: usize) -> usize {
        guard.take(want, &mut self.classes[usize::from(class.0)].chunks)
    }

    /// Takes back what [`ChunkCache::pop`] gave.
    pub(crate) fn put_back(&mut self, class: ClassId, at: Offset) {
        self.classes[usize::from(class.0)].chunks.push(at);
    }

    /// Keeps a free chunk, or gives it back if there are enough or its page is draining. Returns its class.
    #[inline(always)]
    pub(crate) fn put(&mut self, pool: &ChunkPool, at: Offset) -> Option<ClassId> {
        match pool.memory().state_of(pool.memory().page_at(at)?) {
            PageState::Serving(class) => {
                let kept = &mut self.classes[usize::from(class.0)];
                kept.chunks.push(at);
                if kept.chunks.len() > kept.most {
                    kept.give_surplus(pool, class);
                }
                Some(class)
            }
            PageState::Draining(class) => {
                pool.give(at);
                Some(class)
            }
            PageState::Free => None,
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

    pub(crate) fn release(&mut self, pool: &ChunkPool) {
        self.return_if(pool, |_| true);
    }

    #[cold]
    #[inline(never)]
    fn return_if(&mut self, pool: &ChunkPool, gives: impl Fn(PageState) -> bool) {
        for kept in &mut self.classes {
            let stays = |at: &Offset| {
                pool.memory().page_at(*at).is_some_and(|page| !gives(pool.memory().state_of(page)))
            };
            let (staying, given): (Vec<_>, Vec<_>) =
                std::mem::take(&mut kept.chunks).into_iter().partition(stays);
            kept.chunks = staying;
            given.into_iter().for_each(|at| pool.give(at));
        }
    }
}
