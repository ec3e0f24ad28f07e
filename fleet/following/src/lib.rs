//! Where configurations come from, for routers and for clients that route by themselves: files that are watched, SRV records that are looked up again,
//! and pools of etcd. The last good one is kept on disk, for a start at which nothing answers.
//!
//! ```text
//! Reader ── Source: a file, or a text
//!        └─ Followed: Records (DNS), EtcdPools ── what a configuration names
//! kept: texts on disk
//! Following: a client of guira_client::pools that goes by all of this
//! ```

#![forbid(unsafe_code)]

mod client;
mod etcd_pools;
pub mod kept;
mod records;
mod source;

pub use client::{FollowError, Following};
pub use etcd_pools::EtcdPools;
pub use records::{Learned, PATIENCE, Records};
pub use source::{Files, Followed, Reader, Source, Unreadable};
