//! What the crawler does to a page, and when a store asks for it.

use super::removal;
use super::state::SessionState;
use crate::flush;
use crate::index::Scheme;
use guira_items::Removal;
use guira_memory::slab::{PageId, PageState};
use guira_sync::clock::Seconds;

/// Looks at one page for a store that was refused: what has expired in other classes comes free when the crawler has been
/// there, and it sets out at once.
#[cold]
pub(crate) fn step_for_memory<X: Scheme>(state: &mut SessionState<X>, now: Seconds) {
    let now = now.max(state.core.items.shell().time_seen());
    state.core.crawler.ask_for_memory(now);
    step(state, now);
}

/// Looks at one page. False if there is nothing to do for now.
pub(crate) fn step<X: Scheme>(state: &mut SessionState<X>, now: Seconds) -> bool {
    let core = state.core.clone();
    flush::settle(&core, now);
    let pages = core.pool.memory().pages_touched();
    let marks = (core.items.flushes(), &**core.pool.quiescence());
    core.crawler.step(now, pages, marks, |page| crawl(state, page, now))
}

fn crawl<X: Scheme>(state: &mut SessionState<X>, page: PageId, now: Seconds) {
    let core = state.core.clone();
    let memory = core.pool.memory();
    let (PageState::Serving(class) | PageState::Draining(class)) = memory.state_of(page) else {
        return;
    };
    let chunks = memory.lock(class).occupied_chunks(page);
    let (checked, mut reclaimed) = (chunks.len() as u64, 0);
    for at in chunks {
        if core.items.is_dead(at, now)
            && let Some(hash) = core.items.hash_at(at)
            && removal::unlink(state, at, hash, Removal::Dead, now)
        {
            reclaimed += 1;
        }
    }
    state.counters.crawled(Some(class), checked, reclaimed);
}
