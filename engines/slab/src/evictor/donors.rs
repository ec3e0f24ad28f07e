//! Which class gives a page.
//!
//! The class whose hand is slowest looks oldest ([`crate::pool::balance`]). But a hand goes on only where something is stored. A class that is read and
//! seldom written looks ever older, however much it is used: counters, sessions and locks beside a stream of larger things. So before a class gives
//! a page, its hand looks at the page: what was read since it was there last stays, and if that is too much for the other pages of the class, the hand
//! goes on past the page as CLOCK's does past an item that was read, and the class is as young as its next page.

use super::class_order::ClassOrder;
use super::view::View;
use crate::pool::balance::{ONLY_PAGE, SLACK};
use guira_items::Continuation;
use guira_memory::Offset;
use guira_memory::slab::{ClassGuard, ClassId, PageId, PageState};
use std::ops::Range;

/// A page to give is chosen among this many before the hand.
pub(crate) const PAGE_CHOICE: usize = 8;
/// A value of 1 MiB, the longest by default, has chunks in so many pages.
const LONG: usize = 5;

/// A store that would rather have a page of another class looks at its next pages, or at those of further classes, this many times: some tens of
/// microseconds each. If all are in use the next store goes on.
const LOOKS: usize = 4;
/// If a page has to come from somewhere, this many classes are looked at.
const CLASSES: usize = 16;

/// A class whose pages hold ends of this many long values each is spared. With no more chunks than that in a page, they are counted.
const MANY: u64 = 64;
/// Chunks that sessions may keep to themselves, which are in use and hold nothing.
const KEPT: u64 = 128;

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

/// The class that should give a page to `needy`, if any should.
pub(crate) fn donor(view: View<'_>, needy: ClassId) -> Option<ClassId> {
    if !view.pool.balance().keeps_still() {
        let next = view.pool.balance().next_to_look_at();
        if next != needy && has_page_to_spare(view, next) {
            return Some(next);
        }
    }
    for _ in 0..LOOKS {
        let chosen = view.pool.balance().donor(needy)?;
        if holds_tails(view, chosen) {
            if !view.pool.balance().count_as_young(chosen) {
                return None;
            }
        } else if !is_in_use(view, chosen, needy) {
            return Some(chosen);
        }
    }
    None
}

/// Whether a chunk in use is a piece of a long value.
fn is_piece(view: View<'_>, at: Offset) -> bool {
    Continuation::at(view.items.shell().region(), at).is_some()
}

/// Whether a class has done with a page less for long, or what its only page holds would take little of the pages of a larger class. No page goes that has
/// pieces of long values: with it these would go.
fn has_page_to_spare(view: View<'_>, class: ClassId) -> bool {
    if !view.pool.balance().has_pages(class) {
        return false;
    }
    let order = view.orders.lock(class);
    let guard = view.pool.memory().lock(class);
    let usage = guard.usage();
    let is_sparse = match usage.pages {
        0 => false,
        1 => view.pool.would_lodge(class, (usage.chunks - usage.free) as usize),
        _ => usage.free >= u64::from(guard.geometry().chunks) + KEPT,
    };
    let tick = view.pool.balance().tick();
    // A page that has come a moment ago is filled yet.
    let is_settled = || {
        let last = guard.pages().iter().map(|page| tick.wrapping_sub(guard.stamp(*page))).min();
        last.is_some_and(|last| last >= view.pool.fill_ticks() / 2)
    };
    let has_pieces = |page| guard.occupied_chunks(page).into_iter().any(|at| is_piece(view, at));
    let may_go = |index: usize| !has_pieces(guard.pages()[index]);
    is_sparse && is_settled() && page_to_give(view, &order, &guard, PAGE_CHOICE).is_some_and(may_go)
}

