//! A look-aside cache beside a database, as in *Scaling Memcache at Facebook* (Nishtala and others,
//! NSDI 2013, sections 3.2 and 5).
//!
//! [`LookAside`] reads the cache first, and the database on a miss. Leases ensure that one client
//! at a time queries the database for a key, and that no client stores a value from before a
//! change. Whatever is wrong with the cache, the application gets its value from the database, and
//! [`Counters`] show the fault.
//!
//! The cache is a Guira node, a router, or memcached of version 1.6.10 or later. The client probes
//! each connection for `lease-get` and `lease-set`, and else uses meta commands.
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
//! A region whose databases are replicas of another region's sets [`Markers`] for its writes, so
//! that its readers do not see older values.
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
