//! Values that arrive in pieces, and values that lie in several chunks: an item that does not fit the largest chunk begins in one of these and continues
//! in others ([`guira_items::Pieces`]).

use crate::allocator::Allocator;
use crate::core::Core;
use guira_contract::{ItemSpec, Key, OldItem, PendingValue};
use guira_items::{Arriving, ChunkHome, Fields, ItemHeaderSpec, Pending};
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;

impl ChunkHome for Core {
    fn region(&self) -> &Region {
        self.shell.region()
    }

    fn largest_item(&self) -> usize {
        self.memory.classes().largest_item()
    }

    fn limit(&self) -> usize {
        self.sizing.budget().limit()
    }

    fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    fn give(&self, at: Offset) {
        self.memory.give(at);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Arriving,
    /// The engine puts the value together.
    Joining,
}

/// Memory for one item whose value is not there yet.
#[derive(Debug)]
pub struct FleecPending {
    purpose: Purpose,
    pending: Pending<Core>,
    /// The key of an item that is not to be evicted for it.
    kept: Option<Box<[u8]>>,
}

impl FleecPending {
    /// A value that a client sends, with memory for its beginning. `None` if there is none.
    pub(crate) fn arriving(allocator: &mut Allocator, key: &[u8], spec: &ItemSpec) -> Option<Self> {
        let core = allocator.local().core().clone();
        let (value, now) = ((core.fields_of(spec), spec.value_len), core.shell.time_seen());
        let kept: Option<Box<[u8]>> = (spec.old == OldItem::Stays).then(|| key.into());
        let held = key_of(&core, kept.as_deref());
        let pending = Pending::arriving(core, key.len(), value, |size| allocator.take(size, held, now))?;
        Some(FleecPending { purpose: Purpose::Arriving, pending, kept })
    }

    /// A value that the engine puts together, with memory for all of it. `None` if there is none.
    pub(crate) fn joining(
        allocator: &mut Allocator,
        key_len: usize,
        value: (Fields, usize),
        now: Seconds,
    ) -> Option<Self> {
        let core = allocator.local().core().clone();
        let pending = Pending::whole(core, key_len, value, |size| allocator.take(size, None, now))?;
        Some(FleecPending { purpose: Purpose::Joining, pending, kept: None })
    }

    /// Appends `bytes`, and takes memory for them as needed. False if there is none.
    pub(crate) fn extend(&mut self, allocator: &mut Allocator, bytes: &[u8]) -> bool {
        let core = allocator.local().core();
        let (held, now) = (key_of(core, self.kept.as_deref()), core.shell.time_seen());
        self.pending.extend(bytes, |size| allocator.take(size, held, now))
    }

    /// Whether it is for an item with these fields and a value of this length.
    pub(crate) fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.pending.is_for(fields, value_len)
    }

    /// Whether a client sends the value.
    pub(crate) fn is_the_clients(&self) -> bool {
        self.purpose == Purpose::Arriving
    }

    /// Forgets the bytes, and keeps the memory.
    pub(crate) fn begin_anew(&mut self) {
        self.pending.begin_anew();
    }

    /// Appends bytes for which there is memory.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.pending.append(bytes);
    }

    /// Writes everything but the value. Returns the place of the item, which can be put into the table.
    pub(crate) fn write(&self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        self.pending.write(header_spec, now)
    }

    /// The chunks belong to the item, which is in the table.
    pub(crate) fn published(self) {
        self.pending.published();
    }
}

fn key_of<'k>(core: &Core, bytes: Option<&'k [u8]>) -> Option<Key<'k>> {
    bytes.map(|bytes| Key { bytes, hash: core.shell.hash(bytes) })
}

impl PendingValue for FleecPending {
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
