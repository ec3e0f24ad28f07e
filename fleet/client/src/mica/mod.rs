//! A client of MICA's datagrams (Lim et al., NSDI 2014, section 4.2; docs/protocol-mica.md).
//!
//! It hashes keys, picks the thread of the server that each is at home at, and spreads reads over all threads where all may read. What is lost
//! it sends again only if that does no harm. A [`Courier`] has many requests under way, for whoever can go on meanwhile; a [`Client`] has one
//! at a time.

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
