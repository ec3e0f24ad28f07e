//! Where a server is, and how it is spoken to.

use std::net::SocketAddr;

use crate::request::Protocol;
use crate::tls::TlsClient;

/// What carries requests and replies.
#[derive(Debug, Clone)]
pub enum Carrier {
    /// TCP connections.
    Tcp,
    /// TCP connections with TLS.
    Tls(TlsClient),
    /// Datagrams to this address; what must not get lost, such as the sets that fill a server, still goes over TCP.
    Udp(SocketAddr),
}

/// A server as a client sees it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it accepts connections.
    pub addr: SocketAddr,
    /// How requests are spelled.
    pub protocol: Protocol,
    /// What carries them.
    pub carrier: Carrier,
}

impl Target {
    /// The text protocol over TCP.
    #[must_use]
    pub const fn text(addr: SocketAddr) -> Self {
        Self { addr, protocol: Protocol::Text, carrier: Carrier::Tcp }
    }

    /// The same server, reached by connections, which lose nothing.
    #[must_use]
    pub fn by_connection(&self) -> Self {
        match self.carrier {
            Carrier::Udp(_) => Self { carrier: Carrier::Tcp, ..self.clone() },
            Carrier::Tcp | Carrier::Tls(_) => self.clone(),
        }
    }
}
