//! Which item goes when memory is needed, and which class gives a page.

mod chunks;
mod circle;
mod class_order;
mod donors;
mod events;
mod metadata;
mod pages;
mod switch;
mod victims;
mod view;

use crate::items::Items;
use crate::policy::clock::Hand;
use crate::policy::table::Policy;
use crate::pool::ChunkPool;
use crate::pool::cache::ChunkCache;
pub(crate) use class_order::ClassOrder;
use class_order::Orders;
pub(crate) use donors::PAGE_CHOICE;
pub(crate) use events::EventQueue;
use guira_contract::{PolicyError, SizeWeight};
use guira_items::{Eviction, OpenError, Residence};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, Geometry, Given, PageId, Source};
use guira_sync::lock::MutexGuard;
use guira_sync::waits::Waits;
use metadata::Metadata;
pub(crate) use pages::Emptiness;
use switch::{PolicySwitch, Wants};
use view::View;

/// The state of the evictor: an order for each class, and the switch from one policy to another.
#[derive(Debug)]
pub(crate) struct EvictorState {
    orders: Orders,
    switch: PolicySwitch,
}

impl EvictorState {
    /// An evictor for up to `pages` pages of `classes` classes.
    pub(crate) fn new(
        policy: Policy,
        (pages, classes): (usize, usize),
        (eviction, residence): (Eviction, Residence),
    ) -> Result<Self, OpenError> {
        let metadata = [Metadata::new(pages, residence)?, Metadata::new(pages, residence)?];
        let orders = Orders::new(policy, classes, metadata);
        Ok(EvictorState { orders, switch: PolicySwitch::new(policy, eviction) })
    }

    /// The evictor over these items and pages.
    #[inline(always)]
    pub(crate) fn over<'a>(&'a self, items: &'a Items, pool: &'a ChunkPool) -> Evictor<'a> {
        Evictor { view: View { items, pool, orders: &self.orders }, switch: &self.switch }
    }

    /// Whether a read has anything to do for the policy beyond the recency bit.
    #[inline(always)]
    pub(crate) fn wants_reads(&self) -> bool {
        self.switch.wants().has(Wants::READS)
    }

    /// Whether the policy wants to hear of stores.
    #[inline(always)]
    pub(crate) fn wants_stores(&self) -> bool {
        self.switch.wants().has(Wants::STORES)
    }

    /// The policy there is, and the one that takes over.
    pub(crate) fn policies(&self) -> (Policy, Option<Policy>) {
        self.switch.policies()
    }

    /// Bytes that the policy notes of each chunk of a class.
    pub(crate) fn metadata_of_chunk(&self, geometry: &Geometry) -> usize {
        self.orders.metadata()[0].chunk_bytes(geometry, self.policies().0.order(0).notes())
    }

    /// What is waited for when orders are locked.
    pub(crate) fn waits(&self) -> &Waits {
        self.orders.waits()
    }

    /// Whether no policy takes over, and nothing is left of one before.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.switch.is_idle()
    }
}

/// The evictor, over the items and pages of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evictor<'a> {
    view: View<'a>,
    switch: &'a PolicySwitch,
}

impl<'a> Evictor<'a> {
    /// The next victims of a class, and how many chunks the hand has looked at. What sessions have still to say of
    /// stores is not in the order yet.
    pub(crate) fn victims(self, class: ClassId, want: usize) -> (Vec<Offset>, u64) {
        victims::take(self.view, class, want)
    }

    /// Adds a page to `class` if there is one, and takes up to `want` free chunks into `cache`. False if there are none.
    pub(crate) fn grow(self, class: ClassId, source: Source, cache: (&mut ChunkCache, usize)) -> bool {
        pages::grow(self.view, class, source, cache)
    }

    /// Takes a page of `donor` out of service: of the next `choice` before the hand the least read. `None` if it has none.
    pub(crate) fn drain(self, donor: ClassId, choice: usize) -> Option<(PageId, Given)> {
        pages::drain(self.view, donor, |view, order, guard| donors::page_to_give(view, order, guard, choice))
    }

