//! *Scaling Memcache at Facebook* (Nishtala and others): claims about one server beside its database, and about many behind a router.

pub(crate) mod balance;
pub(crate) mod batches;
pub(crate) mod capacity;
mod classes;
pub(crate) mod cold;
mod database;
pub(crate) mod deletes;
pub(crate) mod delivery;
mod fleet;
pub(crate) mod gutter;
pub(crate) mod herd;
pub(crate) mod markers;
pub(crate) mod pages;
pub(crate) mod pools;
pub(crate) mod rates;
pub(crate) mod regional;
pub(crate) mod rehash;
pub(crate) mod replicas;
pub(crate) mod sizes;
pub(crate) mod udp;
pub(crate) mod window;
