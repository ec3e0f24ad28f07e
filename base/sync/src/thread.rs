//! Threads: std's. No other crate of base, engines, node and fleet names std's, so that a simulator can exchange them.

pub use std::thread::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, available_parallelism, current, panicking, park,
    park_timeout, scope, sleep, spawn, yield_now,
};
