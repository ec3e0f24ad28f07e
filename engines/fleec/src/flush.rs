//! Flushes of the engine.

use crate::core::Core;
use crate::dead;
use crate::local::Local;
use guira_items::Flushable;
use guira_sync::clock::Seconds;
use std::sync::Arc;

struct Flushed<'c>(&'c Arc<Core>);

impl Flushable for Flushed<'_> {
    /// The crawler need not wait: a writer that stores an item of an earlier generation behind its back takes it out again ([`crate::update`]).
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
