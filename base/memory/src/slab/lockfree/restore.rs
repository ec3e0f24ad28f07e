//! Pages that last: left in order when memory is closed, and found again when it is opened.
//!
//! Descriptors and bitmaps lie in the Region and last by themselves. The stacks do not: which pages are on them follows from the descriptors and
//! bitmaps. Which chunks are in use follows from those who refer to them ([`HandedOut`]): a session that ended anyhow may have left some that nobody
//! refers to.

use super::{CLASS_BITS, LISTED, LockFreeSlab, whole_word};
use crate::slab::{ClassId, HandedOut, NoPages, PAGE_BYTES, PageId};
use guira_sync::atomic::Ordering;

/// How many pages were ever put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The first so many.
    pub pages: u32,
    /// So many behind them were committed along with the last, and are paid for.
    pub paid: u32,
}

impl LockFreeSlab {
    /// Gives back the memory of all pages that are in no class. Nobody uses the memory any more.
    pub fn settle(&self) {
        while self.surrender_pooled() {}
    }

    /// How many pages were ever put to use.
    pub fn touched(&self) -> Touched {
        self.pool.touched()
    }

    /// Finds the pages again that were in use when they were settled, and charges the budget with them. Returns how many. The memory is new, and nobody uses it yet.
    ///
    /// # Errors
    /// If the descriptors and bitmaps cannot be those of settled pages; then the memory must not be used.
    pub fn restore(&self, touched: Touched) -> Result<usize, NoPages> {
        let Touched { pages, paid } = touched;
        if pages.checked_add(paid).is_none_or(|all| all > self.page_count) {
            return Err(NoPages);
        }
        let classes: Vec<_> =
            (0..pages).map(|page| self.restored_class(PageId(page))).collect::<Result<_, _>>()?;
        self.map_serving(&classes);
        self.pool.restore(touched, &self.region, self.pages);
        let mut serving = 0;
        // The first page comes to lie on top.
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

    /// The class that `page` serves, if there can be such a descriptor. One of no class may say that it is listed: see [`LockFreeSlab::give`], whose page may
    /// change its class before it is listed.
    fn restored_class(&self, page: PageId) -> Result<Option<ClassId>, NoPages> {
        let descriptor = self.descriptor(page).load(Ordering::Relaxed);
        let class = self.class_of(page);
        let is_sound = descriptor & !(CLASS_BITS | LISTED) == 0
            && class.is_none_or(|class| self.classes.get(class).is_some());
        if is_sound { Ok(class) } else { Err(NoPages) }
    }

    /// Asks the system to map the pages that are in classes. The others are holes, which it would fill.
    fn map_serving(&self, classes: &[Option<ClassId>]) {
        let mut page = 0;
        for run in classes.chunk_by(|one, next| one.is_some() == next.is_some()) {
            if run[0].is_some() {
                self.region.map_now(self.start_of(PageId(page)).bytes(), run.len() * PAGE_BYTES);
            }
            page += run.len() as u32;
        }
    }

    /// Lets a page serve its class as it is.
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

    /// The chunks that are handed out. Nobody uses the memory while that lives.
    pub fn handed_out(&self) -> HandedOut<'_> {
        let pages = (0..self.touched().pages).map(|page| self.class_of(PageId(page)));
        HandedOut::of(&self.classes, self.pages, pages, |page, class, word| {
            whole_word(self.classes.geometry(class), word) & !self.bitmap(page, word).load(Ordering::Relaxed)
        })
    }
}
