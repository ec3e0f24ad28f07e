//! Measures the latency of invalidation (Scaling Memcache at Facebook, section 7.3 and figure 11):
//! one delete in N is sampled, the nodes are read at intervals afterwards, and an item that should
//! be gone is an inconsistency.
//!
//! [`Probe`] decides which requests are due and judges the replies; it has neither clock nor
//! socket. [`Driver`] sends the requests to nodes, and [`job`] feeds it with the keys of a stream.

mod deleter;
mod driver;
mod job;
mod judge;
mod report;
mod sample;

pub use driver::Driver;
pub use job::{Job, Manner, Outcomes, job};
pub use judge::{FirstLook, Look, Probe, ProbeRequest, SampleId, Seen, Settings};
pub use report::{AtDelay, Example, Report, Tally, nines};
