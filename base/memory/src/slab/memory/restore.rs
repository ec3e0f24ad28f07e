//! Saving and restoring pages across a restart.
//!
//! Descriptors and bitmaps lie in the Region. The pages of a class, their order, and the number of its free chunks
//! follow from them.

use super::SlabMemory;
use crate::lasting::Damage;
use crate::slab::page::Descriptor;
use crate::slab::{ClassId, HandedOut, PAGE_BYTES, PageId, PageState};
use guira_sync::atomic::Ordering;
use guira_sync::words::{self, WORD};

/// The descriptors and bitmaps are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPages;

impl SlabMemory {
    /// Leaves every page serving or given back. No thread uses the memory any more.
    pub fn settle(&self) {
        for page in (0..self.pages_touched()).map(PageId) {
            let PageState::Draining(class) = self.state_of(page) else {
                continue;
            };
            let descriptor = self.descriptor(page);
            if descriptor.free() == self.classes.geometry(class).chunks {
                self.surrender(page);
            } else {
                // A chunk that could not be evicted holds an ordinary item.
                self.set_descriptor(page, descriptor.serving_again());
            }
        }
        while self.give_back(0) {}
    }

    /// Restores the pages that were in use when [`SlabMemory::settle`] was called: the first `touched`. `now` is the
    /// current stamp. Returns the number of serving pages. No thread uses the memory yet.
    ///
    /// # Errors
    /// If the descriptors and bitmaps are inconsistent; then the memory must not be used.
    pub fn restore(&self, touched: u32, now: u32) -> Result<usize, NoPages> {
        if touched > self.page_count {
            return Err(NoPages);
        }
        let mut serving: Vec<Vec<PageId>> = self.classes.ids().map(|_| Vec::new()).collect();
        let mut pool = self.lock_pool();
        for page in (0..touched).map(PageId) {
            match self.restored_class(page)? {
                Some(class) => serving[usize::from(class.0)].push(page),
                None => {
                    // A page in no class is not charged. If the system does not support holes, its contents are
                    // undefined.
                    let _ = self.region.discard(self.start_of(page).bytes(), PAGE_BYTES);
                    pool.surrendered.push(page);
                }
            }
        }
        pool.fresh = touched..self.page_count;
        drop(pool);
        let mut count = 0;
        for (class, mut pages) in self.classes.ids().zip(serving) {
            // The hand visits the pages in the order of its last visits.
            pages.sort_by_key(|page| std::cmp::Reverse(now.wrapping_sub(self.descriptor(*page).stamp())));
            count += pages.len();
            let chunks = self.classes.geometry(class).chunks;
            let empty = pages.iter().filter(|page| self.descriptor(**page).free() == chunks).count();
            self.empty.fetch_add(empty as u32, Ordering::Relaxed);
            let mut state = self.lock(class).state;
            state.free = pages.iter().map(|page| u64::from(self.descriptor(*page).free())).sum();
            state.partial = pages.iter().copied().filter(|page| self.descriptor(*page).free() > 0).collect();
            state.pages = pages;
        }
        Ok(count)
    }

    /// Whether damaged blocks hold descriptors of the first `touched` pages.
    pub fn has_lost_classes(&self, touched: u32, damage: &Damage) -> bool {
        damage.touches(self.descriptors.bytes(), touched as usize * WORD)
    }

    /// Takes damaged pages among the first `touched` out of their classes, before they are restored. No thread uses
    /// the memory yet. This writes to the Region: if it is not used afterwards, its checksums do not match.
    pub fn drop_damaged(&self, touched: u32, damage: &Damage) {
        for page in (0..touched.min(self.page_count)).map(PageId) {
            if damage.touches(self.start_of(page).bytes(), PAGE_BYTES) {
                self.set_descriptor(page, Descriptor::FREE);
            }
        }
    }

    /// The allocated chunks in the first `touched` pages. No thread uses the memory while the result lives.
    pub fn handed_out(&self, touched: u32) -> HandedOut<'_> {
        let class_of = |page| match self.state_of(PageId(page)) {
            PageState::Serving(class) => Some(class),
            PageState::Free | PageState::Draining(_) => None,
        };
        HandedOut::of(&self.classes, self.pages, (0..touched).map(class_of), |page, _, word| {
            words::load(self.occupied(page, word))
        })
    }

    /// The class of `page`, if its descriptor and its bitmap agree.
    fn restored_class(&self, page: PageId) -> Result<Option<ClassId>, NoPages> {
        let descriptor = self.descriptor(page);
        let class = match descriptor.state() {
            PageState::Free if descriptor == Descriptor::FREE => return Ok(None),
            PageState::Free | PageState::Draining(_) => return Err(NoPages),
            PageState::Serving(class) => class,
        };
        let geometry = self.classes.get(class).ok_or(NoPages)?;
        let mut occupied = 0;
        for word in 0..geometry.bitmap_words {
            let bits = words::load(self.occupied(page, word));
            let chunks = (geometry.chunks - word * 64).min(64);
            if chunks < 64 && bits >> chunks != 0 {
                return Err(NoPages);
            }
            occupied += bits.count_ones();
        }
        if descriptor != Descriptor::serving(class, geometry.chunks - occupied, descriptor.stamp()) {
            return Err(NoPages);
        }
        Ok(Some(class))
    }
}
