//! A pinned value.

use crate::core::Core;
use crate::index::Scheme;
use guira_contract::{ItemView, ValuePin};
use guira_items::{Item, Pieces};
use guira_memory::Offset;
use std::sync::Arc;

/// A long value that stays where it is until this is dropped.
#[derive(Debug)]
pub struct SlabPin<X: Scheme> {
    core: Arc<Core<X>>,
    at: Offset,
    length: usize,
    /// Where the parts of the value lie: position in the value, place, length.
    parts: Vec<(usize, Offset, usize)>,
}

impl<X: Scheme> SlabPin<X> {
    /// The pin of `item`, which was taken before the item was validated.
    pub(crate) fn of(core: &Arc<Core<X>>, item: &Item<'_>) -> Self {
        let mut parts = Vec::new();
        let mut position = 0;
        for (place, length) in Pieces::of(core.items.region(), item) {
            parts.push((position, place, length));
            position += length;
        }
        SlabPin { core: core.clone(), at: item.at, length: item.value_len(), parts }
    }

    pub(crate) fn chunks(&self) -> Vec<Offset> {
        self.core.items.chunks_of(self.at)
    }
}

impl<X: Scheme> ValuePin for SlabPin<X> {
    fn value_len(&self) -> usize {
        self.length
    }

    fn piece(&self, from: usize) -> &[u8] {
        let index = self.parts.partition_point(|(position, _, _)| *position <= from).saturating_sub(1);
        let Some(&(position, place, length)) = self.parts.get(index) else {
            return &[];
        };
        let skip = from - position;
        if skip >= length {
            return &[];
        }
        // SAFETY: the value of a pinned item is stored by no thread: its chunks are freed, and so filled again, only
        // after the last unpin (`Pins`), and `Writer::amend` overwrites in place only values of up to INLINE_MAX bytes, which `Reader::visit` never
        // pins. Its metadata, which does change, lies in other bytes.
        unsafe { self.core.items.region().bytes(place, skip..length) }
    }
}

impl<X: Scheme> Drop for SlabPin<X> {
    fn drop(&mut self) {
        self.core.unpin(self.at);
    }
}
