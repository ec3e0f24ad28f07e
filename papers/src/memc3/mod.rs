//! MemC3 (Fan, Andersen and Kaminsky, NSDI 2013).

pub(crate) mod cache;
pub(crate) mod counters;
pub(crate) mod drive;
pub(crate) mod factors;
pub(crate) mod fill;
mod hits;
pub(crate) mod items;
pub(crate) mod locks;
pub(crate) mod network;
pub(crate) mod references;
mod table;
pub(crate) mod threads;
