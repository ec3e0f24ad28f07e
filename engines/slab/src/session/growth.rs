//! The growth of the table: when it begins, and who does it.

use super::drain;
use super::removal;
use super::state::SessionState;
use crate::core::Core;
use crate::evictor::Emptiness;
use crate::index::{Begin, GrowthStep, Index, MovedItems, Scheme, TableAhead};
use guira_contract::KeyHash;
use guira_items::{Eviction, Removal};
use guira_memory::Offset;
use guira_memory::slab::PAGE_BYTES;
use guira_sync::atomic::Backoff;
use guira_sync::clock::Seconds;

/// How long a session waits for an earlier growth of the table to end, in rounds of yielding, before it evicts instead.
const PATIENCE: u32 = 5_000;

/// Steps of growth that a store does: while one session has the turn, others store without.
const STEPS_A_STORE: usize = 4;
/// … and while the new table is still being committed: each entry may come to memory that the system has to clear.
const STEPS_UNCOMMITTED: usize = 1;

/// The next table is committed ahead from this part on of what makes a table crowded, in percent.
const PREPARE_PERCENT: u64 = 87;

/// How full a smaller table is to be when memory is as small as it shall be …
const SMALLER_LOAD_PERCENT: u64 = 85;
/// … and at the most when entries begin to move into it.
const MOVED_LOAD_PERCENT: u64 = 90;

enum Grow {
    /// It does, from now on.
    Begun,
    /// It is as large as it can be, or growing already.
    NotNow,
    /// It would take this many bytes.
    NoMemory(usize),
}

/// Whether the table is so full that it should be larger. If it is not and an insert fails all the same, keys of equal hash
/// have come in a crowd, and a larger table would not help.
pub(crate) fn is_crowded<X: Scheme>(core: &Core<X>) -> bool {
    core.items.count() * 100 >= core.index.slots() * X::CROWDED_PERCENT
}

/// How growth begins that is not urgent.
fn in_time<X: Scheme>(core: &Core<X>) -> Begin {
    if core.committer.is_there() { Begin::WhenCommitted } else { Begin::Unaided }
}

/// How growth begins that a store waits for.
fn at_once<X: Scheme>(core: &Core<X>) -> Begin {
    if core.committer.is_there() { Begin::AtOnce } else { Begin::Unaided }
}

/// Bytes of memory that something is in: not what was committed ahead.
fn in_use<X: Scheme>(core: &Core<X>) -> usize {
    core.pool.budget().used().saturating_sub(core.pool.memory().unused_bytes())
}

/// Begins to grow the table if there is memory for a larger one.
fn grow<X: Scheme>(core: &Core<X>, begin: Begin) -> Grow {
    if core.index.is_preparing() {
        return Grow::NotNow;
    }
    let budget = core.pool.budget();
    let Some(buckets) = next_size(core, core.items.count()) else {
        return Grow::NotNow;
    };
    let bytes = core.index.committed(buckets);
    if !budget.take(bytes) {
        return Grow::NoMemory(bytes);
    }
    if core.index.begin_growth(buckets, begin, core.pool.quiescence()) {
        budget.keep(0);
        core.committer.wake();
        return Grow::Begun;
    }
    budget.give(bytes);
    Grow::NotNow
}

/// Begins to grow the table, which is crowded. If there is no memory it is kept from now on as it comes free, and
/// maintenance frees it, page by page. True if growth has begun.
fn grow_crowded<X: Scheme>(core: &Core<X>, begin: Begin) -> bool {
    match grow(core, begin) {
        Grow::Begun => true,
        Grow::NotNow => false,
        Grow::NoMemory(bytes) => {
            core.pool.budget().keep(bytes);
            false
        }
    }
}

/// Begins to grow the table if there are too many items for it, for an index that never refuses one; if it is becoming too
/// small for them, turns back.
pub(crate) fn take_census<X: Scheme>(core: &Core<X>) {
    if core.index.is_growing() {
        turn_back_if_crowded(core);
    } else if !X::TELLS_WHEN_FULL && core.pool.budget().kept() == 0 && is_crowded(core) {
        grow_crowded(core, in_time(core));
    }
}

