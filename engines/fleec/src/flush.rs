//! Flushes of the engine.

use crate::core::Core;
use crate::dead;
use crate::local::Local;
use guira_contract::FlushBusy;
use guira_items::Flushable;
use guira_sync::clock::Seconds;
use std::sync::Arc;

struct Flushed<'c>(&'c Arc<Core>);

impl Flushable for Flushed<'_> {
    /// The crawler need not wait: a writer that stores an item of an earlier generation behind its back
    /// takes it out again, or stamps it anew ([`crate::dead::follow_up`]).
    type Mark = ();

    fn mark(&self) {}

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
