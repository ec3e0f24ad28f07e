//! Which of several servers holds a key: the hashes of mcrouter, libmemcached and twemproxy, bit by bit, and jump.
//!
//! A [`Selector`] is built once for each configuration. Picking a server allocates nothing.

mod ch3;
mod const_shard;
mod crc32;
mod error;
mod join;
mod jump;
mod ketama;
mod key_hash;
mod kind;
mod modula;
mod murmur;
mod rendezvous;
mod routing_key;
mod selector;
mod server;
pub mod spooky;
#[cfg(test)]
mod vectors;
mod weighted_ch3;

pub use error::HashError;
pub use key_hash::KeyHash;
pub use kind::HashKind;
pub use routing_key::{HashTag, before_hash_stop};
pub use selector::{Choices, MOST_CHOICES, Selector};
pub use server::ServerIdentity;
