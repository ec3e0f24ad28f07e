//! *Memcached with KLRU* (Yang, Wang and Wang): each claim again, over the engine's own policies.
//!
//! Miss ratios and delays are simulated with the code that evicts in the server (`simulate`), costs are measured in
//! the engine `classic` inside this process (`inside`) and over loopback.

mod blind;
pub(crate) mod curves;
pub(crate) mod delay;
pub(crate) mod expiry;
mod inside;
pub(crate) mod locks;
pub(crate) mod metadata;
mod mixes;
pub(crate) mod samples;
pub(crate) mod sampling;
pub(crate) mod server;
pub(crate) mod small;
pub(crate) mod summary;
pub(crate) mod threads;
