//! The way to a lower limit of memory: pages that hold nothing are given back first, then pages of the classes whose hands
//! are slowest are drained, and a table that is larger than the items that are left will need grows, downwards, into a
//! smaller one. Nothing can be taken until the limit is reached, so that stores live on what they evict.

use super::drain;
use super::growth;
use super::state::SessionState;
use crate::index::Scheme;
use guira_memory::slab::PAGE_BYTES;

/// The most pages that may hold something which cannot be evicted now, such as a value that is being sent, before no more
/// are drained.
const DRAINING_MAX: usize = 64;

/// The page that goes is the least read of this many before the hand. More than when one class gives to another, since the
/// hand does not move on meanwhile: what is read would collect under it, and go then.
const CHOICE: usize = 128;

/// Goes a step towards a limit that is lower than what is used. False if there is nothing to do for now.
pub(crate) fn step<X: Scheme>(state: &mut SessionState<'_, X>) -> bool {
    let core = state.core;
    core.evictor().release_drained();
    let excess = core.pool.budget().excess();
    if excess == 0 {
        return false;
    }
    if core.pool.memory().give_back(core.pool.balance().waiting()) {
        return true;
    }
    let (draining, retired) = core.pool.drains().on_their_way();
    let coming = growth::shrink_table(core) + (draining + retired) * PAGE_BYTES;
    excess > coming && draining < DRAINING_MAX && drain::begin_coldest(state, CHOICE)
}
