//! What happens instead of eviction when it is off: room is made by what is dead or empty already, and by nothing else.

use super::crawl;
use super::drain;
use super::evict;
use super::state::SessionState;
use crate::evictor::Emptiness;
use crate::index::Scheme;
use guira_contract::StoreError;
use guira_memory::slab::{ClassId, Source};
use guira_sync::atomic::Backoff;
use guira_sync::clock::{Seconds, Stopwatch};
use std::time::Duration;

/// How long a session waits for others to end their batches when an empty page changes its class.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fills the session's cache of `class` without removing anything that is alive. `take_free` takes free chunks.
pub(crate) fn refill<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
    take_free: impl Fn(&mut SessionState<'_, X>, Source) -> bool,
) -> Result<(), StoreError> {
    if evict::reclaim_dead(state, class, batch, now) || take_free(state, Source::Any) {
        return Ok(());
    }
    // The first ones may go to a table that waits for memory.
    while drain::begin_empty(state, Emptiness::Now) || state.core.pool.drains().is_retiring() {
        if await_page(state, &take_free) {
            return Ok(());
        }
        if state.core.pool.drains().is_retiring() {
            // A session has not ended its batch for all that time.
            break;
        }
    }
    crawl::step_for_memory(state, now);
    Err(StoreError::NoMemory)
}

/// Waits for a page that is on its way into the pool. This session holds nothing that it found without a lock.
fn await_page<X: Scheme>(
    state: &mut SessionState<'_, X>,
    take_free: impl Fn(&mut SessionState<'_, X>, Source) -> bool,
) -> bool {
    let watch = Stopwatch::start();
    let mut backoff = Backoff::default();
    loop {
        state.quiesce();
        state.core.evictor().release_drained();
        if take_free(state, Source::Any) {
            return true;
        }
        if !state.core.pool.drains().is_retiring() || watch.elapsed() >= PATIENCE {
            return false;
        }
        backoff.wait();
    }
}
