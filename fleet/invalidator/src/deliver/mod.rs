//! Deletes on their way to a target: a router, or a server.
//!
//! | file | what it knows |
//! |---|---|
//! | lane.rs | what a target has to do, in memory and in its spool, and when again |
//! | spool.rs | batches on disk |
//! | spool_file.rs | what a file of them has |
//! | delivery.rs | the thread that delivers, again and again until it is acknowledged |
//! | dialect.rs | requests and answers |
//! | patience.rs | how long rejected keys are sent again |

mod delivery;
mod dialect;
mod lane;
mod patience;
mod spool;
mod spool_file;

pub(crate) use delivery::{Delivery, Ways};
pub(crate) use dialect::{Dialect, How, KEY_LEAST, KEY_MAX};
pub(crate) use lane::{Lane, Limits};
pub(crate) use patience::PATIENCE;
pub(crate) use spool::Spool;
pub use spool::SpoolError;