/// The class that gives a page if one has to, to `needy`, or to no class in particular: the oldest whose next page is not in use, or the one that uses its
/// the least.
pub(crate) fn oldest_donor(view: View<'_>, needy: Option<ClassId>) -> Option<ClassId> {
    let mut seen: Vec<ClassId> = needy.into_iter().collect();
    let mut least: Option<(u32, ClassId)> = None;
    while seen.len() < CLASSES
        && let Some(chosen) = view.pool.balance().oldest_but(&seen)
    {
        seen.push(chosen);
        let Some((page, pages)) = next_page(view, chosen, PAGE_CHOICE) else {
            continue;
        };
        // Ends of long values are chunks that are never read by themselves, and cost whole values.
        let share = if holds_tails(view, chosen) { 1000 } else { page.share() };
        if page.read == 0 && share == 0 || share < 1000 && finds_room_for_read(view, chosen, page, pages) {
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

/// Whether the next page of `class` had better stay, beside `needy`, which keeps what was used within its age. Then the hand has gone past it.
fn is_in_use(view: View<'_>, class: ClassId, needy: ClassId) -> bool {
    let age = view.pool.balance().age_as_of(needy, class);
    let mut order = view.orders.lock(class);
    let mut guard = view.pool.memory().lock(class);
    let Some(page) = choose(view, &order, &guard, PAGE_CHOICE) else {
        return false;
    };
    if page.read == 0 {
        return false;
    }
    let pages = guard.pages().len();
    let since = view.pool.balance().tick().wrapping_sub(guard.stamp(guard.pages()[page.index]));
    let factor = if pages == 1 { ONLY_PAGE } else { 1 };
    // Bits that the hand has not cleared for long do not say whether an item was read lately.
    let is_known = since / 2 <= age.saturating_mul(factor).saturating_add(SLACK);
    if is_known && finds_room_for_read(view, class, page, pages) {
        return false;
    }
    pass_pages(view, &mut order, &mut guard);
    view.note_age(class, &order, &guard);
    true
}

/// Whether what was read of a page finds room elsewhere at the cost of what was not: in the other pages of its class, or if there are none in chunks
/// of a larger one.
fn finds_room_for_read(view: View<'_>, class: ClassId, page: Page, pages: usize) -> bool {
    if pages > 1 {
        // About a page and a half of all pages was not read.
        return u64::from(page.share()) * pages as u64 <= 1000 * pages as u64 - 1500;
    }
    // An order that does not heed every read would evict there what was read.
    page.heeds_reads && view.pool.fit_beside(class, page.read as usize)
}

/// The page of a class that would be given, and how many it has.
fn next_page(view: View<'_>, class: ClassId, choice: usize) -> Option<(Page, usize)> {
    let order = view.orders.lock(class);
    let guard = view.pool.memory().lock(class);
    choose(view, &order, &guard, choice).map(|page| (page, guard.pages().len()))
}

/// How many of the next pages before the hand are not given, at most a quarter of all. A long value that is evicted leaves chunks that the hand has not come to yet, and what was
/// stored last lies in them.
fn pages_left_out(view: View<'_>, order: &ClassOrder, guard: &ClassGuard<'_>) -> usize {
    if guard.class() == view.pool.memory().classes().largest() && order.placed.state.goes_by_hand() {
        LONG.min(guard.pages().len() / 4)
    } else {
        0
    }
}

/// The pages of a class that may be drained, from the hand on, as places among its pages. Pages that the hand has passed much later than the first are left out:
/// what was read of them before is forgotten, and looks unread.
fn candidates<'g>(
    view: View<'_>,
    order: &ClassOrder,
    guard: &'g ClassGuard<'_>,
    steps: Range<usize>,
) -> impl Iterator<Item = usize> + use<'g> {
    let (tick, pages) = (view.pool.balance().tick(), guard.pages());
    let left_out = pages_left_out(view, order, guard);
    let first = order.next_page(guard.geometry()) + left_out;
    let since = move |step: usize| tick.wrapping_sub(guard.stamp(pages[(first + step) % pages.len()]));
    let steps = steps.start..steps.end.min(pages.len() - left_out);
    let may_go = move |step: &usize| *step == 0 || since(*step) >= since(0) / 2;
    steps.filter(may_go).map(move |step| (first + step) % pages.len())
}

/// Of the next few pages before the hand, the one with the fewest items that were read, and if possible without a part of the long values stored last.
fn best_of_next(
    view: View<'_>,
    order: &ClassOrder,
    guard: &ClassGuard<'_>,
    choice: usize,
    newest: &[PageId],
) -> Option<usize> {
    let cost = |index: &usize| {
        let page = guard.pages()[*index];
        (newest.contains(&page), view.pool.memory().recent_in(page))
    };
    candidates(view, order, guard, 0..choice).min_by_key(cost)
}

/// The place of the page that is to be drained of a class that has some: the best of the next few, or if all of these have parts of the long values stored last,
/// the next one that has none.
pub(crate) fn page_to_give(
    view: View<'_>,
    order: &ClassOrder,
    guard: &ClassGuard<'_>,
    choice: usize,
) -> Option<usize> {
    let newest = view.pool.pages_of_newest();
    let is_spared = |index: usize| newest.contains(&guard.pages()[index]);
    let best = best_of_next(view, order, guard, choice, &newest)?;
    if !is_spared(best) {
        return Some(best);
    }
    let mut others = candidates(view, order, guard, choice..choice + newest.len());
    others.find(|index| !is_spared(*index)).or(Some(best))
}

fn choose(view: View<'_>, order: &ClassOrder, guard: &ClassGuard<'_>, choice: usize) -> Option<Page> {
    let index = best_of_next(view, order, guard, choice, &view.pool.pages_of_newest())?;
    let (mut used, mut read) = (0, 0);
    each_word(view, guard, guard.pages()[index], |_, occupied, recent| {
        used += occupied.count_ones();
        read += recent.count_ones();
    });
    let heeds_reads = order.placed.state.heeds_every_read();
    Some(Page { index, used, read, heeds_reads })
}

/// The hand goes past the pages that were looked at, and forgets what was read of them, but not of those that were left out before them.
fn pass_pages(view: View<'_>, order: &mut ClassOrder, guard: &mut ClassGuard<'_>) {
    let (tick, pages) = (view.pool.balance().tick(), guard.pages().len());
    let left_out = pages_left_out(view, order, guard);
    let first = order.next_page(guard.geometry());
    let passed = left_out + (pages - left_out).min(PAGE_CHOICE);
    let clears_bits = !order.placed.state.clears_bits();
    for index in first..first + passed {
        let page = guard.pages()[index % pages];
        if clears_bits && index >= first + left_out {
            let mut words = Vec::new();
            each_word(view, guard, page, |word, _, recent| words.push((word, recent)));
            words.into_iter().for_each(|(word, recent)| guard.clear_recent(page, word, recent));
        }
        guard.set_stamp(page, tick);
    }
    order.move_hand((first + passed) % pages, guard.geometry(), tick);
}

/// Shows which chunks of a page are in use, and which of those were read, word by word.
fn each_word(view: View<'_>, guard: &ClassGuard<'_>, page: PageId, mut see: impl FnMut(u32, u64, u64)) {
    for word in 0..guard.geometry().bitmap_words {
        let occupied = guira_sync::words::load(view.pool.memory().occupied(page, word));
        see(word, occupied, guard.recent(page, word, occupied));
    }
}

/// Whether most chunks in use of `class` are no items, but ends of long values.
pub(crate) fn is_of_ends(view: View<'_>, class: ClassId) -> bool {
    if class == view.pool.memory().classes().largest() || !view.pool.balance().has_pages(class) {
        return false;
    }
    let items = view.items.shell().registry().items_of(class);
    let guard = view.pool.memory().lock(class);
    let usage = guard.usage();
    if 2 * items >= usage.chunks - usage.free {
        return false;
    }
    // The others may be what sessions keep for what comes.
    let page = guard.pages().first().map_or_else(Vec::new, |page| guard.occupied_chunks(*page));
    let pieces = page.iter().filter(|at| is_piece(view, **at)).count();
    2 * pieces > page.len()
}

/// Whether the pages of `class` hold ends of many long values each, or whether the page that would be given has a part of one of those stored last.
///
/// A long value lies in chunks of the largest class, and its end in one that fits. The chunks of the end's class come free as the values go, so
/// that nothing is evicted from that class, its hand stands still, and it looks ever older; but to take a page from it is to evict as many
/// long values as the page has chunks: of values of 32 KiB and an end of 72 bytes a third of a cache of 300 MB.
fn holds_tails(view: View<'_>, class: ClassId) -> bool {
    if class == view.pool.memory().classes().largest() {
        return false;
    }
    let items = view.items.shell().registry().items_of(class);
    let order = view.orders.lock(class);
    let guard = view.pool.memory().lock(class);
    let usage = guard.usage();
    let others = (usage.chunks - usage.free).saturating_sub(items);
    // The others may be what sessions keep for what comes.
    if others.saturating_sub(KEPT) >= MANY * usage.pages.max(1) {
        return true;
    }
    let may_be_of_tails = others > 0 && u64::from(guard.geometry().chunks) <= MANY;
    let newest = view.pool.pages_of_newest();
    let is_of_class = |page: &PageId| view.pool.memory().state_of(*page) == PageState::Serving(class);
    if !may_be_of_tails && !newest.iter().any(is_of_class) {
        return false;
    }
    let page = page_to_give(view, &order, &guard, PAGE_CHOICE).map(|index| guard.pages()[index]);
    page.is_some_and(|page| may_be_of_tails && is_of_tails(view, &guard, page) || newest.contains(&page))
}

/// Whether with a page more long values would go than with a page of the largest class.
fn is_of_tails(view: View<'_>, guard: &ClassGuard<'_>, page: PageId) -> bool {
    let largest = view.pool.memory().classes().largest();
    let most = view.pool.memory().classes().geometry(largest).chunks as usize;
    let pieces = guard.occupied_chunks(page).into_iter().filter(|at| is_piece(view, *at));
    pieces.take(most + 1).count() > most
}
