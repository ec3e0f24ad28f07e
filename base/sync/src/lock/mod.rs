//! Locks: std's, without poisoning. The released programs abort at a panic, so no thread sees what a panic left behind.
//!
//! All other crates of base, engines, node and fleet use these locks instead of std's: under `--cfg guira_simulated` they are the
//! simulator's, of guira_world, with the same interface.

#[cfg(not(guira_simulated))]
mod system;

#[cfg(guira_simulated)]
use guira_world::lock as locks;
#[cfg(not(guira_simulated))]
use system as locks;

pub use locks::{Condvar, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
