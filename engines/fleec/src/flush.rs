//! What a flush asks of the engine.

use crate::core::Core;
use crate::session::FleecSession;
use guira_items::Flushable;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// An engine, for its flushes.
pub(crate) struct Flushed<'c>(pub(crate) &'c Arc<Core>);

impl Core {
    /// Lets a flush take effect that has fallen due. Every operation begins with this.
    #[inline(always)]
    pub(crate) fn settle_flush(self: &Arc<Self>, now: Seconds) {
        self.flushes.settle(now, &Flushed(self));
    }
}

impl Flushable for Flushed<'_> {
    /// The crawler need not wait: whoever stores an item of an earlier generation behind its back takes it out again ([`crate::update`]).
    type Mark = ();

    fn mark(&self) {}

    fn sweep(&self, _kept: u32, now: Seconds) {
        FleecSession::new(self.0.clone()).remove_all_dead(now);
    }
}
