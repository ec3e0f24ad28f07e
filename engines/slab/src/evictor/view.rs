//! What every part of the evictor works with.

use super::chunks::ClassChunks;
use super::class_order::{ClassOrder, Orders, Placed};
use crate::items::Items;
use crate::policy::Moment;
use crate::pool::ChunkPool;
use guira_items::Pieces;
use guira_memory::Offset;
use guira_memory::slab::{ClassGuard, ClassId, Geometry, PageId};

/// What was stored before so many ticks, 1 MiB, is not new any more.
const A_MOMENT: u32 = 256;

/// The orders, with the items and the pages that they are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) items: &'a Items,
    pub(crate) pool: &'a ChunkPool,
    pub(crate) orders: &'a Orders,
}

impl<'a> View<'a> {
    pub(crate) fn moment(self) -> Moment {
        Moment { tick: self.pool.balance().tick(), seconds: self.items.shell().time_seen().0 }
    }

    /// The chunks of a class, with their metadata in an area.
    pub(crate) fn chunks(self, area: usize, class: ClassId, pages: &'a [PageId]) -> ClassChunks<'a> {
        let memory = self.pool.memory();
        let geometry = memory.classes().geometry(class);
        ClassChunks::new((self.items, memory), &self.orders.metadata()[area], geometry, pages)
    }

    /// Bytes of all metadata for a page of a class.
    pub(crate) fn metadata_bytes(self, order: &ClassOrder, geometry: &Geometry) -> usize {
        order.areas().map(|area| self.orders.metadata()[area].bytes(geometry)).sum()
    }

    /// Pays for what the order keeps beside its metadata.
    pub(crate) fn charge_order(self, order: &mut ClassOrder) {
        let (before, bytes) = order.charge();
        self.pool.budget().charge(bytes.saturating_sub(before));
        self.pool.budget().give(before.saturating_sub(bytes));
    }

    /// The pages that hold parts of the long values that were stored last.
    pub(crate) fn pages_of_newest(self) -> Vec<PageId> {
        let (region, memory) = (self.items.shell().region(), self.pool.memory());
        let now = self.items.shell().time_seen();
        let items = self.pool.newest().places().filter_map(|at| self.items.at(at, now));
        let chunks = items.flat_map(|item| std::iter::once(item.at).chain(Pieces::places(region, &item)));
        chunks.filter_map(|at| memory.page_at(at)).collect()
    }

    /// The chunk of a class that would go next, and the tick since when it was left alone; `None` if its order goes by the
    /// hand.
    pub(crate) fn next_to_go(
        self,
        class: ClassId,
        order: &ClassOrder,
        pages: &[PageId],
    ) -> Option<(Offset, u32)> {
        let of = |placed: &Placed| {
            let chunks = self.chunks(placed.area, class, pages);
            placed.state.next(&chunks).map(|chunk| (chunks.place(chunk), placed.state.since(&chunks, chunk)))
        };
        of(&order.placed).or_else(|| of(&order.incoming.as_ref()?.placed))
    }

    /// Whether the order of a class knows that what is in a chunk was stored, or used, a moment ago.
    pub(crate) fn is_new(self, class: ClassId, order: &ClassOrder, at: Offset) -> bool {
        let Some((page, _, chunk)) = self.pool.memory().locate(at) else {
            return false;
        };
        let now = self.moment();
        for placed in order.incoming.iter().map(|incoming| &incoming.placed).chain([&order.placed]) {
            let chunks = self.chunks(placed.area, class, &[]);
            let chunk = chunks.number(page, chunk);
            if placed.state.goes_by_hand() {
                return false;
            }
            if placed.state.has(&chunks, chunk) {
                return now.ticks_since(placed.state.since(&chunks, chunk)) < A_MOMENT;
            }
        }
        // A session has still to tell the order of it.
        true
    }

    /// Notes how old `class` is, after its hand has moved or its pages have changed.
    pub(crate) fn note_age(self, class: ClassId, order: &ClassOrder, guard: &ClassGuard<'_>) {
        let under_hand = order.page_under_hand(guard).map(|page| guard.stamp(page));
        let stamp = if order.placed.state.goes_by_hand() {
            under_hand.unwrap_or(0)
        } else {
            let now = self.moment();
            let next = self.next_to_go(class, order, guard.pages()).map_or(now.tick, |(_, tick)| tick);
            // What the hand has passed was read, whatever the order says of when it was stored.
            let passed = under_hand.unwrap_or(next);
            if now.ticks_since(passed) < now.ticks_since(next) { passed } else { next }
        };
        self.pool.balance().note(class, guard.pages().len(), stamp);
    }
}
