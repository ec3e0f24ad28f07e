//! A client of MICA's datagrams (Lim et al., NSDI 2014, section 4.2; docs/protocol-mica.md).
//!
//! It hashes keys, sends each request to the thread of the server that owns its key, and spreads reads over all
//! threads where all may read. It sends lost requests again only if they are idempotent. A [`Courier`] keeps
//! many requests in flight; a [`Client`] one at a time.

mod client;
mod courier;
mod error;
mod ledger;
mod slots;

pub use client::{Client, Found};
pub use courier::{Busy, Courier, CourierOptions, ITEM_MAX, REPEATS_MAX, Request, Ticket, learn};
pub use error::ClientError;
pub use ledger::Outcome;

#[cfg(test)]
mod tests;
