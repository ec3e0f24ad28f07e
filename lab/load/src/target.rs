//! Where a server is, and how it is spoken to.

use std::net::SocketAddr;

use crate::request::Protocol;

/// A server as a client sees it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it accepts connections.
    pub addr: SocketAddr,
    /// How requests are spelled.
    pub protocol: Protocol,
}

impl Target {
    /// The text protocol over TCP.
    #[must_use]
    pub const fn text(addr: SocketAddr) -> Self {
        Self { addr, protocol: Protocol::Text }
    }
}
