//! The latency of invalidation (Scaling Memcache at Facebook, section 7.3 and figure 11): one delete in N is sampled, the
//! nodes are asked for its key at intervals afterwards, and an item that should be gone and is still there is an
//! inconsistency.
//!
//! [`Probe`] decides what is to be asked and what the answers mean; it has neither clock nor socket. [`Driver`] asks
//! nodes over connections, and [`job`] feeds it with the keys of a stream.

mod deleter;
mod driver;
mod job;
mod judge;
mod report;
mod sample;

pub use driver::Driver;
pub use job::{Job, Manner, Outcomes, job};
pub use judge::{Ask, FirstLook, Look, Probe, SampleId, Seen, Settings};
pub use report::{AtDelay, Example, Report, Tally, nines};
