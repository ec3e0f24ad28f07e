//! Clearing a page: its items move to free chunks of the class elsewhere, those in use first, for which the hand is turned if there are none.
//!
//! A page is chosen for its free chunks, and its items are as good as those elsewhere. Without this, a cache whose limit is lowered would lose its
//! hottest items along with the rest.

use crate::core::Core;
use crate::dead;
use crate::evictor;
use crate::index::Target;
use crate::local::Local;
use guira_contract::ItemState;
use guira_items::{Item, Pieces, Removal};
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_memory::slab::lockfree::HeldPage;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words;

/// How often the hand is turned to find chunks for the items in use of one page.
const SWEEPS_A_PAGE: u32 = 64;
/// How many items of a page are moved that are not in use. Bounded for the sake of the store that waits for the page.
const UNUSED_MAX: u32 = 256;

const ATTEMPTS: usize = 8;

enum Moved {
    /// The item was moved, in this flush generation.
    As(u32),
    /// Another session has announced the item or changed its link.
    NotYet,
    /// The item is not there any more.
    Gone,
}

/// A page that is being cleared.
struct Leaving<'h> {
    held: &'h HeldPage,
    class: ClassId,
    sweeps: u32,
    unused: u32,
}

/// Takes all items out of a page.
pub(crate) fn clear_page(local: &mut Local, held: &HeldPage, now: Seconds) {
    let core = local.core().clone();
    let mut leaving = Leaving { held, class: held.class(), sweeps: SWEEPS_A_PAGE, unused: UNUSED_MAX };
    let mut others = Vec::new();
    for at in core.memory.slab().occupied(held) {
        // A chunk that is not free holds an item, a part of one, a part of a value that is arriving, or the remains of one.
        let Some(item) = Pieces::owner_of(core.shell.region(), at, |at| core.item(at, now)) else {
            continue;
        };
        let (head, hash) = (item.at, core.hash_of(&item));
        let is_whole = head == at && is_whole(&core, &item, hash);
        let to = if is_whole && is_used(&core, &item, hash) { leaving.for_used(local, now) } else { None };
        if !to.is_some_and(|to| rescue(local, (at, hash), (leaving.class, to), now)) {
            others.push((head, hash, is_whole));
        }
    }
    for (head, hash, is_whole) in others {
        let to = if is_whole && leaving.unused > 0 { leaving.take_outside(local) } else { None };
        if to.is_some_and(|to| rescue(local, (head, hash), (leaving.class, to), now)) {
            leaving.unused -= 1;
        } else {
            local.editor().remove_at(head, hash, Removal::Evicted, now);
        }
    }
}

/// Moves the item at `at` to the chunk `to` of the class. False, and the chunk is kept, if the item has gone or changed.
fn rescue(
    local: &mut Local,
    (at, hash): (Offset, u64),
    (class, to): (ClassId, Offset),
    now: Seconds,
) -> bool {
    // Searches that come by announce the item for a moment, and changes of its neighbour change its link.
    let attempts = (0..ATTEMPTS).map(|_| try_to_move(local, (at, hash), to, now));
    let moved = attempts.into_iter().find(|moved| !matches!(moved, Moved::NotYet));
    let Some(Moved::As(generation)) = moved else {
        local.cache().push(class, to);
        return false;
    };
    local.core().memory.count_rescued();
    dead::follow_up(local, (to, hash), generation, now);
    if let Some(item) = local.core().item(to, now) {
        local.core().expiry.short_lived.note(local.lane(), to, item.expiry(), now);
    }
    true
}

fn try_to_move(local: &mut Local, (at, hash): (Offset, u64), to: Offset, now: Seconds) -> Moved {
    let mut editor = local.editor();
    let core = editor.core();
    let place = (core.table.bucket_of(hash), Target::Item(hash));
    editor.at_spot(
        place,
        |other| other == at,
        |nodes, spot| {
            let (Some(node), Some(word)) = (spot.node, core.table.link_of_item(to)) else {
                return Moved::Gone;
            };
            let generation = core.flushes.generation();
            // Checked again: while a chunk was looked for, this one may have become another item's, the head of a chain even.
            let item = core.item(at, now).filter(|item| is_whole(core, item, hash));
            let is_alive = |item: &Item<'_>| core.flushes.dead_as_of(generation, item, now).is_none();
            let Some(item) = item.filter(is_alive) else {
                return Moved::Gone;
            };
            if core.announcements.is_held(&item, nodes.hazard()) {
                return Moved::NotYet;
            }
            copy_item(core, &item, to);
            // The crawler may have passed the bucket already.
            core.item(to, now).inspect(|moved| moved.stamp(generation));
            if spot.replace(nodes, node, to, word) { Moved::As(generation) } else { Moved::NotYet }
        },
    )
}

impl Leaving<'_> {
    /// A free chunk of the class in another page.
    fn take_outside(&self, local: &mut Local) -> Option<Offset> {
        let (editor, cache) = local.editor_and_cache();
        cache.take_outside(&editor.core().memory, self.class, self.held.page())
    }

    /// The same for an item in use: turns the hand if there is none.
    fn for_used(&mut self, local: &mut Local, now: Seconds) -> Option<Offset> {
        loop {
            let free = self.take_outside(local);
            if free.is_some() {
                return free;
            }
            self.sweeps = self.sweeps.checked_sub(1)?;
            if evictor::sweep(&mut local.editor(), now) == 0 {
                self.sweeps = 0;
            }
            local.reclaim();
        }
    }
}

/// Whether an item lies in one chunk, and its key has this hash.
fn is_whole(core: &Core, item: &Item<'_>, hash: u64) -> bool {
    item.chain().is_none() && core.hash_of(item) == hash
}

/// Whether an item whose key has this hash is in use.
fn is_used(core: &Core, item: &Item<'_>, hash: u64) -> bool {
    let is_used = item.header.state().has(ItemState::FETCHED) || item.header.overwrote();
    is_used && core.table.is_touched(core.table.bucket_of(hash))
}

/// Copies an announced item into a chunk that is the caller's. The link is not part of it.
fn copy_item(core: &Core, item: &Item<'_>, to: Offset) {
    // Release fence: pairs with the Acquire fence of `find`, as in `Writer::make`.
    fence(Ordering::Release);
    let (from, _) = item.value_words();
    let to = core.shell.region().words(to, from.len()).expect("the chunk is inside the region");
    for (from, to) in from.iter().zip(to) {
        words::store(to, words::load(from));
    }
}
