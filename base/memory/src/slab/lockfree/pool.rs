//! Pages that belong to no class.

use super::restore::Touched;
use super::stack::{Links, Stack};
use crate::budget::Budget;
use crate::region::{Offset, Region};
use crate::slab::{PAGE_BYTES, PageId};
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Pool {
    page_count: u32,
    /// The number of pages that the system commits at once.
    commit_pages: u32,
    /// The first page that was never used, and the number of pages from there on that are committed and charged.
    fresh: Padded<AtomicU64>,
    free: Stack,
    free_count: AtomicU64,
    /// Pages whose memory was given back to the system.
    surrendered: Stack,
}

/// The decoded value of [`Pool::fresh`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fresh {
    next: u32,
    paid: u32,
}

impl Fresh {
    fn of(word: u64) -> Self {
        Fresh { next: word as u32, paid: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.paid) << 32 | u64::from(self.next)
    }
}

/// The start of a page, in bytes from the start of the Region.
fn start_of(pages: Offset, page: PageId) -> usize {
    pages.plus(page.0 as usize * PAGE_BYTES).bytes()
}

impl Pool {
    pub(super) fn new(page_count: u32, commit_pages: u32) -> Self {
        Pool {
            page_count,
            commit_pages,
            fresh: Padded(AtomicU64::new(0)),
            free: Stack::default(),
            free_count: AtomicU64::new(0),
            surrendered: Stack::default(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.free_count.load(Ordering::Relaxed)
            + u64::from(Fresh::of(self.fresh.load(Ordering::Relaxed)).paid)
    }

    /// Returns a page, which is charged to the budget. `pages` is the start of the pages; `describe` allocates the
    /// metadata of new pages, and returns whether that succeeded.
    pub(super) fn acquire(
        &self,
        links: Links<'_>,
        region: &Region,
        budget: &Budget,
        pages: Offset,
        describe: impl Fn(Range<u32>) -> bool,
    ) -> Option<PageId> {
        if let Some(page) = self.take_kept(links) {
            return Some(page);
        }
        if let Some(page) = self.take_paid() {
            return Some(page);
        }
        if !self.surrendered.is_empty() && budget.take_unkept(PAGE_BYTES) {
            match self.surrendered.pop(links) {
                Some(page) if region.back(start_of(pages, page), PAGE_BYTES) => return Some(page),
                Some(page) => {
                    self.surrendered.push(links, page);
                    budget.give(PAGE_BYTES);
                    return None;
                }
                None => budget.give(PAGE_BYTES),
            }
        }
        self.take_fresh(region, budget, pages, describe)
    }

    /// Returns a page that was in use before.
    pub(super) fn take_kept(&self, links: Links<'_>) -> Option<PageId> {
        let page = self.free.pop(links)?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        Some(page)
    }

    /// Returns the next page that was committed along with another.
    fn take_paid(&self) -> Option<PageId> {
        let take = |word| {
            let Fresh { next, paid } = Fresh::of(word);
            (paid > 0).then(|| Fresh { next: next + 1, paid: paid - 1 }.word())
        };
        // Relaxed: the page has no owner and no contents.
        let before = self.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.ok().map(|word| PageId(Fresh::of(word).next))
    }

    /// Returns a page that was never used. If the system commits several at once, all of them are charged; if the
    /// budget does not allow that, the system is asked to commit them one by one.
    fn take_fresh(
        &self,
        region: &Region,
        budget: &Budget,
        pages: Offset,
        describe: impl Fn(Range<u32>) -> bool,
    ) -> Option<PageId> {
        loop {
            let word = self.fresh.load(Ordering::Relaxed);
            let Fresh { next, paid } = Fresh::of(word);
            if paid > 0 {
                match self.take_paid() {
                    Some(page) => return Some(page),
                    None => continue,
                }
            }
            let step = self.commit_pages.min(self.page_count - next).max(1);
            if next >= self.page_count {
                return None;
            }
            let begins = next.is_multiple_of(self.commit_pages) && step == self.commit_pages;
            let many = begins && budget.take_unkept(step as usize * PAGE_BYTES);
            let count = if many { step } else { 1 };
            if !many && !budget.take_unkept(PAGE_BYTES) {
                return None;
            }
            // A faster thread has allocated the same page.
            let has_room = describe(next..next + count)
                && region.back(start_of(pages, PageId(next)), count as usize * PAGE_BYTES);
            if !has_room {
                budget.give(count as usize * PAGE_BYTES);
                return None;
            }
            let after = Fresh { next: next + 1, paid: count - 1 }.word();
            if self.fresh.compare_exchange(word, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                if !many && next.is_multiple_of(self.commit_pages) && self.commit_pages > 1 {
                    region.commit_finely(start_of(pages, PageId(next)), step as usize * PAGE_BYTES);
                }
                return Some(PageId(next));
            }
            budget.give(count as usize * PAGE_BYTES);
        }
    }

    pub(super) fn keep(&self, links: Links<'_>, page: PageId) {
        // Counted first: otherwise a thread that takes the page at once would count below zero.
        self.free_count.fetch_add(1, Ordering::Relaxed);
        self.free.push(links, page);
    }

    /// Gives the memory of a page back. False if the system refuses; then the page is kept.
    pub(super) fn surrender(
        &self,
        links: Links<'_>,
        region: &Region,
        budget: &Budget,
        pages: Offset,
        page: PageId,
    ) -> bool {
        if region.discard(start_of(pages, page), PAGE_BYTES).is_err() {
            self.keep(links, page);
            return false;
        }
        self.commit_singly(region, pages, page);
        budget.give(PAGE_BYTES);
        self.surrendered.push(links, page);
        true
    }

    /// Tells the system to commit this page, which is not charged, and its neighbours one by one.
    fn commit_singly(&self, region: &Region, pages: Offset, page: PageId) {
        if self.commit_pages > 1 {
            let first = page.0 / self.commit_pages * self.commit_pages;
            let length = self.commit_pages.min(self.page_count - first) as usize * PAGE_BYTES;
            region.commit_finely(start_of(pages, PageId(first)), length);
        }
    }

    pub(super) fn touched(&self) -> Touched {
        let Fresh { next, paid } = Fresh::of(self.fresh.load(Ordering::Relaxed));
        Touched { pages: next, paid }
    }

    /// Restores the state of a pool of which as many pages were used.
    pub(super) fn restore(&self, touched: Touched, region: &Region, pages: Offset) {
        let Touched { pages: next, paid } = touched;
        self.fresh.store(Fresh { next, paid }.word(), Ordering::Relaxed);
        if !(next + paid).is_multiple_of(self.commit_pages) && next + paid < self.page_count {
            self.commit_singly(region, pages, PageId(next + paid));
        }
    }

    /// Restores a page whose memory was given back. If the system does not support holes, its contents are undefined.
    pub(super) fn restore_surrendered(&self, links: Links<'_>, region: &Region, pages: Offset, page: PageId) {
        let _ = region.discard(start_of(pages, page), PAGE_BYTES);
        self.commit_singly(region, pages, page);
        self.surrendered.push(links, page);
    }
}
