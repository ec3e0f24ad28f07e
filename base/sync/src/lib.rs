//! The one door to atomics. Everything in Guira that two threads touch without a lock goes through here, so
//! that there is one place to read, one place to model-check and one place to audit.
//!
//! | module | what it is | who uses it |
//! |---|---|---|
//! | [`atomic`] | std's atomics, or loom's under `--cfg guira_loom` | everything below |
//! | [`words`] | racy copies and comparisons, by aligned words | items, which readers read while writers write |
//! | [`version`] | striped version counters: lock for writers, validation for readers | the cuckoo index |
//! | [`quiescence`] | when has every thread let go of what it may still hold? | pages that change their class, old tables |
//! | [`hazard`] | does anybody still mean to store there, or send from there? | the lock-free engine |
//! | [`sleep`] | who is about to sleep does not miss what has just come | rings, parcels between workers |
//! | [`counters`] | counters with one writer each, read by anybody | statistics |
//! | [`metrics`] | tables of what is counted: name, unit, meaning | engines, commands, the server |
//! | [`clock`] | the coarse clock of expiry and the fine clock of measurement | everybody |

pub mod atomic;
pub mod clock;
pub mod counters;
pub mod hazard;
pub mod metrics;
pub mod quiescence;
pub mod sleep;
pub mod threads;
pub mod version;
pub mod waits;
pub mod words;
