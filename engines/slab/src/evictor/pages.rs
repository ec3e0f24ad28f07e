//! Pages that come to a class and leave it, as its order sees them.

use super::class_order::{ClassOrder, Placed};
use super::metadata::Metadata;
use super::view::View;
use crate::pool::cache::ChunkCache;
use guira_memory::slab::{ClassGuard, ClassId, Given, PageId, PageState, Source};

/// Bytes by which an order may grow with a page, at the most: by how much is known only afterwards.
const ORDER_AHEAD: usize = 16 << 10;

/// The only page of a class is left to it for this many ticks: 4 MiB.
const ONLY_PAGE_TICKS: u32 = 1024;

/// When a page counts as empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emptiness {
    /// When nothing is in it.
    Now,
    /// The same; but the only page of a class, when the class has had it for a while: it would ask for another a moment
    /// later.
    ForGood,
}

/// Takes up to `want` free chunks into `cache`, after adding a page to the class if there is one. False if there is
/// neither.
pub(crate) fn grow(
    view: View<'_>,
    class: ClassId,
    source: Source,
    (cache, want): (&mut ChunkCache, usize),
) -> bool {
    let pool = view.pool;
    let mut order = view.orders.lock(class);
    let mut guard = pool.memory().lock(class);
    let ahead = if order.bytes() > 0 { ORDER_AHEAD } else { 0 };
    let metadata = view.metadata_bytes(&order, guard.geometry());
    let index = order.place_for_page(&guard);
    if guard.grow(index, pool.balance().tick(), source, metadata + ahead) {
        pool.budget().give(ahead);
        order.page_added(&guard);
        view.note_age(class, &order, &guard);
        pool.balance().settle(class);
    }
    cache.take(class, &mut guard, want) > 0
}

/// Takes the page of `class` out of service whose place `choose` says, if it says any.
pub(crate) fn drain(
    view: View<'_>,
    class: ClassId,
    choose: impl FnOnce(View<'_>, &ClassOrder, &ClassGuard<'_>) -> Option<usize>,
) -> Option<(PageId, Given)> {
    let mut order = view.orders.lock(class);
    let mut guard = view.pool.memory().lock(class);
    let index = choose(view, &order, &guard)?;
    let drained = guard.drain(index);
    order.page_removed(index, guard.geometry());
    view.pool.budget().give(view.metadata_bytes(&order, guard.geometry()));
    view.note_age(class, &order, &guard);
    // Under the lock of the class: the session that gives the page's last chunk back finds the page in the list.
    view.pool.drains().begin(drained.0);
    Some(drained)
}

/// Takes a page out of service that holds nothing.
pub(crate) fn drain_empty(view: View<'_>, class: ClassId, emptiness: Emptiness) -> Option<PageId> {
    if !view.pool.balance().has_pages(class) {
        return None;
    }
    let drained = drain(view, class, |_, _, guard| {
        let index = guard.empty_page()?;
        // Under the locks: the page may have come a moment ago.
        let had = view.pool.balance().tick().wrapping_sub(guard.stamp(guard.pages()[index]));
        let is_too_early =
            emptiness == Emptiness::ForGood && guard.pages().len() == 1 && had < ONLY_PAGE_TICKS;
        (!is_too_early).then_some(index)
    });
    let (page, given) = drained?;
    debug_assert_eq!(given, Given::LastOf(page));
    Some(page)
}

/// Puts the pages that have waited long enough into the pool.
pub(crate) fn release_drained(view: View<'_>) {
    let pool = view.pool;
    for page in pool.drains().take_retired(|ticket| pool.quiescence().passed(ticket)) {
        forget(view, page);
        if pool.has_to_surrender() {
            pool.memory().surrender(page);
        } else {
            pool.memory().release(page);
        }
        pool.drains().released();
    }
}

/// Takes the chunks of an empty page out of the order of its class, and gives their metadata back. Every session has
/// passed a quiescent point since the page was drained, so that no event of these chunks is still to come.
fn forget(view: View<'_>, page: PageId) {
    let areas = view.orders.metadata();
    let PageState::Draining(class) = view.pool.memory().state_of(page) else {
        return;
    };
    if !areas.iter().any(Metadata::was_used) {
        return;
    }
    let geometry = view.pool.memory().classes().geometry(class);
    let mut order = view.orders.lock(class);
    let forget = |placed: &mut Placed| {
        let chunks = view.chunks(placed.area, class, &[]);
        if !areas[placed.area].notes().is_none() {
            (0..geometry.chunks).for_each(|chunk| placed.state.removed(&chunks, chunks.number(page, chunk)));
        }
    };
    forget(&mut order.placed);
    if let Some(incoming) = &mut order.incoming {
        forget(&mut incoming.placed);
        incoming.pages.retain(|other| *other != page);
    }
    drop(order);
    // The budget got it back when the page was drained: which areas are in use may have changed since.
    areas.iter().for_each(|metadata| metadata.discard_all(page));
}
