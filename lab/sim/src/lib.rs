//! Simulation of caches: which share of the requests of a stream finds its key, by policy and size.
//!
//! ```text
//!  trace or workload ──► Stream ──► Sweep ──► Points ──► Report: text, JSON, plot
//!                       (keys as    (policies × sizes,
//!                        numbers)    on threads)
//! ```
//!
//! The engine's own policies are simulated from the engine's code, through adaptors over plain arrays; policies of
//! the literature are here to be compared with, each in a file of [`policy`] that cites its paper.
//!
//! Where the question is what becomes of each byte of memory, [`layout`] drives the stream through whole caches: the
//! slab engine itself, in process, and a log of segments that there is only here.

#![forbid(unsafe_code)]

mod distinct;
pub mod fleet;
mod jobs;
pub mod layout;
pub mod plot;
pub mod policy;
pub mod recommend;
pub mod registry;
pub mod report;
pub mod run;
pub mod sample;
pub mod size;
pub mod stream;
pub mod sweep;
#[cfg(test)]
mod testing;

pub use guira_workload::OnMiss;
pub use registry::{Choice, policies};
pub use report::{Report, SampleError, Simulated};
pub use run::{Counters, Measure, Rules};
pub use sample::Sample;
pub use size::Size;
pub use stream::{Reading, Stream, Writes};
pub use sweep::{Means, Point, Sweep};
