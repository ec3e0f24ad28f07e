//! Saving and restoring pages across a restart.
//!
//! Descriptors and bitmaps lie in the Region. The stacks do not: they follow from the descriptors and bitmaps. Which
//! chunks are in use follows from the references to them ([`HandedOut`]): a session that did not end in order may
//! have left chunks without references.

use super::{CLASS_BITS, LISTED, LockFreeSlab, whole_word};
use crate::lasting::HandedBy;
use crate::slab::{ClassId, HandedOut, NoPages, PAGE_BYTES, PageId};
use guira_sync::atomic::Ordering;

/// The number of pages that were ever used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    pub pages: u32,
    /// Pages behind them that were committed along with the last one, and are charged.
    pub paid: u32,
}

impl LockFreeSlab {
    /// Gives back the memory of all pages in no class. No thread uses the memory any more.
    pub fn settle(&self) {
        while self.surrender_pooled() {}
    }

    pub fn touched(&self) -> Touched {
        self.pool.touched()
    }

    /// Restores the pages that were in use when [`LockFreeSlab::settle`] was called, and charges the budget with
    /// them. Returns their number. No thread uses the memory yet.
    ///
    /// # Errors
    /// If the descriptors and bitmaps are inconsistent; then the memory must not be used.
    pub fn restore(&self, touched: Touched, by: HandedBy) -> Result<usize, NoPages> {
        let Touched { pages, paid } = touched;
        if pages.checked_add(paid).is_none_or(|all| all > self.page_count) {
            return Err(NoPages);
        }
        let classes: Vec<_> =
            (0..pages).map(|page| self.restored_class(PageId(page))).collect::<Result<_, _>>()?;
        if by == HandedBy::File {
            // All items will be looked at.
            self.map_serving(&classes);
        }
        self.pool.restore(touched, &self.region, self.pages);
        let mut serving = 0;
        // The first page ends on top of the stack.
        for (page, class) in (0..pages).map(PageId).zip(&classes).rev() {
            match class {
                Some(class) => self.serve_again(page, *class)?,
                None => {
                    self.descriptor(page).store(0, Ordering::Relaxed);
                    self.pool.restore_surrendered(self.links(), &self.region, self.pages, page);
                }
            }
            serving += usize::from(class.is_some());
        }
        let in_use = serving + paid as usize;
        self.budget.charge(in_use * PAGE_BYTES);
        Ok(in_use)
    }

    /// The class of `page`, if the descriptor is valid. A page of no class may be marked as listed: see
    /// [`LockFreeSlab::give`], whose page may change its class before it is listed.
    fn restored_class(&self, page: PageId) -> Result<Option<ClassId>, NoPages> {
        let descriptor = self.descriptor(page).load(Ordering::Relaxed);
        let class = self.class_of(page);
        let is_sound = descriptor & !(CLASS_BITS | LISTED) == 0
            && class.is_none_or(|class| self.classes.get(class).is_some());
        if is_sound { Ok(class) } else { Err(NoPages) }
    }

    /// Tells the system to map the pages that are in classes. The others are holes, which it would fill.
    fn map_serving(&self, classes: &[Option<ClassId>]) {
        let mut page = 0;
        for run in classes.chunk_by(|one, next| one.is_some() == next.is_some()) {
            if run[0].is_some() {
                self.region.map_now(self.start_of(PageId(page)).bytes(), run.len() * PAGE_BYTES);
            }
            page += run.len() as u32;
        }
    }

    /// Adds a page to its class as it is.
    fn serve_again(&self, page: PageId, class: ClassId) -> Result<(), NoPages> {
        let geometry = self.classes.geometry(class);
        let mut free = 0;
        for word in 0..geometry.bitmap_words {
            let bits = self.bitmap(page, word).load(Ordering::Relaxed);
            if bits & !whole_word(geometry, word) != 0 {
                return Err(NoPages);
            }
            free += u64::from(bits.count_ones());
        }
        let share = self.share(class);
        share.pages.fetch_add(1, Ordering::Relaxed);
        share.free.fetch_add(free, Ordering::Relaxed);
        let listed = if free > 0 { LISTED } else { 0 };
        self.descriptor(page).store((u64::from(class.0) + 1) | listed, Ordering::Relaxed);
        if free > 0 {
            share.partial.push(self.links(), page);
        }
        Ok(())
    }

    /// The allocated chunks. No thread uses the memory while the result lives.
    pub fn handed_out(&self) -> HandedOut<'_> {
        let pages = (0..self.touched().pages).map(|page| self.class_of(PageId(page)));
        HandedOut::of(&self.classes, self.pages, pages, |page, class, word| {
            whole_word(self.classes.geometry(class), word) & !self.bitmap(page, word).load(Ordering::Relaxed)
        })
    }
}
