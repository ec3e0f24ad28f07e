//! What sessions and a walk over all items share.

use guira_contract::KeyHash;
use guira_memory::Offset;
use guira_memory::slab::SlabMemory;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::lock::{Mutex, MutexGuard};

/// No walk is under way.
const NOWHERE: u64 = u64::MAX;
/// The walk has seen all pages: what it may have missed is noted already.
const PAST_ALL: u64 = u64::MAX - 1;

/// The most keys that are noted, 8 bytes each, until the walk looks them up.
const MOVED_MAX: usize = 1 << 20;

/// Where the walk is, and which keys it may have missed.
#[derive(Debug)]
pub(crate) struct Walks {
    /// The page that the walk is in.
    cursor: AtomicU64,
    /// LOCK: moved. Leaf; taken while version stripes are held, by a session that replaces an item during a walk.
    moved: Mutex<Moved>,
}

#[derive(Debug, Default)]
struct Moved {
    keys: Vec<KeyHash>,
    /// There were more than can be noted.
    overrun: bool,
}

impl Default for Walks {
    fn default() -> Self {
        Walks { cursor: AtomicU64::new(NOWHERE), moved: Mutex::default() }
    }
}

impl Walks {
    fn moved(&self) -> MutexGuard<'_, Moved> {
        self.moved.lock()
    }

    /// Begins a walk. False if another is under way. Sessions know of it when all have passed a quiescent point.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the caller takes a ticket after it, which orders it before the quiescent points that pass it.
        let swapped = self.cursor.compare_exchange(NOWHERE, 0, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_ok() {
            *self.moved() = Moved::default();
        }
        swapped.is_ok()
    }

    /// From now on, a session that replaces an item knows that the walk is in `page`.
    pub(crate) fn enter(&self, page: u32) {
        self.move_to(u64::from(page));
    }

    /// The walk has seen all pages. Returns the hashes of the keys that it may have missed, or `None` if there are too
    /// many.
    pub(crate) fn leave_pages(&self) -> Option<Vec<KeyHash>> {
        self.move_to(PAST_ALL);
        let moved = std::mem::take(&mut *self.moved());
        (!moved.overrun).then_some(moved.keys)
    }

    fn move_to(&self, cursor: u64) {
        self.cursor.store(cursor, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `Walks::note`.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        *self.moved() = Moved::default();
        // Relaxed: a session that still believes in the walk notes a key in vain, and the next walk forgets it.
        self.cursor.store(NOWHERE, Ordering::Relaxed);
    }

    /// The item at `old` was replaced by the one at `new`, which can be found from now on.
    #[inline(always)]
    pub(crate) fn replaced(&self, memory: &SlabMemory, hash: KeyHash, old: Offset, new: Offset) {
        // Relaxed: a walk begins only once every session has passed a quiescent point since the word was stored.
        if self.cursor.load(Ordering::Relaxed) != NOWHERE {
            self.note(memory, hash, old, new);
        }
    }

    #[cold]
    #[inline(never)]
    fn note(&self, memory: &SlabMemory, hash: KeyHash, old: Offset, new: Offset) {
        // SeqCst: pairs with the fence in `Walks::move_to`. Either the walk, which is in the page of the new item, finds
        // it, or the cursor is seen here to have come to that page.
        fence(Ordering::SeqCst);
        let cursor = self.cursor.load(Ordering::Relaxed);
        if cursor == NOWHERE {
            return;
        }
        let page_of = |at| memory.page_at(at).map_or(0, |page| u64::from(page.0));
        if page_of(old) < cursor || page_of(new) > cursor {
            return;
        }
        let mut moved = self.moved();
        if moved.keys.len() < MOVED_MAX {
            moved.keys.push(hash);
        } else {
            moved.overrun = true;
        }
    }
}
