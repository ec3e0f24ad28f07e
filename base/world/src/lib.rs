//! A machine for simulation: coroutines in place of threads, one thread, a clock that only the scheduler moves, and a
//! seed that decides every choice. A run with the same seed makes the same choices.
//!
//! The modules have the faces of the doors of base (`guira_sync::{lock, thread, random, clock}`), which under
//! `cfg(guira_simulated)` are these instead of std's. Each call that could let another thread run may do so here.
//!
//! | module | |
//! |---|---|
//! | [`scheduler`] | tasks, processes, time, choices |
//! | [`thread`], [`lock`] | as in std |
//! | [`time`], [`random`], [`disk`], [`net`] | the clock, seeds, files, sockets |
//! | [`host`] | names and limits |
//! | [`hooks`] | counted branches, planted mistakes |
//! | [`simplify`] | makes a run that fails simpler |

#[cfg(guira_simulated)]
mod clock;
mod coroutine;
pub mod disk;
#[cfg(guira_simulated)]
mod entropy;
mod failure;
mod generator;
pub mod hooks;
pub mod host;
pub mod lock;
pub mod net;
pub mod random;
pub mod scheduler;
pub mod simplify;
pub mod thread;
pub mod time;
mod wait;

pub use generator::Random;
pub use scheduler::{Options, Outcome, run};
