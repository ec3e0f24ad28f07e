//! A cache beside a database, as *Scaling Memcache at Facebook* has it (Nishtala and others, NSDI 2013, sections 3.2 and 5).
//!
//! [`LookAside`] asks the cache first, and the database for what the cache does not have. Leases see to it that one client
//! asks the database for a key at a time, and that nobody stores what a database said before a change. Whatever is wrong with
//! the cache, the application has its answer: from the database, and [`Counters`] tell of it.
//!
//! The cache is a Guira node, a router, or memcached of version 1.6.10 or later. Each connection is asked what it knows:
//! `lease-get` and `lease-set`, or meta commands, of which leases are made then.
//!
//! ```no_run
//! # fn load(id: u64) -> Result<Option<String>, std::io::Error> { Ok(None) }
//! # fn execute(statement: &str) -> Result<(), std::io::Error> { Ok(()) }
//! use guira_client::lookaside::{LookAside, Value};
//! use guira_client::text::Target;
//! use std::time::Duration;
//!
//! let target = Target::new("127.0.0.1:11211".parse()?, Duration::from_millis(250));
//! let cache = LookAside::new(target).expiry(Duration::from_secs(600));
//! let name = cache.get_or_fill("user:7", |_| Ok::<_, std::io::Error>(load(7)?.map(Value::new)))?;
//! cache.write_through_delete(&["user:7"], |changed| {
//!     execute(&format!("{} UPDATE users SET name = 'Ada' WHERE id = 7", changed.comment()))
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A region whose databases are replicas of another one's sets [`Markers`] for what it writes, so that its readers do not see what was before.
//!
//! The same in commands, for other languages: docs/guide/client.md.

mod backoff;
mod changed;
mod client;
mod counters;
mod database;
mod key;
mod leased;
mod leases;
mod links;
mod markers;
mod policy;
mod random;
mod read;
mod shared;
#[cfg(test)]
mod tests;
mod value;

pub use changed::Changed;
pub use client::LookAside;
pub use counters::Counters;
pub use database::{Database, Wanted};
pub use leases::Leases;
pub use links::CacheError;
pub use markers::Markers;
pub use policy::StaleValues;
pub use value::Value;
