//! Workload models: which key is asked for next, how long its value is, which operation is made, and readers of
//! recorded request traces.
//!
//! Nothing here opens a socket or starts a thread, and nothing draws from an unseeded source: the same seed gives
//! the same requests on every machine, which is what lets two servers be compared on the same load.
//!
//! | module | question it answers |
//! |---|---|
//! | [`popularity`] | which key comes next: uniform, Zipf, CacheLib's popularity buckets |
//! | [`keys`] | how a key number is spelled |
//! | [`sizes`] | how long the value of a key is |
//! | [`values`] | what the value of a key contains |
//! | [`mix`] | which operation comes next |
//! | [`model`] | all of them together: a stream of draws |
//! | [`recipe`] | workloads by name, with options: Zipf, Twitter's clusters, Facebook's pools |
//! | [`cachelib`] | the three above, read from CacheLib's JSON files |
//! | [`trace`] | what was asked for in production |
//! | [`units`] | how numbers with units are read |

#![forbid(unsafe_code)]

pub mod cachelib;
pub mod keys;
pub mod mix;
pub mod model;
pub mod popularity;
pub mod recipe;
pub mod rng;
pub mod sizes;
pub mod trace;
pub mod units;
pub mod values;
pub mod zipf;

pub use keys::KeyShape;
pub use mix::{Mix, Operation};
pub use model::{Expiry, Generator, Model, OnMiss};
pub use popularity::Popularity;
pub use recipe::Recipe;
pub use rng::Rng;
pub use sizes::SizeModel;
pub use values::ValuePool;
pub use zipf::Zipf;
