//! A pinned value.

use crate::core::Core;
use guira_contract::{ItemView, ValuePin};
use guira_items::{Item, Pieces};
use guira_memory::Offset;
use guira_sync::hazard::Hazard;
use std::sync::Arc;

/// A long value that stays where it is until this is dropped: it is announced, and an announced item is not freed.
#[derive(Debug)]
pub struct FleecPin {
    core: Arc<Core>,
    _hazard: Hazard,
    length: usize,
    /// Where the parts of the value lie: position in the value, place, length.
    parts: Vec<(usize, Offset, usize)>,
}

impl FleecPin {
    /// Pins `item`. The caller has announced it too, and afterwards checks that it is still there.
    pub(crate) fn of(core: &Arc<Core>, item: &Item<'_>) -> Self {
        let hazard = core.announcements.pin(item);
        let mut parts = Vec::new();
        let mut position = 0;
        for (place, length) in Pieces::of(core.shell.region(), item) {
            parts.push((position, place, length));
            position += length;
        }
        FleecPin { core: core.clone(), _hazard: hazard, length: item.value_len(), parts }
    }
}

impl ValuePin for FleecPin {
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
        // SAFETY: no thread stores to the value of an item that is in the table, and its chunks are not freed, and so filled again, while it is
        // announced. Its header, which does change, lies in another word.
        unsafe { self.core.shell.region().bytes(place, skip..length) }
    }
}
