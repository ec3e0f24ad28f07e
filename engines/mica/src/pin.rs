//! A pinned value.

use crate::core::Core;
use crate::store::{ItemStore, Log};
use guira_contract::ValuePin;
use guira_memory::Offset;
use std::sync::Arc;

/// A long value that stays where it is until this is dropped: the log goes around it.
#[derive(Debug)]
pub struct MicaPin<S: ItemStore = Log> {
    core: Arc<Core<S>>,
    partition: usize,
    /// The entry's offset in the log.
    offset: u64,
    /// Where the value begins, rounded down to a word, and how many bytes before it that is.
    at: Offset,
    skip: usize,
    length: usize,
}

impl<S: ItemStore> MicaPin<S> {
    /// Pins the value of `length` bytes that begins `value_at` bytes from the start of the entry at `offset`. The caller holds the partition and has found the
    /// entry there.
    pub(crate) fn new(
        core: &Arc<Core<S>>,
        partition: usize,
        offset: u64,
        value_at: usize,
        length: usize,
    ) -> Self {
        let of = &core.partitions[partition];
        of.pins().add(offset);
        let start = of.store().at(offset).bytes() + value_at;
        let at = Offset::from_bytes(start as u64);
        MicaPin { core: core.clone(), partition, offset, at, skip: start - at.bytes(), length }
    }
}

impl<S: ItemStore> ValuePin for MicaPin<S> {
    fn value_len(&self) -> usize {
        self.length
    }

    fn piece(&self, from: usize) -> &[u8] {
        // SAFETY: no thread stores to the value of a pinned entry: an item is not changed in place then, and the log goes around it. Its first two words, which do
        // change, lie before the value.
        let bytes = unsafe { self.core.shell.region().bytes(self.at, self.skip + self.length) };
        bytes.get(self.skip + from..).unwrap_or_default()
    }
}

impl<S: ItemStore> Drop for MicaPin<S> {
    fn drop(&mut self) {
        self.core.partitions[self.partition].pins().remove(self.offset);
    }
}
