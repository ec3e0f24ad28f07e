//! Which class gives a page.
//!
//! The class whose hand is slowest looks oldest ([`crate::balance`]). But a hand goes on only where something is stored. A class that is read and
//! seldom written looks ever older, however much it is used: counters, sessions and locks beside a stream of larger things. So before a class gives
//! a page, its hand looks at the page: what was read since it was there last stays, and if that is too much for the other pages of the class, the hand
//! goes on past the page as CLOCK's does past an item that was read, and the class is as young as its next page.

use crate::balance::ONLY_PAGE;
use crate::core::Core;
use crate::index::Scheme;
use crate::order::ClassOrder;
use crate::policy::clock::Hand;
use guira_memory::slab::{ClassGuard, ClassId, PAGE_BYTES, PageId};

/// A page to give is chosen among so many before the hand.
pub(crate) const PAGE_CHOICE: usize = 8;

/// A store that would rather have a page of another class looks at its next pages, or at those of further classes, so many times: some tens of
/// microseconds each. If all are in use the next store goes on.
const LOOKS: usize = 4;
/// If a page has to come from somewhere, so many classes are looked at.
const CLASSES: usize = 16;

/// A page that holds ends of so many long values is spared.
const MANY: u64 = 64;
/// Chunks that sessions may keep to themselves, which are in use and hold nothing.
const KEPT: u64 = 128;

/// What is read of an only page may go to chunks of a larger class if that takes one part in so many of a page.
const LODGERS_PART: usize = 8;

/// What the next pages before a hand hold.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Its place among the pages of its class: of the next few, the one with the fewest items that were read.
    index: usize,
    /// Chunks in use, and how many of them were read since the hand was there.
    used: u32,
    read: u32,
    /// Whether the order of its class heeds every read.
    heeds_reads: bool,
}

impl Page {
    /// How much of it was read, in thousandths.
    fn share(self) -> u32 {
        (u64::from(self.read) * 1000 / u64::from(self.used.max(1))) as u32
    }
}

impl<X: Scheme> Core<X> {
    /// The class that should give a page to `needy`, if any should.
    pub(crate) fn donor(&self, needy: ClassId) -> Option<ClassId> {
        let age = self.balance.age(needy);
        for _ in 0..LOOKS {
            let chosen = self.balance.donor(needy)?;
            if self.holds_tails(chosen) {
                if !self.balance.count_as_young(chosen) {
                    return None;
                }
            } else if !self.is_in_use(chosen, age) {
                return Some(chosen);
            }
        }
        None
    }

    /// The class that gives a page if one has to, to `needy` or to nobody: the oldest whose next page is not in use, or the one that uses its
    /// the least.
    pub(crate) fn oldest_donor(&self, needy: Option<ClassId>) -> Option<ClassId> {
        let mut seen: Vec<ClassId> = needy.into_iter().collect();
        let mut least: Option<(u32, ClassId)> = None;
        while seen.len() < CLASSES
            && let Some(chosen) = self.balance.oldest_but(&seen)
        {
            seen.push(chosen);
            let Some((page, pages)) = self.next_page(chosen, PAGE_CHOICE) else {
                continue;
            };
            // Ends of long values are chunks that nobody reads, and cost whole values.
            let share = if self.holds_tails(chosen) { 1000 } else { page.share() };
            if page.read == 0 && share == 0 || share < 1000 && self.finds_room_for_read(chosen, page, pages) {
                return Some(chosen);
            }
            // An only page is given last of all.
            let rank = if pages == 1 { share + 1000 } else { share };
            if least.is_none_or(|(lowest, _)| rank < lowest) {
                least = Some((rank, chosen));
            }
        }
        least.map(|(_, class)| class)
    }

    /// Whether the next page of `class` had better stay, beside another class that keeps what was used within `age`. Then the hand has gone past it.
    fn is_in_use(&self, class: ClassId, age: u32) -> bool {
        let mut order = self.lock_order(class);
        let mut guard = self.memory.lock(class);
        let Some(page) = self.choose(&order, &guard, PAGE_CHOICE) else {
            return false;
        };
        if page.read == 0 {
            return false;
        }
        let pages = guard.pages().len();
        let since = self.balance.tick().wrapping_sub(guard.stamp(guard.pages()[page.index]));
        let factor = if pages == 1 { ONLY_PAGE } else { 1 };
        // Of what was read since long ago nobody knows whether it was read lately.
        let is_known = since / 2 <= age.saturating_mul(factor).saturating_add(crate::balance::SLACK);
        if is_known && self.finds_room_for_read(class, page, pages) {
            return false;
        }
        self.pass_pages(&mut order, &mut guard);
        self.note_age(class, &order, &guard);
        true
    }

