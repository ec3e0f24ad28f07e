//! Threads: std's, or under `--cfg guira_simulated` the tasks of guira_world. No other crate of base, engines, node and
//! fleet names either.

#[cfg(guira_simulated)]
use guira_world::thread as threads;
#[cfg(not(guira_simulated))]
use std::thread as threads;

pub use threads::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, available_parallelism, current, panicking, park,
    park_timeout, scope, sleep, spawn, yield_now,
};
