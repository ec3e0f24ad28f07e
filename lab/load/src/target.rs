//! The address of a server, with its protocol and transport.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::protocol::Protocol;
use crate::tls::TlsClient;

#[derive(Debug, Clone)]
pub enum Carrier {
    Tcp,
    Tls(TlsClient),
    /// Datagrams to this address; what must not get lost, such as the sets that fill a server, still goes over TCP.
    Udp(SocketAddr),
    /// MICA's datagrams; what fills a server goes over TCP here too.
    Mica(Direct),
}

/// How MICA's datagrams reach a server.
#[derive(Debug, Clone)]
pub struct Direct {
    pub way: DatagramWay,
    /// Requests in a datagram, at most.
    pub per_datagram: u16,
}

#[derive(Debug, Clone)]
pub enum DatagramWay {
    /// UDP, to the first worker's port.
    Udp(SocketAddr),
    /// Memory shared with a server on the same host, which is found by its socket.
    Local(PathBuf),
}

impl fmt::Display for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            DatagramWay::Udp(addr) => write!(f, "{addr}"),
            DatagramWay::Local(socket) => write!(f, "{}", socket.display()),
        }
    }
}

/// A server as a client sees it.
#[derive(Debug, Clone)]
pub struct Target {
    pub addr: SocketAddr,
    pub protocol: Protocol,
    pub carrier: Carrier,
}

impl Target {
    #[must_use]
    pub const fn text(addr: SocketAddr) -> Self {
        Self { addr, protocol: Protocol::Text, carrier: Carrier::Tcp }
    }

    /// The same server, reached by connections, which lose nothing.
    #[must_use]
    pub fn by_connection(&self) -> Self {
        match self.carrier {
            Carrier::Udp(_) | Carrier::Mica(_) => Self { carrier: Carrier::Tcp, ..self.clone() },
            Carrier::Tcp | Carrier::Tls(_) => self.clone(),
        }
    }
}
