//! Membership: which server holds each slot of a pool. Pools and servers are kept in etcd
//! (`Store`); routers watch them (`Follower`). A `Member` process beside each server registers the
//! server, and one of the members, the leader, gives the slots of lost servers to spares. `Keeper`
//! makes these decisions and has no I/O. docs/guide/membership.md describes membership to
//! operators.
#![forbid(unsafe_code)]

mod change;
mod counts;
mod etcd;
mod follower;
mod keeper;
mod member;
mod order;
mod pool;
mod registration;
mod servers;
mod steps;
mod store;
mod upgrade;

pub use change::{Handover, Resize, Stage};
pub use counts::{ControlCount, ControlCounts};
pub use etcd::{Etcd, EtcdError, EtcdOptions, EtcdTls};
pub use follower::{ETCD, Follower};
pub use member::{Member, MemberOptions};
pub use order::{Order, OrderState};
pub use pool::{Pool, PoolError, Rules, Slot};
pub use registration::Registration;
pub use servers::{CommandError, Key, Servers};
pub use store::{Leadership, Lease, Store, StoreError, View};
