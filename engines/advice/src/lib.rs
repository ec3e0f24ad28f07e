//! What more memory, less of it, or another policy would be worth to a running server, learnt from a sample of its own requests.
//!
//! ```text
//!  workers ──► hash below the threshold? ──► Advisor::see ─┬► Choice ─► Better
//!              (SHARDS: one comparison)      (try_lock)     │    a miniature cache for each of some policies, many keys
//!                                                           ├► Division ─► SizeWeight
//!                                                           │    reuse times of each band of sizes
//!                                                           └► Model ──► Advice
//!                                                              │ a miniature cache for each policy and size
//!                                                              │ working set of an hour, a day and a week, by sketches
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
mod choice;
mod chooser;
mod conclusions;
mod division;
mod families;
mod fill_clock;
mod keys;
mod load;
mod miniatures;
mod model;
mod observed;
mod pool;
mod retention;
mod sampled;
mod sketch;
mod span;
mod tally;
mod worth;

pub use advice::{Advice, Family, LongSet, OfPolicy, SCALES, SampleSize, WINDOW, WorkingSet};
pub use advisor::{Advisor, Subjects};
pub use choice::{Better, CANDIDATES, Policies, WhyBetter};
pub use conclusions::Conclusions;
pub use division::ChunkUse;
pub use families::{FAMILY_PREFIX_MAX, family_prefix};
pub use observed::{Observed, Pulse, What};
pub use pool::PoolAdvice;
pub use worth::Worth;
