//! *Scaling Memcache at Facebook* (Nishtala and others): claims about one server beside its database.

pub(crate) mod balance;
mod classes;
mod database;
pub(crate) mod herd;
pub(crate) mod rates;
