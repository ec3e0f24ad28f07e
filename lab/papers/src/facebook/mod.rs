//! *Scaling Memcache at Facebook* (Nishtala and others): claims about one server beside its database.

mod database;
pub(crate) mod herd;
