//! Deletes on their way to a target: a router, or a server.

mod delivery;
mod dialect;

pub(crate) use delivery::Delivery;
pub(crate) use dialect::Dialect;
