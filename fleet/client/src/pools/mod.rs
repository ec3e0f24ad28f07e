//! A client of many servers that routes by itself: no router between the application and its caches.
//!
//! mcrouter's configuration language defines the server of each key, with the hashes, the failovers
//! and the other routes of a router (docs/reference/router-config.md, docs/guide/client.md).
//! [`Client`] blocks: the calling thread does the I/O. [`AsyncClient`] has futures for any runtime,
//! and a thread of its own.
//!
//! ```no_run
//! use guira_client::pools::{Client, Store};
//!
//! let client = Client::from_config(r#"{
//!     "pools": {"all": {"servers": ["10.0.0.1:11211", "10.0.0.2:11211"]}},
//!     "route": "PoolRoute|all"
//! }"#)?;
//! client.set(&Store::new(b"user:7", b"Ada").expiry(600))?;
//! for item in client.get_many(&["user:7", "user:8"]) {
//!     match item {
//!         Ok(Some(item)) => println!("{} bytes", item.value.len()),
//!         Ok(None) => println!("ask the database, and store what it says"),
//!         Err(error) => println!("ask the database, and do not store what it says: {error}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod compress;
mod core;
mod counters;
mod error;
mod future;
mod item;
mod operation;
mod plan;
mod promise;
mod reload_handle;
mod server;
mod session;
mod shared_window;
mod window;
mod work;

pub use crate::key::KeyProblem;
pub use client::{Client, Stats};
pub use compress::COMPRESSED;
pub use counters::Counters;
pub use error::{Error, ErrorKind};
pub use future::AsyncClient;
pub use guira_routing::config::Texts;
pub use item::{Cas, Item, Store};
pub use plan::{Builder, SetupError, check};
pub use reload_handle::ReloadHandle;
pub use window::{Era, Window};
