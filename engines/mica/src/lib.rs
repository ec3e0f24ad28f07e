//! MICA: partitions of the keys, each with a circular log and a lossy index (Lim, Han, Andersen and Kaminsky, "MICA: a holistic approach to fast in-memory
//! key-value storage", NSDI 2014).
//!
//! `partition` puts an `index` and a `store` together, `core` the partitions and what they share: `hold` (who works on a partition), `flush`, `sizing`,
//! `crawler`. A `writer` is a session at work on a partition; operations are functions of it: `slots`, `growth`, `anew`, `relocate`, `update`,
//! `maintain`, `walk`. A session is a front to these.

mod anew;
mod core;
mod crawler;
mod engine;
mod entry;
mod flush;
mod growth;
mod guess;
mod hold;
mod index;
mod local;
mod maintain;
mod mend;
mod options;
mod owned;
mod partition;
mod pending;
mod pin;
mod pins;
mod plan;
mod reader;
mod recover;
mod refill;
mod relocate;
mod resize;
mod restart;
mod scratch;
mod session;
mod sizing;
mod slots;
mod stats;
mod store;
mod update;
mod walk;
mod writer;

pub use engine::{MicaEngine, NO_POLICY};
pub use guess::Guess;
pub use options::{DEFAULT_PARTITIONS, LogPolicy, MAX_PARTITIONS, MicaOptions};
pub use pending::MicaPending;
pub use pin::MicaPin;
pub use session::MicaSession;
pub use store::{Fits, ItemStore, Log};
pub use walk::MicaWalk;

#[cfg(all(test, guira_loom))]
mod loom_tests;
#[cfg(all(test, not(guira_loom)))]
mod tests;
