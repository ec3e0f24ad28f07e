//! MICA: partitions of the keys, each with a circular log and a lossy index (Lim, Han, Andersen and Kaminsky, "MICA: a holistic approach to fast in-memory
//! key-value storage", NSDI 2014).

mod anew;
mod bucket;
mod cache;
mod core;
mod entry;
mod fits;
mod flush;
mod hold;
mod index;
mod log;
mod maintain;
mod mend;
mod options;
mod owned;
mod partition;
mod pending;
mod pin;
mod pins;
mod plan;
mod refill;
mod restart;
mod scratch;
mod session;
mod slots;
mod space;
mod stats;
mod update;
mod walk;

pub use crate::core::{MicaEngine, NO_POLICY};
pub use fits::Fits;
pub use log::Log;
pub use options::{DEFAULT_PARTITIONS, LogPolicy, MAX_PARTITIONS, MicaOptions};
pub use pending::MicaPending;
pub use pin::MicaPin;
pub use session::{Guess, MicaSession};
pub use space::Space;
pub use walk::MicaWalk;

#[cfg(all(test, guira_loom))]
mod loom_tests;
#[cfg(all(test, not(guira_loom)))]
mod tests;
