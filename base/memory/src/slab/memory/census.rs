//! A count of all pages by state.

use super::SlabMemory;
use crate::slab::{PageId, PageState};

/// The number of pages by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCensus {
    /// Of a class, which allocates from them.
    pub serving: usize,
    /// Of a class, and draining.
    pub draining: usize,
    /// Of no class, and committed.
    pub pooled: usize,
    /// Never used, but committed: together with another page, or in advance.
    pub paid: usize,
    /// Never used.
    pub fresh: usize,
    pub surrendered: usize,
}

impl PageCensus {
    pub fn committed(&self) -> usize {
        self.serving + self.draining + self.pooled + self.paid
    }

    pub fn total(&self) -> usize {
        self.committed() + self.fresh + self.surrendered
    }
}

impl SlabMemory {
    /// Counts the pages. Pages that change their state concurrently may be missed.
    pub fn census(&self) -> PageCensus {
        let classes = || self.classes.ids().map(|class| self.lock(class).pages().len());
        let serving = classes().sum();
        let pool = self.lock_pool();
        let touched = (0..pool.fresh.start).map(|page| self.state_of(PageId(page)));
        let draining = touched.filter(|state| matches!(state, PageState::Draining(_))).count();
        let paid = pool.paid as usize + pool.coming.len();
        PageCensus {
            serving,
            draining,
            pooled: pool.free.len(),
            paid,
            fresh: pool.fresh.len() - paid,
            surrendered: pool.surrendered.len(),
        }
    }
}
