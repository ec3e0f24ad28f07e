//! Maintenance between batches: buckets are added, memory is given back, dead items are removed.

use crate::core::Core;
use crate::dead;
use crate::donors;
use crate::evictor;
use crate::flush;
use crate::index::Growth;
use crate::local::Local;
use guira_contract::Pace;
use guira_items::Eviction;
use guira_sync::clock::Seconds;

/// A store adds this many buckets if there are too few.
const BUCKETS_A_STORE: usize = 2;

/// Does up to `budget` steps of maintenance. Returns how many steps were done.
pub(crate) fn maintain(local: &mut Local, now: Seconds, pace: Pace, budget: usize) -> usize {
    local.core().shell.see_time(now);
    if pace == Pace::Crawl {
        return crawl(local, now, budget);
    }
    let mut done = 0;
    while done < budget && local.editor().grow() == Growth::Grown {
        done += 1;
    }
    if pace == Pace::Idle {
        local.reclaim();
        local.adopt_orphans();
    }
    while done < budget && dead::remove_short_lived(local, now) {
        done += 1;
    }
    // One page at a time: a thousand items may go with it.
    done += usize::from(give_back(local, now));
    if pace == Pace::Idle {
        done += crawl(local, now, budget.saturating_sub(done));
    }
    done
}

/// Does up to `steps` steps of the crawler. Returns how many.
fn crawl(local: &mut Local, now: Seconds, steps: usize) -> usize {
    let core = local.core().clone();
    let step = |_: &usize| {
        flush::settle(&core, now);
        dead::crawl(local, now)
    };
    (0..steps).take_while(step).count()
}

/// Adds a bucket or two after a store.
#[cold]
#[inline(never)]
pub(crate) fn help_growth(local: &mut Local) {
    for _ in 0..BUCKETS_A_STORE {
        if local.editor().grow() != Growth::Grown {
            break;
        }
    }
}

/// Whether more memory is used than allowed, or the table needs some. Reserves what the table needs.
fn is_short(core: &Core) -> bool {
    let (budget, wanting) = (core.sizing.budget(), core.table.is_wanting());
    budget.keep(if wanting { core.table.step_bytes() } else { 0 });
    budget.excess() > 0 || (wanting && budget.left() < budget.kept())
}

/// Gives the memory of a page back if more is used than allowed, or the table needs it. False if there is nothing to do, or nothing was found.
fn give_back(local: &mut Local, now: Seconds) -> bool {
    if !is_short(local.core()) {
        return false;
    }
    let core = local.core().clone();
    let slab = core.memory.slab();
    if slab.surrender_pooled() {
        return true;
    }
    if core.options.engine.eviction == Eviction::Off {
        return false;
    }
    match donors::empty_page(local, None, now) {
        Some(emptied) => slab.surrender(emptied),
        None => {
            // Only pages with free chunks can be emptied: evict to get some.
            let evicted = evictor::sweep(&mut local.editor(), now);
            local.give_all_back();
            evicted > 0
        }
    }
}
