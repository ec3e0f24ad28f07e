//! The door to threads and to what they share. Atomics, locks, channels, threads and clocks come from here, so that
//! there is one place to read, to model-check and to audit, and so that a simulator can exchange them.
//!
//! | module | what it is | who uses it |
//! |---|---|---|
//! | [`atomic`] | std's atomics, or loom's under `--cfg guira_loom` | everything below |
//! | [`lock`], [`thread`] | locks and threads: std's | all crates |
//! | [`channel`] | channels of many senders and one receiver | all crates |
//! | [`words`] | racy copies and comparisons, by aligned words | items, which readers read while writers write |
//! | [`version`] | striped version counters: lock for writers, validation for readers | the cuckoo index |
//! | [`quiescence`] | has every thread dropped what it may have found without a lock? | pages that change their
//! class, old tables |
//! | [`hazard`] | is a thread still about to store to a place, or sending from it? | the lock-free engine |
//! | [`sleep`] | going to sleep without missing a wake-up | rings, forward batches between workers |
//! | [`stop`] | stopping all threads of a program | the invalidator, the checker |
//! | [`mod@counters`] | counters with one writer each and any number of readers | statistics |
//! | [`mod@histogram`] | histograms of times, made of such counters | latencies |
//! | [`metrics`] | tables of metrics: name, unit, meaning | engines, commands, the server |
//! | [`random`] | seeds | all crates |
//! | [`host`] | names and limits of the machine and the process | router, node |
//! | `refused` | answers and counts system calls that a filter refuses | base/sandbox |
//! | [`simulated`] | counted branches and planted mistakes of simulated runs | code that the simulator checks |
//! | [`clock`] | the coarse clock of expiry and the fine clock of measurement | all crates |

#![deny(missing_docs)]
pub mod atomic;
pub mod channel;
pub mod clock;
pub mod counters;
pub mod hazard;
pub mod histogram;
pub mod host;
pub mod lock;
pub mod metrics;
pub mod quiescence;
pub mod random;
#[cfg(not(guira_loom))]
pub mod refused;
pub mod simulated;
pub mod sleep;
pub mod stop;
pub mod thread;
pub mod threads;
pub mod version;
pub mod waits;
pub mod words;
