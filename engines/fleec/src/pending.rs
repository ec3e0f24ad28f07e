//! Values that arrive in pieces, and values that lie in several chunks: an item that does not fit the largest chunk begins in one of these and goes on
//! in others ([`guira_items::Pieces`]).

use crate::core::Core;
use crate::reclaim::Taking;
use crate::session::FleecSession;
use guira_contract::{ItemSpec, PendingValue};
use guira_items::{Fields, ItemHeaderSpec, KEPT_PART, PendingChunks};
use guira_memory::Offset;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Who a pending value was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A client, who sends the value.
    Arriving,
    /// A value that the engine puts together.
    Joining,
}

/// Memory for one item whose value is not there yet.
#[derive(Debug)]
pub struct FleecPending {
    core: Arc<Core>,
    purpose: Purpose,
    /// Without chunks once the pending value has become an item.
    chunks: PendingChunks,
    /// What of it counts in [`Core::arriving`].
    counted: u64,
}

impl FleecPending {
    /// Whether it was made for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.chunks.is_for(fields, value_len)
    }

    /// Whether a client sends the value.
    pub(crate) fn is_the_clients(&self) -> bool {
        self.purpose == Purpose::Arriving
    }

    /// Forgets what has arrived.
    pub(crate) fn begin_anew(&mut self) {
        self.chunks.begin_anew();
    }

    /// Appends bytes that there are chunks for.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.chunks.append(self.core.shell.region(), bytes);
    }

    /// Writes everything but the value, so that the pending value can be put into the table, and returns where the item is.
    pub(crate) fn write(&self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        self.chunks.write(self.core.shell.region(), header_spec, now)
    }

    /// It is in the table: its chunks are the item's.
    pub(crate) fn published(mut self) {
        drop(self.chunks.take_chunks());
    }
}

impl PendingValue for FleecPending {
    fn missing(&self) -> usize {
        self.chunks.missing()
    }

    fn value_len(&self) -> usize {
        self.chunks.total()
    }
}

impl Drop for FleecPending {
    fn drop(&mut self) {
        self.core.arriving.fetch_sub(self.counted, Ordering::Relaxed);
        self.chunks.take_chunks().for_each(|at| self.core.memory.give(at));
    }
}

impl FleecSession {
    /// A pending value of an item with a key of `key_len` bytes, in one chunk if it fits, with memory for the first of it. None if there is none.
    pub(crate) fn new_pending(&mut self, key_len: usize, spec: &ItemSpec) -> Option<FleecPending> {
        let fields = self.core.fields_of(spec);
        let now = self.core.shell.time_seen();
        let mut pending = self.begin_pending(key_len, fields, spec.value_len, now, Purpose::Arriving)?;
        let reserved = pending.chunks.reserved();
        self.count_arriving(&mut pending, reserved)?;
        Some(pending)
    }

    /// Appends `bytes`, and takes memory for them as it is needed. False if there is none.
    pub(crate) fn extend_pending(&mut self, pending: &mut FleecPending, mut bytes: &[u8]) -> bool {
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
    fn count_arriving(&self, pending: &mut FleecPending, bytes: usize) -> Option<()> {
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
    ) -> Option<FleecPending> {
        let mut pending = self.begin_pending(key_len, fields, value_len, now, Purpose::Joining)?;
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
        purpose: Purpose,
    ) -> Option<FleecPending> {
        let largest = self.core.memory.classes().largest_item();
        let shape = PendingChunks::shape_of(largest, key_len, fields, value_len);
        let first = self.take_chunk(shape.size(), now)?;
        let chunks = PendingChunks::new(shape, value_len, first);
        Some(FleecPending { core: self.core.clone(), purpose, chunks, counted: 0 })
    }

    /// Adds a chunk to a pending value that lacks one. Returns how much of the value goes into it.
    fn add_chunk(&mut self, pending: &mut FleecPending, now: Seconds) -> Option<usize> {
        let largest = self.core.memory.classes().largest_item();
        let (part, size) = pending.chunks.next_part(largest);
        let at = self.take_chunk(size, now)?;
        pending.chunks.add(at, part);
        Some(part)
    }

    /// A chunk for `size` bytes.
    fn take_chunk(&mut self, size: usize, now: Seconds) -> Option<Offset> {
        let class = self.core.memory.classes().class_for(size)?;
        if self.caches[usize::from(class.0)].is_empty() {
            self.refill(class, Taking::Fresh, now).ok()?;
        }
        let taken = self.caches[usize::from(class.0)].pop();
        // Release fence: pairs with the Acquire fence of `find`: see `crate::update`.
        fence(Ordering::Release);
        taken
    }
}
