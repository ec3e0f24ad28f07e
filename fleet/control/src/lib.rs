//! Membership: who serves which slot of a pool. Pools and servers are kept in etcd (`Store`); routers follow them (`Follower`); a
//! `Member` beside each server registers it, and one of the members, the leader, gives the slots of lost servers to spares as `Keeper`
//! decides, which has no I/O. docs/membership.md tells it to operators.
#![forbid(unsafe_code)]

mod counts;
mod etcd;
mod follower;
mod keeper;
mod member;
mod pool;
mod store;

pub use counts::{ControlCount, ControlCounts};
pub use etcd::{Etcd, EtcdError, EtcdOptions, EtcdTls};
pub use follower::{ETCD, Follower};
pub use member::{Member, MemberOptions};
pub use pool::{Pool, PoolError, Rules, Slot};
pub use store::{Leadership, Registration, Store, StoreError, View};
