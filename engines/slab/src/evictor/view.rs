//! What every part of the evictor works with.

use super::chunks::ClassChunks;
use super::class_order::{ClassOrder, Orders, Placed};
use crate::items::Items;
use crate::policy::{Chunk, Lately, Moment};
use crate::pool::ChunkPool;
use guira_memory::Offset;
use guira_memory::slab::{ClassGuard, ClassId, Geometry, PageId};

/// Items that were stored within this many ticks are new: within this many bytes.
const A_MOMENT: u32 = 256;
const A_MOMENT_BYTES: usize = 1 << 20;

/// So many items of a list are looked at, under its lock.
const LOOKED_AT: usize = 4096;

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

    /// Of the items at `places`, which are in order and in one page of the class, those that were stored or used a moment ago, as far as the order of the class
    /// knows, with a number that grows with the age.
    pub(crate) fn new_among(
        self,
        class: ClassId,
        order: &ClassOrder,
        places: &[Offset],
    ) -> Vec<(u32, Offset)> {
        let chunk_bytes = self.pool.memory().classes().geometry(class).chunk as usize;
        let most = (A_MOMENT_BYTES / chunk_bytes).clamp(1, LOOKED_AT);
        let lately = Lately { now: self.moment(), ticks: A_MOMENT, most };
        let orders = order.incoming.iter().map(|incoming| &incoming.placed).chain([&order.placed]);
        let (mut unlisted, mut new) = (places.to_vec(), Vec::new());
        for placed in orders.filter(|placed| !placed.state.goes_by_hand()) {
            let chunks = self.chunks(placed.area, class, &[]);
            let number =
                |at: Offset| self.pool.memory().locate(at).map(|(page, _, chunk)| chunks.number(page, chunk));
            let listed = |at: &mut Offset| number(*at).is_some_and(|chunk| placed.state.has(&chunks, chunk));
            let among: Vec<Chunk> = unlisted.extract_if(.., listed).filter_map(number).collect();
            let newest = placed.state.newest(&chunks, &among, lately);
            new.extend(newest.into_iter().map(|(age, chunk)| (age, chunks.place(chunk))));
        }
        // What is in no list is new to the lists, unless it has still to go over from one; or an order that goes by the hand has it, which does not say
        // whether it is new.
        let is_taking_over =
            order.incoming.as_ref().is_some_and(|incoming| !incoming.placed.state.goes_by_hand());
        if !is_taking_over && !order.placed.state.goes_by_hand() {
            new.extend(unlisted.into_iter().map(|at| (0, at)));
        }
        new
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
