//! *Scaling Memcache at Facebook* (Nishtala and others): claims about one server beside its database, and about many behind a router.

pub(crate) mod balance;
pub(crate) mod batches;
pub(crate) mod capacity;
pub(crate) mod churn;
mod classes;
pub(crate) mod cold;
mod database;
pub(crate) mod deletes;
pub(crate) mod delivery;
pub(crate) mod discards;
mod fleet;
pub(crate) mod gutter;
pub(crate) mod herd;
pub(crate) mod latencies;
pub(crate) mod markers;
pub(crate) mod pages;
pub(crate) mod pools;
pub(crate) mod rates;
pub(crate) mod regional;
pub(crate) mod rehash;
pub(crate) mod replicas;
pub(crate) mod short_lived;
pub(crate) mod sizes;
pub(crate) mod udp;
pub(crate) mod upgrades;
pub(crate) mod window;
