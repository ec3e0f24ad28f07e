//! Who works on a partition.
//!
//! A partition is *held* by one session at a time. What holding it is good for depends on the access mode (MICA, section 4.1): under EREW only the
//! holder reads and writes, under CREW and CRCW everybody reads and the holder writes. And how long it is held: under EREW and CREW by
//! the session that has used it last, until it waits for input or somebody else wants it, so that whoever is given the requests of one partition only pays for it once
//! in many batches; under CRCW for one write.
//!
//! So a request that reaches the wrong session is slow, in the worst case as slow as the holder's batch, and never wrong.

use crate::core::Core;
use crate::space::Space;
use guira_contract::Access;
use guira_sync::atomic::{AtomicU64, Backoff, Ordering, Padded};
use guira_sync::waits::Waits;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What those who wait for partitions share.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// How often somebody has asked for a partition that another session holds.
    recalls: AtomicU64,
    pub(crate) waits: Waits,
    /// LOCK: bell. Leaf. Those who wait for long sleep here, so that the holder has the processor.
    sleepers: Mutex<()>,
    bell: Condvar,
}

/// Rounds of waiting before somebody goes to sleep.
const AWAKE: u32 = 1000;
/// A bell that was not heard is rung again so soon.
const NAP: Duration = Duration::from_millis(1);

impl Waiting {
    /// How often somebody has asked for a partition that another session holds.
    #[inline(always)]
    pub(crate) fn recalls(&self) -> u64 {
        self.recalls.load(Ordering::Relaxed)
    }

    /// The same, to look at which partitions are asked for.
    pub(crate) fn heeded(&self) -> u64 {
        // Acquire: pairs with the Release in `Hold::take`.
        self.recalls.load(Ordering::Acquire)
    }

    fn sleep(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.bell.wait_timeout(sleepers, NAP));
    }
}

/// What the holder and those who wait for it know of each other.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// [`FREE`], [`HELD`], [`WANTED`] or [`OFFERED`].
    state: Padded<AtomicU64>,
}

const FREE: u64 = 0;
/// Somebody holds it.
const HELD: u64 = 1;
/// Somebody holds it, and others wait.
const WANTED: u64 = 2;
/// Nobody holds it, and one of those who wait is to have it next.
const OFFERED: u64 = 3;

/// Whoever has waited so often takes what is offered, even if it was not offered to him.
const PATIENCE: u32 = 1000;

impl Hold {
    /// Takes it, if nobody has it.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in `give`: whoever holds it sees all that was done by those who held it before.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it as soon as it is free. `meanwhile` is called as long as it has to be waited for.
    ///
    /// LOCK: partitions. Whoever waits for one gives back, `meanwhile`, those of his own that others wait for: so nobody waits in a circle.
    #[cold]
    #[inline(never)]
    pub(crate) fn take(&self, waiting: &Waiting, mut meanwhile: impl FnMut()) {
        let mut backoff = Backoff::default();
        let mut has_waited = false;
        loop {
            if self.try_take() || (has_waited && self.accept()) {
                return;
            }
            // Relaxed: it is a wish. Who holds it looks at the end of its batch.
            match self.state.compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // Release: pairs with the Acquire in `Waiting::heeded`: who sees that there was a recall sees which partition is wanted.
                    waiting.recalls.fetch_add(1, Ordering::Release);
                    has_waited = true;
                }
                Err(state) => has_waited |= state == WANTED,
            }
            meanwhile();
            let rounds = backoff.wait();
            has_waited |= rounds > PATIENCE;
            match rounds {
                1 => waiting.waits.note(),
                AWAKE.. if !cfg!(guira_loom) => waiting.sleep(),
                _ => {}
            }
        }
    }

    /// Takes it, if it is offered.
    fn accept(&self) -> bool {
        // Acquire: as in `try_take`.
        self.state.compare_exchange(OFFERED, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether others wait for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WANTED
    }

    /// Gives it to one of those who wait, before whoever gives it can take it again: else they would wait for long where threads are more than processors.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, waiting: &Waiting) {
        // Release: pairs with the Acquire in `accept`.
        self.state.store(OFFERED, Ordering::Release);
        waiting.bell.notify_all();
    }

    /// Gives it back.
    #[inline(always)]
    pub(crate) fn give(&self, waiting: &Waiting) {
        if self.is_wanted() {
            return self.hand_over(waiting);
        }
        // Release: pairs with the Acquire in `try_take`. A wish that comes in between is overwritten: whoever has it wakes up by himself and wishes again.
        self.state.store(FREE, Ordering::Release);
    }
}

