//! Pages on their way out of a class.
//!
//! A page that drains hands out no chunk, and those that are out come back. When all are back it is empty, and retires: it
//! waits until every session has passed a quiescent point, since a reader may still note its access in it. Then it is
//! free for any class.

use guira_memory::slab::PageId;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::quiescence::Ticket;

/// So many pages may drain when another is drained for the table: one that holds something which cannot be evicted now,
/// or which a sleeping session keeps, does not hold up the others.
const DRAINING_MAX: usize = 4;

/// What is in a page that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// What was in it before, or a part of that.
    Old,
    /// What has come since, in chunks that sessions had kept: nothing of the class is newer.
    New,
}

#[derive(Debug, Default)]
pub(crate) struct Drains {
    begun: AtomicU64,
    /// Items that were moved out of pages that drained.
    rescued: AtomicU64,
    /// Parts of long values, after the first, that were.
    parts_rescued: AtomicU64,
    /// How many pages drain or are retired: stored under the lock, loaded in each round of each worker. Relaxed: a hint.
    under_way: AtomicU64,
    /// LOCK: drains. Leaf, except that pages are released while it is held.
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// Out of service, with chunks still to come back.
    draining: Vec<(PageId, Content)>,
    /// Empty, until every session has passed a quiescent point.
    retired: Vec<(PageId, Ticket)>,
    /// Pages that have waited long enough and are being put into the pool.
    releasing: usize,
}

impl Drains {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock()
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(crate) fn count_rescued(&self) {
        self.rescued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rescued_part(&self) {
        self.parts_rescued.fetch_add(1, Ordering::Relaxed);
    }

    /// Items that were moved out of pages that drained.
    pub(crate) fn items_rescued(&self) -> u64 {
        self.rescued.load(Ordering::Relaxed)
    }

    /// Parts of long values, after the first, that were.
    pub(crate) fn parts_rescued(&self) -> u64 {
        self.parts_rescued.load(Ordering::Relaxed)
    }

    /// `page` is out of service. The class is locked, so that the session that gives the last chunk back finds the page
    /// here.
    pub(crate) fn begin(&self, page: PageId) {
        let mut pages = self.pages();
        pages.draining.push((page, Content::Old));
        self.note(&pages);
        drop(pages);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// `page` is empty since `ticket` at the latest.
    pub(crate) fn retire(&self, page: PageId, ticket: Ticket) {
        let mut pages = self.pages();
        pages.draining.retain(|(other, _)| *other != page);
        pages.retired.push((page, ticket));
        self.note(&pages);
    }

    fn note(&self, pages: &Pages) {
        self.under_way.store((pages.draining.len() + pages.retired.len()) as u64, Ordering::Relaxed);
    }

    /// Takes the pages that have waited long enough. The caller releases each and calls [`Drains::released`].
    pub(crate) fn take_retired(&self, passed: impl Fn(Ticket) -> bool) -> Vec<PageId> {
        let mut pages = self.pages();
        let mut taken = Vec::new();
        pages.retired.retain(|(page, ticket)| {
            let passed = passed(*ticket);
            if passed {
                taken.push(*page);
            }
            !passed
        });
        pages.releasing += taken.len();
        self.note(&pages);
        taken
    }

    /// A page that [`Drains::take_retired`] gave is in the pool.
    pub(crate) fn released(&self) {
        self.pages().releasing -= 1;
    }

    /// What was in `page` when it began to drain was moved or evicted, as far as that could be.
    pub(crate) fn looked_at(&self, page: PageId) {
        let mut pages = self.pages();
        let content = pages.draining.iter_mut().find(|(other, _)| *other == page);
        content.into_iter().for_each(|(_, content)| *content = Content::New);
    }

    pub(crate) fn draining(&self) -> Vec<(PageId, Content)> {
        self.pages().draining.clone()
    }

    /// Whether an empty page waits for quiescent points, and for nothing else.
    pub(crate) fn is_retiring(&self) -> bool {
        let pages = self.pages();
        !pages.retired.is_empty() || pages.releasing > 0
    }

    /// Whether another page may be drained for the table.
    pub(crate) fn may_drain(&self) -> bool {
        let pages = self.pages();
        pages.retired.is_empty() && pages.draining.len() < DRAINING_MAX
    }

    /// How many pages drain, and how many wait for quiescent points.
    pub(crate) fn on_their_way(&self) -> (usize, usize) {
        let pages = self.pages();
        (pages.draining.len(), pages.retired.len() + pages.releasing)
    }

    /// Whether a page is on its way from one class to another.
    pub(crate) fn is_draining(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::quiescence::Quiescence;

    #[test]
    fn a_page_drains_retires_and_is_released() {
        let (drains, quiescence) = (Drains::default(), Quiescence::default());
        drains.begin(PageId(3));
        assert_eq!((drains.begun(), drains.on_their_way()), (1, (1, 0)));
        assert_eq!(drains.draining(), [(PageId(3), Content::Old)]);
        drains.looked_at(PageId(3));
        assert_eq!(drains.draining(), [(PageId(3), Content::New)]);
        assert!(drains.may_drain() && drains.is_draining() && !drains.is_retiring());
        drains.retire(PageId(3), quiescence.ticket());
        assert_eq!(drains.on_their_way(), (0, 1));
        assert!(!drains.may_drain() && drains.is_draining() && drains.is_retiring());
        assert!(drains.take_retired(|_| false).is_empty());
        assert_eq!(drains.take_retired(|_| true), [PageId(3)]);
        assert!(drains.is_retiring() && !drains.is_draining(), "it is not in the pool yet");
        drains.released();
        assert!(!drains.is_retiring());
    }
}
