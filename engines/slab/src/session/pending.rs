//! Values that lie in several chunks, and values that arrive in pieces.
//!
//! An item that does not fit the largest chunk begins in one of these and goes on in others: see [`guira_items::Pieces`].

use super::refill;
use super::state::SessionState;
use crate::core::Core;
use crate::index::Scheme;
use guira_contract::{ItemSpec, PendingValue};
use guira_items::{Fields, ItemHeaderSpec, KEPT_PART, PendingChunks};
use guira_memory::Offset;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Memory for one item whose value is not there yet.
#[derive(Debug)]
pub struct SlabPending<X: Scheme> {
    core: Arc<Core<X>>,
    /// Without chunks once the pending value has become an item.
    chunks: PendingChunks,
    /// What of it counts in [`ChunkPool::arriving`](crate::pool::ChunkPool::arriving).
    counted: u64,
}

impl<X: Scheme> SlabPending<X> {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.chunks.is_for(fields, value_len)
    }

    /// Appends bytes that there are chunks for.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.chunks.append(self.core.items.region(), bytes);
    }

    /// Turns the pending value into an item by writing everything but the value, and returns where it is.
    pub(crate) fn finish(mut self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        let at = self.chunks.write(self.core.items.region(), header_spec, now);
        drop(self.chunks.take_chunks());
        at
    }
}

impl<X: Scheme> PendingValue for SlabPending<X> {
    fn missing(&self) -> usize {
        self.chunks.missing()
    }

    fn value_len(&self) -> usize {
        self.chunks.total()
    }
}

impl<X: Scheme> Drop for SlabPending<X> {
    fn drop(&mut self) {
        self.core.pool.arriving().fetch_sub(self.counted, Ordering::Relaxed);
        self.chunks.take_chunks().for_each(|at| self.core.pool.give(at));
    }
}

/// A pending value of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
pub(crate) fn begin<X: Scheme>(
    state: &mut SessionState<X>,
    key_len: usize,
    spec: &ItemSpec,
) -> Option<SlabPending<X>> {
    let fields = state.core.items.fields_of(spec);
    let now = state.core.items.shell().time_seen();
    let mut pending = first_chunk(state, key_len, fields, spec.value_len, now)?;
    let reserved = pending.chunks.reserved();
    count_arriving(state, &mut pending, reserved)?;
    Some(pending)
}

/// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
pub(crate) fn extend<X: Scheme>(
    state: &mut SessionState<X>,
    pending: &mut SlabPending<X>,
    mut bytes: &[u8],
) -> bool {
    assert!(bytes.len() <= pending.missing(), "more than the value has room for");
    loop {
        let part = bytes.len().min(pending.chunks.room());
        pending.append(&bytes[..part]);
        bytes = &bytes[part..];
        if bytes.is_empty() {
            return true;
        }
        let now = state.core.items.shell().time_seen();
        let more = add_chunk(state, pending, now).and_then(|part| count_arriving(state, pending, part));
        if more.is_none() {
            return false;
        }
    }
}

/// Counts `bytes` more of the pending value as arriving. None if that is too much.
fn count_arriving<X: Scheme>(
    state: &SessionState<X>,
    pending: &mut SlabPending<X>,
    bytes: usize,
) -> Option<()> {
    let limit = state.core.pool.budget().limit();
    let most = (limit - limit / KEPT_PART) as u64;
    // Relaxed: a limit that two may pass together is as good.
    let before = state.core.pool.arriving().fetch_add(bytes as u64, Ordering::Relaxed);
    pending.counted += bytes as u64;
    (before + bytes as u64 <= most).then_some(())
}

/// The same with the fields given, and with memory for all of it.
pub(crate) fn with_memory<X: Scheme>(
    state: &mut SessionState<X>,
    key_len: usize,
    fields: Fields,
    value_len: usize,
    now: Seconds,
) -> Option<SlabPending<X>> {
    let mut pending = first_chunk(state, key_len, fields, value_len, now)?;
    while pending.chunks.reserved() < pending.chunks.total() {
        add_chunk(state, &mut pending, now)?;
    }
    Some(pending)
}

/// A pending value that has its first chunk.
fn first_chunk<X: Scheme>(
    state: &mut SessionState<X>,
    key_len: usize,
    fields: Fields,
    value_len: usize,
    now: Seconds,
) -> Option<SlabPending<X>> {
    let largest = state.core.pool.memory().classes().largest_item();
    let shape = PendingChunks::shape_of(largest, key_len, fields, value_len);
    let first = refill::take_chunk(state, shape.size(), now)?;
    fence_after_taking();
    let chunks = PendingChunks::new(shape, value_len, first);
    Some(SlabPending { core: state.core.clone(), chunks, counted: 0 })
}

/// Adds a chunk to a pending value that lacks one. Returns how much of the value goes into it.
fn add_chunk<X: Scheme>(
    state: &mut SessionState<X>,
    pending: &mut SlabPending<X>,
    now: Seconds,
) -> Option<usize> {
    let largest = state.core.pool.memory().classes().largest_item();
    let (part, size) = pending.chunks.next_part(largest);
    let at = refill::take_chunk(state, size, now)?;
    fence_after_taking();
    pending.chunks.add(at, part);
    Some(part)
}

/// Release fence: pairs with the Acquire fence of a reader's validation. Whoever sees what is written into a chunk from now on also sees the
/// version under which its last item was unlinked.
fn fence_after_taking() {
    fence(Ordering::Release);
}
