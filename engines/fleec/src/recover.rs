//! Checking a Region that another engine left: list and pages have to fit together.
//!
//! Every item lies in a chunk that is in use, no two in the same, is as long as its chunk allows, and lies where its hash belongs. Items that were out of the
//! table but still on the list are taken off, and chunks that nothing refers to are freed.

use crate::core::Core;
use crate::index::{Surveyor, survey};
use crate::options::LINK_BYTES;
use guira_items::{ClassUsage, claim_chain};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, HandedOut};
use guira_sync::clock::Seconds;

struct Claims<'n> {
    core: &'n Core,
    chunks: HandedOut<'n>,
    /// The class of the last chunk that was claimed.
    class: ClassId,
    held: Vec<ClassUsage>,
    /// Items that were taken off the list.
    gone: Vec<Offset>,
}

impl Core {
    /// Checks all items. The engine is not in use yet. Returns the usage of each class; `None` if list and pages do not fit together.
    pub(crate) fn recover(&self) -> Option<Vec<ClassUsage>> {
        let mut claims = Claims {
            core: self,
            chunks: self.memory.slab().handed_out(),
            class: ClassId(0),
            held: vec![ClassUsage::default(); self.memory.classes().len()],
            gone: Vec::new(),
        };
        survey(&self.table, self.shell.region(), &mut claims)?;
        let Claims { mut chunks, held, gone, .. } = claims;
        gone.into_iter().for_each(|at| chunks.disclaim(at));
        chunks.unclaimed().for_each(|at| self.memory.give(at));
        Some(held)
    }
}

/// Bytes of an item, or of a part of one, that fit into a chunk of a class.
fn room_in(core: &Core, class: ClassId) -> usize {
    core.memory.classes().geometry(class).chunk as usize - LINK_BYTES
}

impl Surveyor for Claims<'_> {
    fn claim(&mut self, at: Offset) -> Option<()> {
        self.class = self.chunks.claim(at)?;
        Some(())
    }

    fn check(&mut self, at: Offset) -> Option<u64> {
        let (core, class) = (self.core, self.class);
        let item = core.item(at, Seconds(0))?;
        let hash = core.hash_of(&item);
        if item.shape().size() > room_in(core, class) {
            return None;
        }
        let room_in = |class| room_in(core, class);
        // A broken chain empties the Region: what was claimed of it does not matter.
        if !claim_chain(core.shell.region(), &mut self.chunks, &item, room_in, &mut Vec::new()) {
            return None;
        }
        let held = &mut self.held[usize::from(class.0)];
        *held = ClassUsage { items: held.items + 1, bytes: held.bytes.wrapping_add(Core::bytes_of(&item)) };
        Some(hash)
    }

    fn unlinked(&mut self, at: Offset) {
        self.gone.push(at);
    }
}
