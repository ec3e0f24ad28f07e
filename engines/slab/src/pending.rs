//! Values that lie in several chunks, and values that arrive in pieces.
//!
//! An item that does not fit the largest chunk begins in one of these and goes on in others: see [`guira_items::Pieces`].

use crate::core::Core;
use crate::index::Scheme;
use crate::session::SlabSession;
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
    /// What of it counts in [`Core::arriving`].
    counted: u64,
}

impl<X: Scheme> SlabPending<X> {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.chunks.is_for(fields, value_len)
    }

    /// Appends bytes that there are chunks for.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.chunks.append(self.core.shell.region(), bytes);
    }

    /// Turns the pending value into an item by writing everything but the value, and returns where it is.
    pub(crate) fn finish(mut self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        let at = self.chunks.write(self.core.shell.region(), header_spec, now);
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
        self.core.arriving.fetch_sub(self.counted, Ordering::Relaxed);
        self.chunks.take_chunks().for_each(|at| self.core.give_chunk(at));
    }
}

impl<X: Scheme> SlabSession<X> {
    /// A pending value of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
    pub(crate) fn new_pending(&mut self, key_len: usize, spec: &ItemSpec) -> Option<SlabPending<X>> {
        let fields = self.core.fields_of(spec);
        let now = self.core.shell.time_seen();
        let mut pending = self.begin_pending(key_len, fields, spec.value_len, now)?;
        let reserved = pending.chunks.reserved();
        self.count_arriving(&mut pending, reserved)?;
        Some(pending)
    }

    /// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
    pub(crate) fn extend_pending(&mut self, pending: &mut SlabPending<X>, mut bytes: &[u8]) -> bool {
        assert!(bytes.len() <= pending.missing(), "more than the value has room for");
        loop {
            let part = bytes.len().min(pending.chunks.room());
            pending.append(&bytes[..part]);
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return true;
            }
            let now = self.core.shell.time_seen();
            let more = self.add_chunk(pending, now).and_then(|part| self.count_arriving(pending, part));
            if more.is_none() {
                return false;
            }
        }
    }

    /// Counts `bytes` more of the pending value as arriving. None if that is too much.
    fn count_arriving(&self, pending: &mut SlabPending<X>, bytes: usize) -> Option<()> {
        let limit = self.core.budget.limit();
        let most = (limit - limit / KEPT_PART) as u64;
        // Relaxed: a limit that two may pass together is as good.
        let before = self.core.arriving.fetch_add(bytes as u64, Ordering::Relaxed);
        pending.counted += bytes as u64;
        (before + bytes as u64 <= most).then_some(())
    }

    /// The same with the fields given, and with memory for all of it.
    pub(crate) fn pending_with(
        &mut self,
        key_len: usize,
        fields: Fields,
        value_len: usize,
        now: Seconds,
    ) -> Option<SlabPending<X>> {
        let mut pending = self.begin_pending(key_len, fields, value_len, now)?;
        while pending.chunks.reserved() < pending.chunks.total() {
            self.add_chunk(&mut pending, now)?;
        }
        Some(pending)
    }

    /// A pending value that has its first chunk.
    fn begin_pending(
        &mut self,
        key_len: usize,
        fields: Fields,
        value_len: usize,
        now: Seconds,
    ) -> Option<SlabPending<X>> {
        let largest = self.core.memory.classes().largest_item();
        let shape = PendingChunks::shape_of(largest, key_len, fields, value_len);
        let first = self.take_chunk(shape.size(), now)?;
        fence_after_taking();
        let chunks = PendingChunks::new(shape, value_len, first);
        Some(SlabPending { core: self.core.clone(), chunks, counted: 0 })
    }

    /// Adds a chunk to a pending value that lacks one. Returns how much of the value goes into it.
    fn add_chunk(&mut self, pending: &mut SlabPending<X>, now: Seconds) -> Option<usize> {
        let largest = self.core.memory.classes().largest_item();
        let (part, size) = pending.chunks.next_part(largest);
        let at = self.take_chunk(size, now)?;
        fence_after_taking();
        pending.chunks.add(at, part);
        Some(part)
    }
}

/// Release fence: pairs with the Acquire fence of a reader's validation. Whoever sees what is written into a chunk from now on also sees the
/// version under which its last item was unlinked.
fn fence_after_taking() {
    fence(Ordering::Release);
}
