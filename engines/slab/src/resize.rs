//! Another limit of memory, while it is in use.
//!
//! Everything is laid out for the most memory there can be ([`crate::plan`]), so that more is only a higher limit, up to
//! what was reserved when the engine was opened. Less is a lower limit, below what is used at that moment; sessions go
//! towards it step by step ([`crate::session::shrink`]).
//!
//! The metadata of pages is not given back: 0.4 % of the most memory there ever was.

use crate::core::Core;
use crate::index::Scheme;
use guira_contract::ResizeError;
use guira_items::MINIMUM;

/// From now on `memory` bytes may be committed.
pub(crate) fn resize<X: Scheme>(core: &Core<X>, memory: usize) -> Result<(), ResizeError> {
    let (plan, shell, budget) = (core.sizing.plan(), core.items.shell(), core.pool.budget());
    let mut sizes = core.sizing.lock();
    let most = plan.reserve;
    if memory > most {
        return Err(ResizeError::TooBig { memory, most });
    }
    let metadata = plan.metadata(memory, shell.commit_step()).max(sizes.metadata);
    // A table, and the steps in which it is committed, want a share as well.
    let least = MINIMUM.max(2 * core.options.engine.max_item_size).max(8 * sizes.metadata);
    if memory < least {
        return Err(ResizeError::TooSmall { memory, least });
    }
    shell.check_room(budget.limit(), memory)?;
    sizes.before = budget.used().max(budget.limit());
    // What was kept for a larger table was meant for another size.
    budget.keep(0);
    core.pool.set_limit(memory);
    budget.charge(metadata - sizes.metadata);
    sizes.metadata = metadata;
    Ok(())
}
