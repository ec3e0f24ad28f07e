//! What is left of a Region in which blocks are damaged: they are zero, since their contents are unknown.
//!
//! A page that is damaged is in no class any more, and a bucket that is damaged is empty. What the index leads to in such a page is removed from it, and so is a
//! long item that has lost any of its chunks; a chunk to which nothing leads any more is freed. Recency bits that are zero say that nothing was read lately.
//!
//! That takes an index whose entries do not depend on each other. Where links lead through items everything is lost, as it is with the descriptors of pages.

use crate::core::Core;
use crate::index::Scheme;
use crate::items::Items;
use guira_items::{ClassUsage, Item, claim_chain};
use guira_memory::Offset;
use guira_memory::lasting::Damage;
use guira_memory::slab::{ClassId, HandedOut, PageId, PageState};
use guira_sync::clock::Seconds;
use std::collections::HashSet;

/// Whether nothing can be found without what is damaged.
pub(crate) fn is_lost<X: Scheme>(core: &Core<X>, touched: u32, damage: &Damage) -> bool {
    !damage.is_none() && (X::LINK_BYTES > 0 || core.pool.memory().has_lost_classes(touched, damage))
}

/// Removes from the index what leads to nothing, and frees what nothing leads to. Returns the items that are left, by class.
/// The pages were restored, and no session uses the engine yet.
pub(crate) fn salvage<X: Scheme>(core: &Core<X>, touched: u32) -> Vec<ClassUsage> {
    let mut chunks = core.pool.memory().handed_out(touched);
    core.index.retain(|at| chunks.claim(at).is_some());
    let mut held = vec![ClassUsage::default(); core.pool.memory().classes().len()];
    let mut broken = HashSet::new();
    // In the order of pages, since all items are looked at.
    for page in (0..touched).map(PageId) {
        let PageState::Serving(class) = core.pool.memory().state_of(page) else {
            continue;
        };
        for at in core.pool.memory().lock(class).occupied_chunks(page) {
            // Other chunks than the first of an item may be claimed already, and have no key.
            let is_item = |item: &Item<'_>| item.shape().key_len > 0;
            let Some(item) = core.items.at(at, Seconds(0)).filter(is_item).filter(|_| chunks.is_claimed(at))
            else {
                continue;
            };
            if is_whole(core, &item, &mut chunks) {
                let held = &mut held[usize::from(class.0)];
                *held = held.plus(ClassUsage { items: 1, bytes: Items::bytes_of(&item) });
            } else {
                broken.insert(at);
            }
        }
    }
    if !broken.is_empty() {
        core.index.retain(|at| !broken.contains(&at));
    }
    for at in chunks.unclaimed() {
        if let Some(class) = core.pool.memory().class_at(at) {
            core.pool.memory().lock(class).give(at);
        }
    }
    held
}

/// Whether all chunks of an item are there. They are claimed then; otherwise its first is not any more either.
fn is_whole<X: Scheme>(core: &Core<X>, item: &Item<'_>, chunks: &mut HandedOut<'_>) -> bool {
    let mut claimed: Vec<Offset> = Vec::new();
    let room_in =
        |class: ClassId| core.pool.memory().classes().geometry(class).chunk as usize - X::LINK_BYTES;
    let is_whole = claim_chain(core.items.shell().region(), chunks, item, room_in, &mut claimed);
    if !is_whole {
        claimed.push(item.at);
        claimed.into_iter().for_each(|at| chunks.disclaim(at));
    }
    is_whole
}