    /// Whether what was read of a page finds room elsewhere at the cost of what was not: in the other pages of its class, or if there are none in chunks
    /// of a larger one.
    fn finds_room_for_read(&self, class: ClassId, page: Page, pages: usize) -> bool {
        if pages > 1 {
            // About a page and a half of all pages was not read.
            return u64::from(page.share()) * pages as u64 <= 1000 * pages as u64 - 1500;
        }
        let chunk = |class| self.memory.classes().geometry(class).chunk as usize;
        // An order that does not heed every read would evict there what was read.
        let host = self.host_of(class).filter(|_| page.heeds_reads);
        host.is_some_and(|host| page.read as usize * chunk(host) <= PAGE_BYTES / LODGERS_PART)
    }

    /// The next larger class that has pages: where items go that are to stay when their class has lost its only page.
    pub(crate) fn host_of(&self, class: ClassId) -> Option<ClassId> {
        self.memory
            .classes()
            .ids()
            .skip(usize::from(class.0) + 1)
            .find(|other| self.balance.has_pages(*other))
    }

    /// The page of a class that would be given, and how many it has.
    fn next_page(&self, class: ClassId, choice: usize) -> Option<(Page, usize)> {
        let order = self.lock_order(class);
        let guard = self.memory.lock(class);
        self.choose(&order, &guard, choice).map(|page| (page, guard.pages().len()))
    }

    /// The place of the page that is to be drained of a class that has some: of the next few before the hand, the one with the fewest items that were read.
    /// Pages that the hand has passed much later than the next one are left out: what was read of them before is forgotten, and looks unread.
    pub(crate) fn page_to_give(
        &self,
        order: &ClassOrder,
        guard: &ClassGuard<'_>,
        choice: usize,
    ) -> Option<usize> {
        let (tick, pages) = (self.balance.tick(), guard.pages());
        let since = |index: &usize| tick.wrapping_sub(guard.stamp(pages[*index]));
        let recent = |index: &usize| self.memory.recent_in(pages[*index]);
        let mut next =
            (next_pages(order, guard)..).take(pages.len().min(choice)).map(|index| index % pages.len());
        let first = next.next()?;
        let others = next.filter(|index| since(index) >= since(&first) / 2);
        std::iter::once(first).chain(others).min_by_key(recent)
    }

    fn choose(&self, order: &ClassOrder, guard: &ClassGuard<'_>, choice: usize) -> Option<Page> {
        let index = self.page_to_give(order, guard, choice)?;
        let (mut used, mut read) = (0, 0);
        self.each_word(guard, guard.pages()[index], |_, occupied, recent| {
            used += occupied.count_ones();
            read += recent.count_ones();
        });
        let heeds_reads = order.placed.state.heeds_every_read();
        Some(Page { index, used, read, heeds_reads })
    }

    /// The hand goes past the pages that were looked at, and forgets what was read of them.
    fn pass_pages(&self, order: &mut ClassOrder, guard: &mut ClassGuard<'_>) {
        let (tick, pages) = (self.balance.tick(), guard.pages().len());
        let first = next_pages(order, guard);
        let passed = pages.min(PAGE_CHOICE);
        for index in first..first + passed {
            let page = guard.pages()[index % pages];
            let mut words = Vec::new();
            self.each_word(guard, page, |word, _, recent| words.push((word, recent)));
            words.into_iter().for_each(|(word, recent)| guard.clear_recent(page, word, recent));
            guard.set_stamp(page, tick);
        }
        let per_page = guard.geometry().bitmap_words as usize;
        order.hand = Hand::at((first + passed) % pages * per_page, 0);
        order.entered = tick;
    }

    /// Shows which chunks of a page are in use, and which of those were read, word by word.
    fn each_word(&self, guard: &ClassGuard<'_>, page: PageId, mut see: impl FnMut(u32, u64, u64)) {
        for word in 0..guard.geometry().bitmap_words {
            let occupied = guira_sync::words::load(self.memory.occupied(page, word));
            see(word, occupied, guard.recent(page, word, occupied));
        }
    }

    /// Whether the pages of `class` hold ends of many long values each.
    ///
    /// A long value lies in chunks of the largest class, and its end in one that fits. The chunks of the end's class come free as the values go, so
    /// that nothing is evicted from that class, its hand stands still, and it looks ever older; but to take a page from it is to evict as many
    /// long values as the page has chunks: of values of 32 KiB and an end of 72 bytes a third of a cache of 300 MB.
    fn holds_tails(&self, class: ClassId) -> bool {
        if class == self.memory.classes().largest() {
            return false;
        }
        let usage = self.memory.lock(class).usage();
        let tails = (usage.chunks - usage.free)
            .saturating_sub(self.shell.registry().items_of(class))
            .saturating_sub(KEPT);
        tails >= MANY * usage.pages.max(1)
    }
}

/// The next page that the hand has not begun with: the first part of the one it is in holds the newest items.
fn next_pages(order: &ClassOrder, guard: &ClassGuard<'_>) -> usize {
    order.hand.word().div_ceil(guard.geometry().bitmap_words as usize)
}
