//! Regions of a fleet on this machine, with real programs: databases that replicate with a lag, caches behind routers, and an invalidator
//! in each; and users of them whose reads are held against what they have written.

#![forbid(unsafe_code)]

pub mod database;
pub mod etcd;
pub mod http;
pub mod judge;
mod member;
mod progress;
mod region;
pub mod users;

pub use member::Member;
pub use progress::{Progress, has_files};
pub use region::{Cluster, Flush, Region, Settings, pair, prepare, replicate};
