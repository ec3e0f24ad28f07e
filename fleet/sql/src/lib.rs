//! Connections to databases: logins, TLS, statements and their rows; and the settings of programs between databases and
//! caches.

#![forbid(unsafe_code)]

mod braces;
mod bytes;
mod credentials;
mod error;
pub mod mariadb;
pub mod postgres;
mod server;
mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod wire;

pub use braces::{BracesError, Part, parts};
pub use bytes::{Bytes, bit};
pub use credentials::{Credentials, Login};
pub use error::SourceError;
pub use server::{Server, ServerError};
pub use settings::{endpoint, prefix, read_settings};
pub use tls::{Security, Tls, reload, secured, security};
pub use wire::{Wire, Writer};
