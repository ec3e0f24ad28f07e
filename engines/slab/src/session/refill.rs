//! Finding free chunks for a session: free ones, fresh pages, victims, pages of other classes.

use super::drain;
use super::evict;
use super::growth;
use super::no_evict;
use super::state::{Local, SessionState};
use crate::evictor::{Emptiness, PAGE_CHOICE};
use crate::index::Scheme;
use crate::pins::guard::PinGuard;
use crate::pool::cache::batch_of;
use guira_contract::{ClassCounter, StoreError};
use guira_items::Eviction;
use guira_memory::Offset;
use guira_memory::slab::{ClassId, Source};
use guira_sync::atomic::Backoff;
use guira_sync::clock::{Seconds, Stopwatch};
use std::time::Duration;

/// How long a session waits for a page of another class at the most: other sessions have to end their batches, which takes
/// microseconds unless they were descheduled.
const PATIENCE: Duration = Duration::from_millis(500);
/// But it looks at least this often: while a machine stands still for a second, as virtual ones do, no other session had a
/// chance.
const ROUNDS_LEAST: u32 = 2_000;
/// How many pages it tries: those of a class may all hold long values that are being sent.
const DRAINS_MAX: u32 = 32;
/// How often it looks again when no page is on its way and no class has another to give: other sessions may be in the
/// middle of stores, with chunks of every page in their hands.
const LOOKS_AGAIN: u32 = 200;

/// A chunk for `size` bytes. What is under the key `kept` is not evicted for it.
pub(crate) fn take_chunk<X: Scheme>(
    state: &mut SessionState<'_, X>,
    size: usize,
    kept: Option<&[u8]>,
    now: Seconds,
) -> Option<Offset> {
    let class = state.core.pool.class_for(size)?;
    if state.local.cache.is_empty(class) {
        let _guard = PinGuard::<X>::of(state.core, kept, now);
        refill(state, class, now).ok()?;
    }
    state.local.cache.pop(class)
}

/// Fills the session's cache of `class`, which is empty.
pub(crate) fn refill<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    now: Seconds,
) -> Result<(), StoreError> {
    let core = state.core;
    let pool = &core.pool;
    core.items.shell().see_time(now);
    let chunk = pool.memory().classes().geometry(class).chunk;
    let batch = batch_of(chunk);
    pool.balance().stored(batch * chunk as usize);
    if take_free(state, class, batch, pool.source_for(class)) {
        return Ok(());
    }
    if core.options.engine.eviction == Eviction::Off {
        let take_free = |state: &mut SessionState<'_, X>, source| take_free(state, class, batch, source);
        return no_evict::refill(state, class, batch, now, take_free);
    }
    if pool.memory().empty_pages() > 0 && take_over_empty_page(state, class, batch) {
        return Ok(());
    }
    if !pool.balance().is_waiting(class)
        && let Some(donor) = core.evictor().donor(class)
    {
        pool.balance().claim(class);
        drain::begin(state, donor, PAGE_CHOICE);
        core.evictor().release_drained();
        // What was moved out of a page that drains may have left chunks here.
        if !state.local.cache.is_empty(class) || take_free(state, class, batch, pool.source_for(class)) {
            return Ok(());
        }
    }
    if evict::evict(state, class, batch, now) || take_free(state, class, batch, Source::Any) {
        return Ok(());
    }
    let stolen = steal(state, class, batch, now);
    if stolen.is_err() {
        state.local.counters.add_to_class(Some(class), ClassCounter::OutOfMemory, 1);
    }
    stolen
}

/// Before an item is evicted, a page that holds nothing goes from the class that has it to the one that needs it. False if
/// there is none, or if it is not there yet.
#[cold]
#[inline(never)]
fn take_over_empty_page<X: Scheme>(state: &mut SessionState<'_, X>, class: ClassId, batch: usize) -> bool {
    let core = state.core;
    if !core.pool.drains().is_retiring() {
        core.pool.balance().claim(class);
        if !drain::begin_empty(state, Emptiness::ForGood) {
            return false;
        }
    }
    state.quiesce();
    core.evictor().release_drained();
    take_free(state, class, batch, core.pool.source_for(class))
}

/// Waits for a page of another class: the last resort of a class that has no item to evict. This session holds nothing that
/// it found without a lock, since memory is found before anything else, and so it may pass quiescent points of its own while
/// it waits for those of others. It does not wait long: others wait for it.
fn steal<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
) -> Result<(), StoreError> {
    let core = state.core;
    let quiescence = core.pool.quiescence();
    let watch = Stopwatch::start();
    let mut backoff = Backoff::default();
    let (mut drains, mut rounds, mut looks) = (0, 0, 0);
    let mut ticket = quiescence.ticket();
    while watch.elapsed() < PATIENCE || rounds < ROUNDS_LEAST {
        rounds += 1;
        state.quiesce();
        core.evictor().release_drained();
        let has_some = !state.local.cache.is_empty(class);
        if has_some || take_free(state, class, batch, Source::Any) || evict::evict(state, class, batch, now) {
            return Ok(());
        }
        // A page that drains may hold something that cannot be evicted: then another is tried. When all have given back what
        // they kept, and none has become empty, there is nothing to wait for.
        let waits = core.pool.drains().is_retiring() || !quiescence.passed(ticket);
        if !waits && drain::evict_draining(state) > 0 {
            // Chunks that others had kept have become items meanwhile.
            ticket = quiescence.ticket();
            continue;
        }
        // Nothing else would do: the oldest class gives, even if it is no older than this one; if there is no other, this
        // class itself, so that other sessions give back what they keep of the page.
        let oldest =
            || core.evictor().oldest_donor(Some(class)).or_else(|| core.evictor().oldest_donor(None));
        match oldest() {
            Some(donor) if !waits && drains < DRAINS_MAX => {
                // While memory shrinks, only a page that a class has asked for stays.
                core.pool.balance().claim(class);
                drain::begin(state, donor, PAGE_CHOICE);
                drains += 1;
                ticket = quiescence.ticket();
            }
            _ if !waits && (looks == LOOKS_AGAIN || core.pool.has_no_page()) => break,
            _ => {
                looks += u32::from(!waits);
                backoff.wait();
            }
        }
    }
    if take_free(state, class, batch, Source::Any) { Ok(()) } else { Err(StoreError::NoMemory) }
}

/// Takes free chunks, from the class's pages or from a new one.
pub(crate) fn take_free<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    source: Source,
) -> bool {
    let SessionState { core, local: Local { cache, .. } } = state;
    if cache.take(class, &mut core.pool.memory().lock(class), batch) > 0 {
        return true;
    }
    let taken = core.evictor().grow(class, source, (cache, batch));
    // In a full cache there is no page to be had, each time.
    if taken {
        growth::grow_ahead(core);
        core.committer.wake();
    }
    taken
}
