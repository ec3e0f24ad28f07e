//! What more memory, less of it, or another policy would be worth to a running server, learnt from a sample of its own requests.
//!
//! ```text
//!  workers ──► hash below the threshold? ──► Advisor::see ──► Model ──► Advice
//!              (SHARDS: one comparison)      (try_lock)        │ a miniature cache for each policy and size
//!                                                              │ working set of an hour, by sketches
//!                                                              └ the same by family of keys
//! ```
//!
//! Keys are sampled by their hash, so that all requests of a key are seen or none, and a cache made smaller by as much as there are
//! fewer keys behaves as the whole one (Waldspurger and others: "Efficient MRC construction with SHARDS", FAST 2015, and "Cache
//! modeling and optimization using miniature simulations", USENIX ATC 2017). The miniatures evict with the engine's own code.
//!
//! How many keys are sampled is bounded by memory (section 3.2 of the first paper), and by processor time: whatever is asked for, so many
//! requests in a second of it are looked at, and no more.

#![forbid(unsafe_code)]

mod advice;
mod advisor;
mod families;
mod keys;
mod miniatures;
mod model;
mod sketch;
mod tally;

pub use advice::{Advice, Family, OfPolicy, WorkingSet};
pub use advisor::{Advisor, Pulse};
pub use model::{Observed, What};

/// The sizes that are simulated, as multiples of the memory there is.
pub const SCALES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// A window, in seconds: what is told is of the last whole one and of what there is of the next.
pub const WINDOW: u32 = 3600;

/// All of 2^64.
const ALL_HASHES: f64 = 18_446_744_073_709_551_616.0;
