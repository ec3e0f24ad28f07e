//! A client of MICA's datagrams (Lim et al., NSDI 2014, section 4.2; docs/reference/protocol-mica.md).
//!
//! It hashes keys, sends each request to the thread of the server that owns its key, and spreads reads over all
//! threads where all may read. It sends lost requests again only if they are idempotent. A [`PipelinedClient`] keeps
//! many requests in flight; a [`Client`] one at a time.

mod client;
mod error;
mod in_flight;
mod options;
mod pipeline;
mod request;
mod slots;

pub use client::{Client, StoredValue};
pub use error::ClientError;
pub use in_flight::Outcome;
pub use options::{ClientOptions, RETRIES_MAX};
pub use pipeline::{PipelinedClient, fetch_directory};
pub use request::{Busy, ITEM_MAX, Request, Ticket};

#[cfg(test)]
mod tests;
