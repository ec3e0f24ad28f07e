//! Connections to databases: how they are reached, logins, statements and their rows. Whoever reads a log speaks to them by this too.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

mod bytes;
mod credentials;
mod error;
pub mod mariadb;
pub mod postgres;
mod server;
mod socket;
mod stop;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod wire;

pub use bytes::{Bytes, bit};
pub use credentials::{Credentials, Login};
pub use error::SourceError;
pub use server::Server;
pub use socket::Socket;
pub use stop::{Stop, Stopped};
pub use tls::{Tls, security};
pub use wire::{Security, Wire, Writer};
