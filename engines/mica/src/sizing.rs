//! How much memory partitions and arriving values may take.

use crate::options::MicaOptions;
use crate::plan::{Plan, Share, arriving};
use guira_memory::Budget;
use guira_sync::atomic::{AtomicUsize, Ordering};

/// If arriving values take more than is reserved for them, logs give way in this many steps.
const ARRIVING_STEPS: usize = 16;

/// One part in this many of memory is kept from arriving values: clients that send values slowly shall not keep all others from storing.
const KEPT_PART: usize = 5;

#[derive(Debug)]
pub(crate) struct Sizing {
    plan: Plan,
    max_item_size: usize,
    /// The system commits memory in steps of this many bytes.
    commit_step: usize,
    /// The limit, in bytes.
    memory: AtomicUsize,
    /// The part of it that is reserved for arriving values, and what they take, which may be more.
    arriving: Budget,
    share: AtomicUsize,
    /// The most bytes of an item.
    largest_item: AtomicUsize,
}

impl Sizing {
    pub(crate) fn new(options: &MicaOptions, plan: Plan, commit_step: usize) -> Self {
        let (memory, max_item_size) = (options.engine.memory, options.engine.max_item_size);
        let sizing = Sizing {
            plan,
            max_item_size,
            commit_step,
            memory: AtomicUsize::new(memory),
            arriving: Budget::new(arriving(memory, max_item_size)),
            share: AtomicUsize::new(0),
            largest_item: AtomicUsize::new(0),
        };
        sizing.compute_share();
        sizing
    }

    /// Called when the limit changes, or what arriving values take. These may take more than is reserved for them as long as nothing else needs it; then logs
    /// end earlier.
    fn compute_share(&self) {
        let memory = self.memory();
        let step = (memory / ARRIVING_STEPS).max(1);
        let (kept, used) = (self.arriving.limit(), self.arriving.used());
        let arriving = if used > kept { used.next_multiple_of(step) } else { kept };
        // Relaxed: a session looks when it stores something; logs may keep their length for a while.
        self.share.store(self.plan.share(memory, arriving), Ordering::Relaxed);
        let largest = Plan::largest_item(self.plan.share(memory, kept));
        self.largest_item.store(largest, Ordering::Relaxed);
    }

    /// The limit, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub(crate) fn set_memory(&self, memory: usize) {
        self.memory.store(memory, Ordering::Relaxed);
        self.arriving.set_limit(arriving(memory, self.max_item_size));
        self.compute_share();
    }

    #[inline]
    pub(crate) fn share(&self) -> Share {
        Share { bytes: self.share.load(Ordering::Relaxed), step: self.commit_step }
    }

    /// The most bytes that an item may take: half of a partition's share.
    pub(crate) fn largest_item(&self) -> usize {
        self.largest_item.load(Ordering::Relaxed)
    }

    /// Takes memory for a part of an arriving value, if there is any. `used` says how much of all memory is in use.
    pub(crate) fn take_for_arrival(&self, bytes: usize, used: impl FnOnce() -> usize) -> bool {
        if self.arriving.take(bytes) {
            return true;
        }
        // Relaxed, as all counts of memory: two sessions at the same time may both take the last of it.
        let has_room = used() + bytes <= self.memory() - self.memory() / KEPT_PART;
        if has_room {
            self.arriving.charge(bytes);
            self.compute_share();
        }
        has_room
    }

    /// Gives back the memory of an arriving value.
    pub(crate) fn give_after_arrival(&self, bytes: usize) {
        let was_over = self.arriving.excess() > 0;
        self.arriving.give(bytes);
        if was_over {
            self.compute_share();
        }
    }

    pub(crate) fn arriving(&self) -> usize {
        self.arriving.used()
    }

    /// What is reserved for arriving values.
    pub(crate) fn reserved_for_arrival(&self) -> usize {
        self.arriving.limit()
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_items::EngineOptions;
    use guira_memory::MIB;

    #[test]
    fn arriving_values_take_from_the_share_while_there_is_room() {
        let options = MicaOptions { engine: EngineOptions::of(64 * MIB), ..MicaOptions::default() };
        let plan = Plan::new(64 * MIB, 4, options.offset_bits);
        let sizing = Sizing::new(&options, plan, 4096);
        let (share, reserved) = (sizing.share().bytes, sizing.reserved_for_arrival());
        assert!(sizing.take_for_arrival(reserved, || 0));
        assert_eq!((sizing.share().bytes, sizing.arriving()), (share, reserved));
        assert!(sizing.take_for_arrival(8 * MIB, || reserved));
        assert!(sizing.share().bytes < share);
        assert!(!sizing.take_for_arrival(MIB, || 60 * MIB), "a part of memory is kept from arriving values");
        sizing.give_after_arrival(reserved + 8 * MIB);
        assert_eq!((sizing.share().bytes, sizing.arriving()), (share, 0));
        sizing.set_memory(32 * MIB);
        assert!(sizing.share().bytes < share / 2 + MIB && sizing.largest_item() <= sizing.share().bytes / 2);
    }
}
