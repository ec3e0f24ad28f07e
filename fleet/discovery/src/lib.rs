//! Where configurations and addresses come from, for routers and for clients that route by themselves: files that are
//! watched, SRV records, pools of etcd, and names in DNS. The last good configuration is kept on disk, for a start
//! without any of them.
//!
//! ```text
//! Reader ── Source: a file, or a text
//!        └─ Followed: Records (DNS), EtcdPools ── what a configuration names
//! kept: texts on disk
//! names: the addresses of servers, looked up on a thread
//! Following: a client of guira_client::pools that goes by all of this
//! ```

#![forbid(unsafe_code)]

mod client;
mod etcd_pools;
pub mod kept;
mod names;
mod records;
mod source;

pub use client::{FollowError, Following};
pub use etcd_pools::EtcdPools;
pub use names::{
    NameCount, NameCounts, NameGauge, Names, NamesOptions, News, SRV_HOLD_DOWN, SRV_HOLD_DOWN_MS,
};
pub use records::{Learned, PATIENCE, Records};
pub use source::{Files, Followed, Reader, Source, Unreadable};
