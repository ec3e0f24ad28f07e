//! A stack of pages on which anybody may push and pop without waiting (Treiber 1986).

use crate::region::{Offset, Region};
use crate::slab::PageId;
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use guira_sync::words::WORD;

/// Where each page keeps what lies below it on the one stack that it may be on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links<'a> {
    pub(super) region: &'a Region,
    /// One word for each page.
    pub(super) at: Offset,
}

impl Links<'_> {
    fn of(&self, page: PageId) -> &AtomicU64 {
        self.region.word(self.at.plus(page.0 as usize * WORD))
    }
}

/// The page on top, or none, and how often that has changed: so whoever comes late with what he saw on top does nothing.
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
    /// Puts a page on top. It is on no stack.
    pub(super) fn push(&self, links: Links<'_>, page: PageId) {
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            links.of(page).store(top & u64::from(u32::MAX), Ordering::Relaxed);
            // Release: pairs with the Acquire in `pop`: who takes the page finds what lies below it, and what its last holder did with it.
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

    /// Takes the page on top.
    pub(super) fn pop(&self, links: Links<'_>) -> Option<PageId> {
        // Acquire: pairs with the Release in `push`.
        let mut top = self.0.load(Ordering::Acquire);
        loop {
            let page = page_of(top)?;
            // Somebody else may have taken the page, and this be anything: then the top has changed.
            let below = links.of(page).load(Ordering::Relaxed) & u64::from(u32::MAX);
            match self.0.compare_exchange_weak(top, changed(top, below), Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(page),
                Err(other) => top = other,
            }
        }
    }

    /// Whether there is nothing on it at the moment.
    pub(super) fn is_empty(&self) -> bool {
        page_of(self.0.load(Ordering::Relaxed)).is_none()
    }
}
