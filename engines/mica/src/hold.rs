//! Who works on a partition.
//!
//! One session at a time *holds* a partition. The access mode (MICA, section 4.1) says what only the holder may do: read and write under EREW, write under CREW
//! and CRCW. It also says for how long: under EREW and CREW the session that has used a partition last holds it until it waits for input or another session
//! wants it, so that a session that gets the requests of one partition only pays for it once in many batches; under CRCW for one write.
//!
//! So a request that reaches the wrong session is slow, in the worst case as slow as the holder's batch, and never wrong.

use guira_contract::Access;
use guira_sync::atomic::{AtomicU64, Backoff, Ordering, Padded};
use guira_sync::lock::{Condvar, Mutex};
use guira_sync::waits::Waits;
use std::time::Duration;

/// The sessions that wait for partitions.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// How often a session has asked for a partition that another one holds.
    recalls: AtomicU64,
    waits: Waits,
    /// LOCK: bell. Leaf. Sessions that wait for long sleep here, so that the holder has the processor.
    sleepers: Mutex<()>,
    bell: Condvar,
}

/// Rounds of waiting before a session sleeps.
const AWAKE: u32 = 1000;
/// How long it sleeps if it misses the bell.
const NAP: Duration = Duration::from_millis(1);

impl Waiting {
    /// How often a session has asked for a partition that another one holds.
    #[inline(always)]
    pub(crate) fn recalls(&self) -> u64 {
        self.recalls.load(Ordering::Relaxed)
    }

    /// The same, before a look at which partitions are wanted.
    pub(crate) fn heeded(&self) -> u64 {
        // Acquire: pairs with the Release in `PartitionLock::take`.
        self.recalls.load(Ordering::Acquire)
    }

    fn sleep(&self) {
        let sleepers = self.sleepers.lock();
        drop(self.bell.wait_timeout(sleepers, NAP));
    }
}

/// The right to work on a partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionLock {
    /// [`FREE`], [`HELD`], [`WANTED`] or [`OFFERED`].
    state: Padded<AtomicU64>,
}

const FREE: u64 = 0;
const HELD: u64 = 1;
/// A session holds it, and others wait.
const WANTED: u64 = 2;
/// It is free for one of those that wait.
const OFFERED: u64 = 3;

/// After this many rounds a session takes an offer, even one that was made before it waited.
const PATIENCE: u32 = 1000;

impl PartitionLock {
    /// Takes it, if it is free.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in `give`: the holder sees everything that earlier holders did.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it as soon as it is free. Calls `meanwhile` again and again while it waits.
    ///
    /// LOCK: partitions. A session that waits for one gives back, `meanwhile`, those of its own that others wait for: so no sessions wait in a circle.
    #[cold]
    #[inline(never)]
    pub(crate) fn take(&self, waiting: &Waiting, mut meanwhile: impl FnMut()) {
        let mut backoff = Backoff::default();
        let mut has_waited = false;
        loop {
            if self.try_take() || (has_waited && self.accept()) {
                return;
            }
            // Relaxed: a request. The holder looks at the end of its batch.
            match self.state.compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // Release: pairs with the Acquire in `Waiting::heeded`: a session that sees the recall sees which partition is wanted.
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

    pub(crate) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WANTED
    }

    /// Gives it to one of those that wait, before the giver can take it again: else they would wait for long where there are more threads than processors.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, waiting: &Waiting) {
        // Release: pairs with the Acquire in `accept`.
        self.state.store(OFFERED, Ordering::Release);
        waiting.bell.notify_all();
    }

    #[inline(always)]
    pub(crate) fn give(&self, waiting: &Waiting) {
        if self.is_wanted() {
            return self.hand_over(waiting);
        }
        // Release: pairs with the Acquire in `try_take`. A request that comes in between is overwritten: its session wakes up by itself and asks again.
        self.state.store(FREE, Ordering::Release);
    }
}

#[derive(Debug)]
pub(crate) struct PartitionLocks {
    locks: Box<[PartitionLock]>,
    access: Access,
    waiting: Waiting,
}

impl PartitionLocks {
    pub(crate) fn new(partitions: usize, access: Access) -> Self {
        let locks = (0..partitions).map(|_| PartitionLock::default()).collect();
        PartitionLocks { locks, access, waiting: Waiting::default() }
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// How often a session waited for a partition.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waiting.waits
    }

    /// How often a session has asked for a partition that another one holds.
    #[cfg(all(test, not(guira_loom)))]
    pub(crate) fn recalls(&self) -> u64 {
        self.waiting.recalls()
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
    pub(crate) fn new(locks: &PartitionLocks) -> Self {
        let is_exclusive = locks.access == Access::Erew;
        let all = |state| vec![state; locks.locks.len()].into();
        Holdings { held: all(false), readable: all(!is_exclusive), is_exclusive, count: 0, recalls_seen: 0 }
    }

    /// Whether the session may read the partition now.
    #[inline(always)]
    pub(crate) fn may_read(&self, partition: usize) -> bool {
        self.readable[partition]
    }

    #[inline(always)]
    pub(crate) fn has(&self, partition: usize) -> bool {
        self.held[partition]
    }

    /// Takes the partition, and waits for it if another session holds it.
    #[inline(always)]
    pub(crate) fn take(&mut self, locks: &PartitionLocks, partition: usize) {
        if !self.held[partition] && !self.try_take(locks, partition) {
            locks.locks[partition].take(&locks.waiting, || self.heed_recalls(locks));
            self.note(partition);
        }
    }

    /// Takes the partition, unless another session holds it.
    #[inline(always)]
    pub(crate) fn try_take(&mut self, locks: &PartitionLocks, partition: usize) -> bool {
        if self.held[partition] {
            return true;
        }
        let is_taken = locks.locks[partition].try_take();
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

    /// Gives the partition back, if the session holds it.
    #[inline(always)]
    pub(crate) fn give(&mut self, locks: &PartitionLocks, partition: usize) {
        if self.held[partition] {
            self.forget(partition);
            locks.locks[partition].give(&locks.waiting);
        }
    }

    #[inline(always)]
    fn forget(&mut self, partition: usize) {
        self.held[partition] = false;
        self.readable[partition] = !self.is_exclusive;
        self.count -= 1;
    }

    /// Ends an operation: the partition is kept, except under CRCW.
    #[inline(always)]
    pub(crate) fn release(&mut self, locks: &PartitionLocks, partition: usize) {
        if locks.access == Access::Crcw {
            self.give(locks, partition);
        }
    }

    /// Gives back the partitions that others wait for, if there was a recall since the last look.
    #[inline(always)]
    pub(crate) fn heed_recalls(&mut self, locks: &PartitionLocks) {
        if self.recalls_seen != locks.waiting.recalls() {
            self.heed(locks);
        }
    }

    #[cold]
    #[inline(never)]
    fn heed(&mut self, locks: &PartitionLocks) {
        self.recalls_seen = locks.waiting.heeded();
        for (number, lock) in locks.locks.iter().enumerate() {
            if self.held[number] && lock.is_wanted() {
                self.forget(number);
                lock.hand_over(&locks.waiting);
            }
        }
    }

    pub(crate) fn give_all(&mut self, locks: &PartitionLocks) {
        for partition in 0..self.held.len() {
            if self.count == 0 {
                return;
            }
            self.give(locks, partition);
        }
    }
}
