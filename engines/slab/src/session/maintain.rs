//! What is done in slices between batches.

use super::crawl;
use super::drain;
use super::growth;
use super::shrink;
use super::state::SessionState;
use crate::evictor::PAGE_CHOICE;
use crate::index::Scheme;
use guira_contract::Pace;
use guira_sync::clock::Seconds;

/// Items are counted once in this many rounds, to see whether they need another table.
const ROUNDS_A_CENSUS: u32 = 32;

/// Under load there is a step towards a lower limit once in this many rounds: it may evict a page of items.
const BUSY_ROUNDS_A_STEP: u32 = 4;

/// Does up to `budget` units of work. Returns how many.
pub(crate) fn maintain<X: Scheme>(
    state: &mut SessionState<'_, X>,
    now: Seconds,
    pace: Pace,
    budget: usize,
) -> usize {
    let core = state.core;
    core.items.shell().see_time(now);
    state.local.seen = now;
    if pace == Pace::Crawl {
        return crawl(state, now, budget);
    }
    let mut done = 0;
    while done < budget && growth::step(state, now) {
        done += 1;
    }
    if core.pool.budget().kept() > 0 && done < budget {
        done += free_for_table(state);
    }
    if core.pool.drains().is_draining() && done < budget {
        core.evictor().release_drained();
        // What cannot be evicted now is waited for: it is no work that would be worth staying awake for.
        done += usize::from(drain::evict_draining(state) > 0);
    }
    state.local.rounds = state.local.rounds.wrapping_add(1);
    while done < budget && core.evictor().switch_step() {
        done += 1;
    }
    if state.local.rounds.is_multiple_of(ROUNDS_A_CENSUS) {
        growth::take_census(core);
    }
    while done < budget && crawl::remove_short_lived(state, now) {
        done += 1;
    }
    done += shrink(state, pace, budget.saturating_sub(done));
    if pace == Pace::Idle {
        done += crawl(state, now, budget.saturating_sub(done));
    }
    done
}

/// Does up to `steps` steps of the crawler. Returns how many.
fn crawl<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds, steps: usize) -> usize {
    (0..steps).take_while(|_| crawl::step(state, now)).count()
}

/// The table waits for memory: one page after another gives its own.
fn free_for_table<X: Scheme>(state: &mut SessionState<'_, X>) -> usize {
    let core = state.core;
    let budget = core.pool.budget();
    let mut done = usize::from(growth::review_kept(core));
    if budget.left() < budget.kept() && core.pool.memory().give_back_unused() {
        done += 1;
    } else if budget.left() < budget.kept() && core.pool.drains().may_drain() {
        if !drain::begin_coldest(state, PAGE_CHOICE) {
            budget.keep(0);
        }
        done += 1;
    }
    done
}

/// Goes towards a limit that is lower than what is used. Returns how many steps were gone.
fn shrink<X: Scheme>(state: &mut SessionState<'_, X>, pace: Pace, budget: usize) -> usize {
    let steps = match pace {
        Pace::Idle => 1,
        Pace::Busy | Pace::Crawl => usize::from(state.local.rounds.is_multiple_of(BUSY_ROUNDS_A_STEP)),
    };
    let exceeds = |state: &SessionState<'_, X>| state.core.pool.budget().excess() > 0;
    (0..steps.min(budget)).take_while(|_| exceeds(state) && shrink::step(state)).count()
}