/// If there are too many items for the smaller table that they are moving into, lets them stay. True if so.
pub(crate) fn turn_back_if_crowded<X: Scheme>(core: &Core<X>) -> bool {
    is_crowded(core) && core.index.turn_back(core.pool.quiescence())
}

/// The memory that is kept for a larger table: is it still wanted, and is it enough by now? True if that has changed.
pub(crate) fn review_kept<X: Scheme>(core: &Core<X>) -> bool {
    let budget = core.pool.budget();
    if core.index.is_growing() || !is_crowded(core) {
        budget.keep(0);
        return true;
    }
    budget.left() >= budget.kept() && grow_crowded(core, in_time(core))
}

/// Begins to grow the table while there is memory to do so, if memory will hold more items than the table has slots: called
/// when a class has taken a new page.
pub(crate) fn grow_ahead<X: Scheme>(core: &Core<X>) {
    let (used, limit) = (in_use(core) as u64, core.pool.budget().limit() as u64);
    if core.index.is_growing() {
        return;
    }
    if used * 2 < limit {
        let is_nearly_crowded =
            core.items.count() * 10_000 >= core.index.slots() * X::CROWDED_PERCENT * PREPARE_PERCENT;
        if is_nearly_crowded && core.committer.is_there() {
            grow(core, Begin::WhenCommitted);
        }
        return;
    }
    let expected = u128::from(core.items.count()) * u128::from(limit) / u128::from(used.max(1));
    let slots = u128::from(core.index.slots());
    if expected * 100 > slots * u128::from(X::LOAD_PERCENT) && core.index.can_grow() {
        grow(core, in_time(core));
    }
}

/// How many buckets the next table should have: as many as all of memory will need if items stay as large as they are, but
/// at most twice as many as there are, and at least an eighth more.
fn next_size<X: Scheme>(core: &Core<X>, items: u64) -> Option<u32> {
    let (buckets, most) = core.index.buckets();
    let in_items = in_use(core).saturating_sub(core.index.bytes()) as u64;
    let each = in_items / items.max(1) + 7;
    let expected = core.pool.budget().limit() as u64 / each.max(1) * 101 / 100;
    let expected = Index::<X>::buckets_for(expected, X::LOAD_PERCENT);
    let expected = u32::try_from(expected).unwrap_or(u32::MAX);
    let least = buckets.saturating_add(buckets / 8 + 1);
    let wanted = expected.clamp(least, buckets.saturating_mul(2).max(least)).min(most);
    (wanted >= least).then_some(wanted)
}

/// Begins to move the table into a smaller one, if that is worth it and the items that are left fit. Returns the bytes that
/// will be given back when a table has been left behind, now or earlier.
pub(crate) fn shrink_table<X: Scheme>(core: &Core<X>) -> usize {
    if core.index.can_grow() {
        let (buckets, wanted) = (core.index.buckets().0, smaller_table(core));
        let fits = core.items.count() * 100 <= Index::<X>::slots_of(wanted) * MOVED_LOAD_PERCENT;
        let (old, new) = (core.index.committed(buckets), core.index.committed(wanted));
        let affordable = core.pool.budget().used() + new <= core.sizing.lock().before;
        if wanted < buckets - buckets / 5 && new < old && fits && affordable {
            // Before the committer may find that there is no room, and give it back.
            core.pool.budget().charge(new);
            if core.index.begin_growth(wanted, in_time(core), core.pool.quiescence()) {
                core.committer.wake();
            } else {
                core.pool.budget().give(new);
            }
        }
    }
    core.index.to_be_discarded()
}

/// How many buckets the items have use for that memory will hold, if they stay as large as they are.
fn smaller_table<X: Scheme>(core: &Core<X>) -> u32 {
    let (items, budget, plan) = (core.items.count(), core.pool.budget(), core.sizing.plan());
    let in_items = budget.used().saturating_sub(core.index.bytes()) as u64;
    let each = in_items / items.max(1) + 7;
    let stay = match core.options.engine.eviction {
        Eviction::On => 0,
        Eviction::Off => items,
    };
    let expected = (budget.limit() as u64 / each).max(stay);
    let buckets = Index::<X>::buckets_for(expected, SMALLER_LOAD_PERCENT);
    let least = plan.buckets_least::<X>(budget.limit());
    (buckets.min(u64::from(u32::MAX)) as u32).clamp(least, plan.buckets_max)
}

