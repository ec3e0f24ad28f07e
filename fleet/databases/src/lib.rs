//! How databases and caches are reached by those who stand between them: logins, TLS, statements and their rows. Whoever reads a log speaks to its database by this too.

#![forbid(unsafe_code)]

mod braces;
mod bytes;
mod credentials;
mod error;
mod listener;
pub mod mariadb;
pub mod postgres;
mod server;
mod settings;
mod socket;
mod stop;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod way;
mod wire;

pub use braces::{BracesError, Part, parts};
pub use bytes::{Bytes, bit};
pub use credentials::{Credentials, Login};
pub use error::SourceError;
pub use listener::Listener;
pub use server::{Server, ServerError};
pub use settings::{endpoint, prefix, read_settings};
pub use socket::Socket;
pub use stop::{Stop, Stopped};
pub use tls::{Tls, security};
pub use way::{Way, WayError};
pub use wire::{Security, Wire, Writer};
