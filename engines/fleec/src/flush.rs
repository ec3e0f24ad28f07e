//! Flushes of the engine.

use crate::core::Core;
use crate::dead;
use crate::local::Local;
use guira_contract::FlushBusy;
use guira_items::Flushable;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;
use std::sync::Arc;

struct Flushed<'c>(&'c Arc<Core>);

impl Flushable for Flushed<'_> {
    /// A writer that is held up keeps the generation that it has loaded, and no crawl makes that clean before the writer is through: generations that
    /// came round would take what it stores for new.
    type Mark = Ticket;

    fn mark(&self) -> Ticket {
        self.0.quiescence.ticket()
    }

    fn sweep(&self, _kept: u32, now: Seconds) {
        dead::remove_all(&mut Local::new(self.0.clone()), now);
    }
}

/// Lets a flush take effect that has fallen due. Every operation begins with this.
#[inline(always)]
pub(crate) fn settle(core: &Arc<Core>, now: Seconds) {
    core.flushes.settle(now, &Flushed(core));
}

/// Flushes everything that is stored now, at `at`.
pub(crate) fn schedule(core: &Arc<Core>, now: Seconds, at: Seconds) {
    core.flushes.schedule(now, at, &Flushed(core));
}

/// Flushes what is stored now under keys that begin with one of `prefixes`.
///
/// # Errors
/// If earlier flushes are still under way.
pub(crate) fn flush_prefixes(core: &Arc<Core>, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
    core.flushes.flush_prefixes(now, prefixes, &Flushed(core))
}
