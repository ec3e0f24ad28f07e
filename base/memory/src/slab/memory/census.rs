//! Where all pages are.

use super::SlabMemory;
use crate::slab::{PageId, PageState};

/// Where all pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCensus {
    /// In a class, chunks handed out.
    pub serving: usize,
    /// In a class, chunks only coming back.
    pub draining: usize,
    /// In no class, and still committed.
    pub pooled: usize,
    /// Never used, and committed along with others.
    pub paid: usize,
    /// Never used.
    pub fresh: usize,
    /// Used before; their memory was given back to the system.
    pub surrendered: usize,
}

impl PageCensus {
    /// All that are paid for.
    pub fn committed(&self) -> usize {
        self.serving + self.draining + self.pooled + self.paid
    }

    /// All.
    pub fn total(&self) -> usize {
        self.committed() + self.fresh + self.surrendered
    }
}

impl SlabMemory {
    /// Where all pages are. No page may be on its way between classes meanwhile, or it is missed.
    pub fn census(&self) -> PageCensus {
        let classes = || self.classes.ids().map(|class| self.lock(class).pages().len());
        let serving = classes().sum();
        let pool = self.lock_pool();
        let touched = (0..pool.fresh.start).map(|page| self.state_of(PageId(page)));
        let draining = touched.filter(|state| matches!(state, PageState::Draining(_))).count();
        let paid = pool.paid as usize;
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