    /// Of the items at these places, in a page that is leaving `class`, up to `most` that were stored or used a moment ago, as far as its order knows. The places
    /// of the result are in order.
    pub(crate) fn new_among(self, class: ClassId, places: &[Offset], most: usize) -> Vec<Offset> {
        let order = self.view.orders.lock(class);
        if order.goes_by_hand() {
            return Vec::new();
        }
        let mut new = self.view.new_among(class, &order, places);
        drop(order);
        new.sort_unstable();
        new.truncate(most);
        let mut places: Vec<Offset> = new.into_iter().map(|(_, at)| at).collect();
        places.sort_unstable();
        places
    }

    /// Takes a page out of service that holds nothing. `None` if there is none.
    pub(crate) fn drain_empty(self, emptiness: Emptiness) -> Option<PageId> {
        let classes = self.view.pool.memory().classes();
        classes.ids().find_map(|class| pages::drain_empty(self.view, class, emptiness))
    }

    /// Puts the pages that every session has forgotten into the pool.
    pub(crate) fn release_drained(self) {
        pages::release_drained(self.view);
    }

    /// The class that should give a page to `needy`, if any should.
    pub(crate) fn donor(self, needy: ClassId) -> Option<ClassId> {
        donors::donor(self.view, needy)
    }

    /// The class that gives a page if one has to, to `needy`, or to no class in particular.
    pub(crate) fn oldest_donor(self, needy: Option<ClassId>) -> Option<ClassId> {
        donors::oldest_donor(self.view, needy)
    }

    /// Ages of classes count so much from now on.
    pub(crate) fn weigh(self, weights: &[SizeWeight]) {
        let pool = self.view.pool;
        pool.balance().weigh(weights, pool.memory().classes(), |class| donors::is_of_ends(self.view, class));
    }

    /// Has the orders hear of all events.
    pub(crate) fn flush(self, events: &mut EventQueue) {
        events.flush(self.view, self.switch);
    }

    /// Does for a read what the policy wants beyond the recency bit.
    pub(crate) fn note_read(self, events: &mut EventQueue, at: Offset) {
        events.note_read(self.view, self.switch, at);
    }

    /// Prefetches what the policy notes of the chunk at `at`, which may come from a racy read.
    pub(crate) fn prefetch_metadata(self, at: Offset) {
        events::prefetch_metadata(self.view, at);
    }

    /// Has `policy` take over.
    pub(crate) fn change_policy(self, policy: Policy) -> Result<(), PolicyError> {
        self.switch.change(self.view, policy)
    }

    /// Goes on with what is under way. False if there is nothing to do for now.
    pub(crate) fn switch_step(self) -> bool {
        self.switch.step(self.view)
    }

    /// The order of a class, locked. Taken before the class's own lock.
    pub(crate) fn lock(self, class: ClassId) -> MutexGuard<'a, ClassOrder> {
        self.view.orders.lock(class)
    }

    /// The item of a class that would go next; `None` if the hand says so.
    pub(crate) fn next_to_go(self, class: ClassId, order: &ClassOrder, pages: &[PageId]) -> Option<Offset> {
        self.view.next_to_go(class, order, pages).map(|(at, _)| at)
    }

    /// Bytes of all metadata for a page of a class.
    #[cfg(test)]
    pub(crate) fn metadata_bytes(self, order: &ClassOrder, geometry: &Geometry) -> usize {
        self.view.metadata_bytes(order, geometry)
    }

    /// Begins with a class as another engine has left it: the hand in the first page, which is the one that it came to the
    /// longest ago.
    pub(crate) fn restore(self, class: ClassId, hand: (u32, u32), entered: u32) {
        let mut order = self.lock(class);
        let guard = self.view.pool.memory().lock(class);
        let word = hand.0.min(guard.geometry().bitmap_words - 1);
        order.restore(Policy::default(), Hand::at(word as usize, hand.1), entered);
        self.view.note_age(class, &order, &guard);
    }
}
