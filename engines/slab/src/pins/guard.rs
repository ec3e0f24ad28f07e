//! Holding on to an item while memory is found for what comes in its place: or the hand might take the very item that is to
//! be changed, and the command would find nothing.

use crate::core::Core;
use crate::index::Scheme;
use guira_contract::Key;
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// A pin on an item, taken back on drop. What is pinned is not evicted.
#[derive(Debug)]
pub(crate) struct PinGuard<X: Scheme> {
    core: Arc<Core<X>>,
    at: Offset,
}

impl<X: Scheme> PinGuard<X> {
    /// Holds the item under `key`. `None` if there is none.
    pub(crate) fn take(core: &Arc<Core<X>>, key: Key<'_>, now: Seconds) -> Option<Self> {
        loop {
            let at = linked(core, key, now)?;
            core.pins.pin(at);
            let guard = PinGuard { core: core.clone(), at };
            // As readers do: if it was unlinked, or moved to another chunk, before it was pinned, the pin is worth nothing.
            if linked(core, key, now) == Some(at) {
                return Some(guard);
            }
        }
    }

    /// The same, if a key is given.
    pub(crate) fn of(core: &Arc<Core<X>>, key: Option<&[u8]>, now: Seconds) -> Option<Self> {
        let bytes = key?;
        Self::take(core, Key { bytes, hash: core.items.shell().hash(bytes) }, now)
    }

    /// Whether what is stored under `key` is still where it was.
    #[cfg(test)]
    pub(crate) fn holds(&self, key: Key<'_>, now: Seconds) -> bool {
        linked(&self.core, key, now) == Some(self.at)
    }
}

impl<X: Scheme> Drop for PinGuard<X> {
    fn drop(&mut self) {
        self.core.unpin(self.at);
    }
}

/// Where the item under `key` is.
fn linked<X: Scheme>(core: &Core<X>, key: Key<'_>, now: Seconds) -> Option<Offset> {
    let held = core.index.lock(key.hash);
    let found =
        held.find(|at| core.items.at(at, now).filter(|item| item.key_is(key.bytes)).map(|item| item.at));
    held.release_unchanged();
    found.map(|(_, at)| at)
}
