//! Fresh pages that are committed before anybody needs them, by a thread that no request waits for: the system clears
//! what it commits, 2 MiB at once if it commits huge pages.

use super::recency::RECENCY_BYTES;
use super::{Pool, SlabMemory};
use crate::slab::{PAGE_BYTES, PageId};
use guira_sync::words::WORD;

/// Up to one part of memory in this many is committed ahead …
const AHEAD_PART: usize = 64;
/// … and of the pages that were ever used …
const TOUCHED_PART: u32 = 8;
/// … and up to this many pages: 16 MiB.
const AHEAD_MAX: u32 = 64;

impl SlabMemory {
    /// Commits the next pages ahead, as many as the system commits at once, if fewer are ready than should be and the
    /// budget has them left. False if there is nothing to do for now.
    pub fn commit_ahead(&self) -> bool {
        let mut pool = self.lock_pool();
        let first = pool.fresh.start + pool.paid;
        let pages = first..first + self.commit_pages;
        let is_wanted = pool.touching.is_empty()
            && pool.paid < self.ahead(&pool)
            && first.is_multiple_of(self.commit_pages)
            && pages.end <= pool.fresh.end;
        let bytes = pages.len() * PAGE_BYTES;
        if !is_wanted || !self.budget.take_unkept(bytes) {
            return false;
        }
        pool.coming = pages.clone();
        pool.touching = pages.clone();
        drop(pool);
        let is_backed = self.back_fresh(pages.clone());
        if is_backed {
            let parts = [(self.descriptors, WORD), (self.recency, RECENCY_BYTES), (self.pages, PAGE_BYTES)];
            for (at, each) in parts {
                self.region.commit(at.bytes() + pages.start as usize * each, pages.len() * each);
            }
        }
        let mut pool = self.lock_pool();
        pool.touching = 0..0;
        // Unless whoever could not wait has taken them.
        if std::mem::take(&mut pool.coming).is_empty() {
            return true;
        }
        if is_backed {
            pool.paid += self.commit_pages;
        } else {
            self.budget.give(bytes);
        }
        is_backed
    }

    /// Whether so few pages are ready that more should be, before anything else that is to be committed ahead.
    pub fn is_ahead_short(&self) -> bool {
        let pool = self.lock_pool();
        pool.paid * 2 < self.ahead(&pool)
    }

    /// Bytes of the pages that nobody has used yet, and that are charged.
    pub fn unused_bytes(&self) -> usize {
        let pool = self.lock_pool();
        (pool.paid as usize + pool.coming.len()) * PAGE_BYTES
    }

    /// Gives pages back that were committed and never used. False if there are none.
    pub fn give_back_unused(&self) -> bool {
        self.give_back_paid(&mut self.lock_pool())
    }

    /// How many pages should be ready: what the system commits at once, and more where more were used.
    fn ahead(&self, pool: &Pool) -> u32 {
        let most = (self.budget.limit() / AHEAD_PART / PAGE_BYTES) as u32;
        (pool.fresh.start / TOUCHED_PART).clamp(self.commit_pages, AHEAD_MAX).min(most)
    }

    /// Takes the pages that are being committed ahead, if there are any: who comes now cannot wait.
    pub(super) fn take_coming(&self, pool: &mut Pool) {
        let coming = std::mem::take(&mut pool.coming);
        if coming.is_empty() {
            return;
        }
        let count = coming.len();
        if self.back_fresh(coming) {
            pool.paid = count as u32;
        } else {
            self.budget.give(count * PAGE_BYTES);
        }
    }

    /// The same as [`SlabMemory::give_back_unused`], under the lock.
    pub(super) fn give_back_paid(&self, pool: &mut Pool) -> bool {
        let pages = pool.fresh.start..pool.fresh.start + pool.paid;
        // What is being committed is one of them, or will lie directly behind them.
        if pages.is_empty() || !pool.touching.is_empty() {
            return false;
        }
        let next = PageId(pages.start);
        // Those before it that the system has committed along with it are in use.
        if !pages.start.is_multiple_of(self.commit_pages) {
            self.split(pool, next);
        }
        pool.paid = 0;
        let bytes = pages.len() * PAGE_BYTES;
        // If the system refuses, they stay committed until they are used: then they are charged again.
        let _ = self.region.discard(self.start_of(next).bytes(), bytes);
        self.budget.give(bytes);
        true
    }
}
