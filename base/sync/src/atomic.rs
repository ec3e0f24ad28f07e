//! std's atomics in production, loom's under `--cfg guira_loom`. No other crate imports either.

#[cfg(not(guira_loom))]
mod door {
    // Where one thread at a time runs, one that spins must let the others run.
    #[cfg(guira_simulated)]
    pub use guira_world::thread::{yield_now as spin_loop, yield_now};
    #[cfg(not(guira_simulated))]
    pub use std::hint::spin_loop;
    pub(crate) use std::sync::Mutex;
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(not(guira_simulated))]
    pub use std::thread::yield_now;
}

#[cfg(guira_loom)]
mod door {
    pub use loom::hint::spin_loop;
    pub(crate) use loom::sync::Mutex;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use loom::thread::yield_now;
}

pub(crate) use door::Mutex;
pub use door::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, spin_loop, yield_now,
};

/// The ordering of loads of racy data. Relaxed, because the version counters order them with fences; ThreadSanitizer
/// does not see fences, so its build acquires with every load instead.
pub const DATA_LOAD: Ordering = if cfg!(guira_tsan) { Ordering::Acquire } else { Ordering::Relaxed };

/// How racy data is stored: the counterpart of [`DATA_LOAD`].
pub const DATA_STORE: Ordering = if cfg!(guira_tsan) { Ordering::Release } else { Ordering::Relaxed };

/// A value alone on its cache lines, so that its writer invalidates no other data. 128 bytes, because the
/// adjacent-line prefetcher of x86 pulls pairs of 64.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

const _: () = assert!(align_of::<Padded<u8>>() == 128 && size_of::<Padded<[u64; 17]>>() == 256);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Waits for another thread: spins at first, then yields, since the thread that holds the lock may have been
/// descheduled.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    const SPINS: u32 = 64;

    /// Waits a little. Returns the number of waits so far, this one included.
    pub fn wait(&mut self) -> u32 {
        self.rounds += 1;
        if cfg!(guira_loom) || self.rounds > Self::SPINS {
            yield_now();
        } else {
            spin_loop();
        }
        self.rounds
    }
}
