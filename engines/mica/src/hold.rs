//! Who works on a partition.
//!
//! A partition is *held* by one session at a time. What holding it is good for depends on the access mode (MICA, section 4.1): under EREW only the
//! holder reads and writes, under CREW and CRCW everybody reads and the holder writes. And how long it is held: under EREW and CREW by
//! the session that has used it last, until it waits for input or somebody else wants it, so that whoever is given the requests of one partition only pays for it once
//! in many batches; under CRCW for one write.
//!
//! So a request that reaches the wrong session is slow, in the worst case as slow as the holder's batch, and never wrong.

use guira_sync::atomic::{AtomicU64, Backoff, Ordering, Padded};
use guira_sync::waits::Waits;

/// What the holder and those who wait for it know of each other.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// [`FREE`], [`HELD`] or [`WANTED`].
    state: Padded<AtomicU64>,
}

const FREE: u64 = 0;
/// Somebody holds it.
const HELD: u64 = 1;
/// Somebody holds it, and others wait.
const WANTED: u64 = 2;

impl Hold {
    /// Takes it, if nobody has it.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in `give`: whoever holds it sees all that was done by those who held it before.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it as soon as it is free. `recalls` is counted up when its holder has to be asked for it; `meanwhile` is called as long as it has to be waited for.
    ///
    /// LOCK: partitions. Whoever waits for one gives back, `meanwhile`, those of his own that others wait for: so nobody waits in a circle.
    #[cold]
    #[inline(never)]
    pub(crate) fn take(&self, recalls: &AtomicU64, waits: &Waits, mut meanwhile: impl FnMut()) {
        let mut backoff = Backoff::default();
        loop {
            if self.try_take() {
                return;
            }
            // Relaxed: it is a wish. Who holds it looks at the end of its batch.
            if self.state.compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                recalls.fetch_add(1, Ordering::Relaxed);
            }
            meanwhile();
            if backoff.wait() == 1 {
                waits.note();
            }
        }
    }

    /// Whether others wait for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WANTED
    }

    /// Gives it back.
    #[inline(always)]
    pub(crate) fn give(&self) {
        // Release: pairs with the Acquire in `try_take`.
        self.state.store(FREE, Ordering::Release);
    }
}
