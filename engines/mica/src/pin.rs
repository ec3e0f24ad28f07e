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
    /// Where the entry begins, and how many bytes after that its value does.
    entry: Offset,
    value_at: usize,
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
        let entry = of.store().at(offset);
        of.pins().add(entry);
        MicaPin { core: core.clone(), partition, entry, value_at, length }
    }
}

impl<S: ItemStore> ValuePin for MicaPin<S> {
    fn value_len(&self) -> usize {
        self.length
    }

    fn piece(&self, from: usize) -> &[u8] {
        let end = self.value_at + self.length;
        let rest = (self.value_at + from).min(end)..end;
        // SAFETY: no thread stores to the value of a pinned entry: an item is not changed in place then, and the log goes around it. The fields of the entry that
        // do change lie before the value.
        unsafe { self.core.shell.region().bytes(self.entry, rest) }
    }
}

impl<S: ItemStore> Drop for MicaPin<S> {
    fn drop(&mut self) {
        self.core.partitions[self.partition].pins().remove(self.entry);
    }
}
