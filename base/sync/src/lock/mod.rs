//! Locks: std's, without poisoning. The released programs abort at a panic, so no thread sees what a panic left behind.
//!
//! No other crate of base, engines, node and fleet uses std's locks, so that a simulator can exchange them: under `--cfg guira_simulated`
//! they are those of guira_world, with the same faces.

#[cfg(not(guira_simulated))]
mod system;

#[cfg(guira_simulated)]
use guira_world::lock as locks;
#[cfg(not(guira_simulated))]
use system as locks;

pub use locks::{Condvar, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
