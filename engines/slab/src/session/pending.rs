//! Values that arrive in pieces, and values that lie in several chunks: an item that does not fit the largest chunk begins in
//! one of these and goes on in others ([`guira_items::Pieces`]).

use super::drain;
use super::refill;
use super::state::SessionState;
use crate::core::Core;
use crate::index::Scheme;
use crate::pins::guard::PinGuard;
use guira_contract::{ItemSpec, OldItem, PendingValue};
use guira_items::{Arriving, ChunkHome, Fields, ItemHeaderSpec, Pending};
use guira_memory::slab::PageState;
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;

impl<X: Scheme> ChunkHome for Core<X> {
    fn region(&self) -> &Region {
        self.items.region()
    }

    fn largest_item(&self) -> usize {
        self.pool.memory().classes().largest_item()
    }

    fn limit(&self) -> usize {
        self.pool.budget().limit()
    }

    fn arriving(&self) -> &Arriving {
        self.pool.arriving()
    }

    fn give(&self, at: Offset) {
        self.pool.give(at);
    }
}

/// Memory for one item whose value is not there yet.
#[derive(Debug)]
pub struct SlabPending<X: Scheme> {
    pending: Pending<Core<X>>,
    /// The key of an item that is not to be evicted for it.
    kept: Option<Box<[u8]>>,
}

impl<X: Scheme> SlabPending<X> {
    /// A value that a client sends, with memory for its beginning. `None` if there is none.
    pub(crate) fn arriving(state: &mut SessionState<'_, X>, key: &[u8], spec: &ItemSpec) -> Option<Self> {
        let core = state.core;
        let (value, now) = ((core.items.fields_of(spec), spec.value_len), core.items.shell().time_seen());
        let kept: Option<Box<[u8]>> = (spec.old == OldItem::Stays).then(|| key.into());
        let take = |size| refill::take_chunk(state, size, kept.as_deref(), now);
        let pending = Pending::arriving(core.clone(), key.len(), value, take)?;
        Some(SlabPending { pending, kept })
    }

    /// A value that the engine puts together, with memory for all of it. `None` if there is none.
    pub(crate) fn joining(
        state: &mut SessionState<'_, X>,
        key_len: usize,
        value: (Fields, usize),
        now: Seconds,
    ) -> Option<Self> {
        let core = state.core;
        let take = |size| refill::take_chunk(state, size, None, now);
        let pending = Pending::whole(core.clone(), key_len, value, take)?;
        Some(SlabPending { pending, kept: None })
    }

    /// Appends `bytes`, and takes memory for them as needed. False if there is none.
    pub(crate) fn extend(&mut self, state: &mut SessionState<'_, X>, bytes: &[u8]) -> bool {
        let now = state.core.items.shell().time_seen();
        let SlabPending { pending, kept } = self;
        pending.extend(bytes, |size| refill::take_chunk(state, size, kept.as_deref(), now))
    }

    /// Leaves pages that drain, before it becomes an item: it would be evicted with them, though it is the newest.
    #[inline]
    pub(crate) fn leave_draining(&mut self, state: &mut SessionState<'_, X>) {
        if state.core.pool.drains().is_draining() {
            self.leave_pages(state);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_pages(&mut self, state: &mut SessionState<'_, X>) {
        let (core, now) = (state.core, state.core.items.shell().time_seen());
        state.local.cache.return_draining(&core.pool);
        let memory = core.pool.memory();
        let SlabPending { pending, kept } = self;
        let _guard = PinGuard::<X>::of(core, kept.as_deref(), now);
        pending.leave(|at| match memory.state_of(memory.page_at(at)?) {
            PageState::Draining(class) => drain::chunk_beside(state, class, now),
            _ => None,
        });
    }

    /// Whether it is for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.pending.is_for(fields, value_len)
    }

    /// Appends bytes for which there is memory.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.pending.append(bytes);
    }

    /// Turns it into an item by writing everything but the value. Returns the place of the item.
    pub(crate) fn finish(self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        let at = self.pending.write(header_spec, now);
        self.pending.published();
        at
    }
}

impl<X: Scheme> PendingValue for SlabPending<X> {
    fn missing(&self) -> usize {
        self.pending.missing()
    }

    fn value_len(&self) -> usize {
        self.pending.value_len()
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.pending.append_to(bytes);
    }
}