/// What the migrator asks of the engine.
struct Migration<'a, 's, X: Scheme> {
    state: &'a mut SessionState<'s, X>,
    now: Seconds,
}

impl<X: Scheme> MovedItems for Migration<'_, '_, X> {
    fn hash_of(&self, at: Offset) -> Option<KeyHash> {
        self.state.core.items.hash_at(at)
    }

    fn may_lose(&self) -> bool {
        self.state.core.options.engine.eviction == Eviction::On
    }

    fn lost(&mut self, at: Offset) {
        removal::account(self.state, at, Removal::Displaced, self.now);
        removal::free(self.state, at, self.now);
    }
}

/// Does one step of growth. False if there is nothing to do for now.
pub(crate) fn step<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) -> bool {
    let core = state.core;
    match core.index.grow_step(core.pool.quiescence(), &mut Migration { state, now }) {
        GrowthStep::Idle | GrowthStep::Waiting => false,
        GrowthStep::Moved => true,
        GrowthStep::Discarded(bytes) => {
            core.pool.budget().give(bytes);
            true
        }
    }
}

/// Does a few steps of growth, for a store: what is stored goes into the new table only, which would be full before the old
/// one is empty if growth depended on maintenance. This session holds nothing that it found without a lock, so that growth
/// need not wait for it.
#[cold]
#[inline(never)]
pub(crate) fn help<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) {
    let steps = if state.core.index.is_late() { STEPS_UNCOMMITTED } else { STEPS_A_STORE };
    for _ in 0..steps {
        if !step(state, now) {
            state.quiesce();
            return;
        }
    }
}

/// Begins to grow into the table that is being committed, if there is one: it is needed at once. True if the table grows now.
fn begin_prepared<X: Scheme>(core: &Core<X>) -> bool {
    match core.index.begin_prepared(core.pool.quiescence()) {
        TableAhead::Committed => true,
        TableAhead::NoRoom(bytes) => {
            core.pool.budget().give(bytes);
            false
        }
        TableAhead::Idle => false,
    }
}

/// Begins to grow the table if it is crowded and there is memory. If an earlier growth is not quite finished, helps it along
/// for a moment: it may be waiting for this very session, which holds nothing that it found without a lock.
pub(crate) fn begin<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) -> bool {
    let core = state.core;
    let mut backoff = Backoff::default();
    while is_crowded(core) && backoff.wait() < PATIENCE {
        if begin_prepared(core) || grow_crowded(core, at_once(core)) || core.index.is_growing() {
            return true;
        }
        if core.index.can_grow() && !free_empty_pages(state) {
            // Nothing stands in the way but memory.
            return false;
        }
        state.quiesce();
        step(state, now);
    }
    false
}

/// Does what is left of growth, and waits for others a moment where that is needed, once for each growth. True if the table
/// grows no more.
pub(crate) fn end<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) -> bool {
    let core = state.core;
    let mut backoff = Backoff::default();
    let growth = core.index.growths();
    while core.index.is_growing() {
        if state.local.given_up == Some(growth) {
            return false;
        }
        if !step(state, now) {
            state.quiesce();
            if backoff.wait() >= PATIENCE {
                state.local.given_up = Some(growth);
            }
        }
    }
    true
}

/// Gives the memory of empty pages to the table that waits for it. False if there is none.
fn free_empty_pages<X: Scheme>(state: &mut SessionState<'_, X>) -> bool {
    let budget = state.core.pool.budget();
    let wanted = budget.kept().saturating_sub(budget.left()).div_ceil(PAGE_BYTES);
    let drained = (0..wanted).take_while(|_| drain::begin_empty(state, Emptiness::Now)).count();
    state.quiesce();
    state.core.evictor().release_drained();
    drained > 0 || state.core.pool.drains().is_retiring()
}
