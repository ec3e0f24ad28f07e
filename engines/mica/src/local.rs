//! What a session has to itself: the partitions that it holds, its counters and a buffer.

use crate::core::Core;
use crate::hold::Holdings;
use crate::scratch::ScratchBuffer;
use crate::store::ItemStore;
use crate::writer::Writer;
use guira_items::SessionCounters;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Local<S: ItemStore> {
    core: Arc<Core<S>>,
    holdings: Holdings,
    counters: Arc<SessionCounters>,
    /// For values that are put together.
    scratch: ScratchBuffer,
}

impl<S: ItemStore> Local<S> {
    pub(crate) fn new(core: Arc<Core<S>>) -> Self {
        let counters = core.shell.registry().register();
        let holdings = Holdings::new(&core.locks);
        Local { core, holdings, counters, scratch: ScratchBuffer::default() }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<Core<S>> {
        &self.core
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    #[inline(always)]
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Takes the partition, and waits for it if another session holds it.
    #[inline(always)]
    pub(crate) fn take(&mut self, partition: usize) {
        self.holdings.take(&self.core.locks, partition);
    }

    /// Takes the partition, unless another session holds it.
    #[inline(always)]
    pub(crate) fn try_take(&mut self, partition: usize) -> bool {
        self.holdings.try_take(&self.core.locks, partition)
    }

    /// Ends an operation: the partition is kept, except under CRCW.
    #[inline(always)]
    pub(crate) fn release(&mut self, partition: usize) {
        self.holdings.release(&self.core.locks, partition);
    }

    /// Gives back the partitions that others wait for.
    #[inline(always)]
    pub(crate) fn heed_recalls(&mut self) {
        self.holdings.heed_recalls(&self.core.locks);
    }

    pub(crate) fn give_all(&mut self) {
        self.holdings.give_all(&self.core.locks);
    }

    /// Gives everything back: the session may be idle for long.
    pub(crate) fn release_all(&mut self) {
        self.give_all();
        self.scratch.release();
    }

    /// A writer for a partition that the session holds.
    #[inline(always)]
    pub(crate) fn writer(&mut self, partition: usize, now: Seconds) -> Writer<'_, S> {
        Writer::new(&self.core, partition, &self.counters, &self.scratch, now)
    }

    /// Calls `act` with the partition held, and gives it back unless it was held before.
    pub(crate) fn holding<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> R {
        let before = self.holdings.has(partition);
        self.take(partition);
        self.act(partition, now, before, act)
    }

    /// The same, unless another session holds it.
    pub(crate) fn try_holding<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> Option<R> {
        let before = self.holdings.has(partition);
        self.try_take(partition).then(|| self.act(partition, now, before, act))
    }

    fn act<R>(
        &mut self,
        partition: usize,
        now: Seconds,
        held_before: bool,
        act: impl FnOnce(&mut Writer<'_, S>) -> R,
    ) -> R {
        let mut writer = self.writer(partition, now);
        writer.settle();
        let result = act(&mut writer);
        if !held_before {
            self.holdings.give(&self.core.locks, partition);
        }
        result
    }
}

impl<S: ItemStore> Drop for Local<S> {
    fn drop(&mut self) {
        self.release_all();
        self.core.shell.registry().retire(&self.counters);
    }
}
