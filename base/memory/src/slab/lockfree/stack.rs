//! A lock-free stack of pages (Treiber 1986).

use crate::region::{Offset, Region};
use crate::slab::PageId;
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use guira_sync::words::WORD;

/// For each page, the page below it on its stack. A page is on at most one stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links<'a> {
    pub(super) region: &'a Region,
    pub(super) at: Offset,
}

impl Links<'_> {
    fn of(&self, page: PageId) -> &AtomicU64 {
        self.region.word(self.at.plus(page.0 as usize * WORD))
    }
}

/// The top page, or none, and a count of changes against ABA: a compare-and-swap with an outdated top fails.
///
/// ```text
///  63      32 31        0
/// | changes  | page + 1  |
/// ```
#[derive(Debug, Default)]
pub(super) struct Stack(Padded<AtomicU64>);

fn page_of(top: u64) -> Option<PageId> {
    (top as u32).checked_sub(1).map(PageId)
}

fn changed(top: u64, page: u64) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | page
}

impl Stack {
    /// Pushes a page that is on no stack.
    pub(super) fn push(&self, links: Links<'_>, page: PageId) {
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            links.of(page).store(top & u64::from(u32::MAX), Ordering::Relaxed);
            // Release: pairs with the Acquire in `pop`: a thread that pops the page sees its link, and all accesses
            // of its last holder.
            let pushed = self.0.compare_exchange_weak(
                top,
                changed(top, u64::from(page.0) + 1),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match pushed {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    pub(super) fn pop(&self, links: Links<'_>) -> Option<PageId> {
        // Acquire: pairs with the Release in `push`.
        let mut top = self.0.load(Ordering::Acquire);
        loop {
            let page = page_of(top)?;
            // Another thread may have popped the page, and the link may be arbitrary: then the top has changed.
            let below = links.of(page).load(Ordering::Relaxed) & u64::from(u32::MAX);
            match self.0.compare_exchange_weak(top, changed(top, below), Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(page),
                Err(other) => top = other,
            }
        }
    }

    /// Whether the stack is empty at the moment.
    pub(super) fn is_empty(&self) -> bool {
        page_of(self.0.load(Ordering::Relaxed)).is_none()
    }
}