/// The partitions that a session holds.
#[derive(Debug)]
pub(crate) struct Holdings {
    held: Box<[bool]>,
    /// The partitions that it may read: under EREW those that it holds.
    readable: Box<[bool]>,
    is_exclusive: bool,
    count: usize,
    /// The recalls that it has heeded.
    recalls_seen: u64,
}

impl Holdings {
    pub(crate) fn new<S: Space>(core: &Core<S>) -> Self {
        let is_exclusive = core.access == Access::Erew;
        let all = |state| vec![state; core.partitions.len()].into();
        Holdings { held: all(false), readable: all(!is_exclusive), is_exclusive, count: 0, recalls_seen: 0 }
    }

    /// Whether the partition may be read as it is.
    #[inline(always)]
    pub(crate) fn may_read(&self, partition: usize) -> bool {
        self.readable[partition]
    }

    /// Whether it holds the partition.
    #[inline(always)]
    pub(crate) fn has(&self, partition: usize) -> bool {
        self.held[partition]
    }

    /// Holds the partition from now on.
    #[inline(always)]
    pub(crate) fn take<S: Space>(&mut self, core: &Core<S>, partition: usize) {
        if !self.held[partition] && !self.try_take(core, partition) {
            core.partitions[partition].hold.take(&core.waiting, || self.heed_recalls(core));
            self.note(partition);
        }
    }

    /// Holds the partition, if nobody else does.
    #[inline(always)]
    pub(crate) fn try_take<S: Space>(&mut self, core: &Core<S>, partition: usize) -> bool {
        if self.held[partition] {
            return true;
        }
        let is_taken = core.partitions[partition].hold.try_take();
        if is_taken {
            self.note(partition);
        }
        is_taken
    }

    #[inline(always)]
    fn note(&mut self, partition: usize) {
        self.held[partition] = true;
        self.readable[partition] = true;
        self.count += 1;
    }

    /// Gives the partition back, if it holds it.
    #[inline(always)]
    pub(crate) fn give<S: Space>(&mut self, core: &Core<S>, partition: usize) {
        if self.held[partition] {
            self.forget(partition);
            core.partitions[partition].hold.give(&core.waiting);
        }
    }

    #[inline(always)]
    fn forget(&mut self, partition: usize) {
        self.held[partition] = false;
        self.readable[partition] = !self.is_exclusive;
        self.count -= 1;
    }

    /// What was done with a partition is done: it is kept, unless everybody writes.
    #[inline(always)]
    pub(crate) fn release<S: Space>(&mut self, core: &Core<S>, partition: usize) {
        if core.access == Access::Crcw {
            self.give(core, partition);
        }
    }

    /// Gives back what others wait for, if anybody waits who did not before.
    #[inline(always)]
    pub(crate) fn heed_recalls<S: Space>(&mut self, core: &Core<S>) {
        if self.recalls_seen != core.waiting.recalls() {
            self.heed(core);
        }
    }

    #[cold]
    #[inline(never)]
    fn heed<S: Space>(&mut self, core: &Core<S>) {
        self.recalls_seen = core.waiting.heeded();
        for (number, partition) in core.partitions.iter().enumerate() {
            if self.held[number] && partition.hold.is_wanted() {
                self.forget(number);
                partition.hold.hand_over(&core.waiting);
            }
        }
    }

    pub(crate) fn give_all<S: Space>(&mut self, core: &Core<S>) {
        for partition in 0..self.held.len() {
            if self.count == 0 {
                return;
            }
            self.give(core, partition);
        }
    }
}
