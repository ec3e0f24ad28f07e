//! UDP: not modelled yet. A socket can be made and has an address; nothing arrives.

use super::stream::TcpListener;
use super::{address, descriptor};
use crate::failure::error;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

#[derive(Debug)]
pub struct UdpSocket(TcpListener);

impl UdpSocket {
    /// A socket at an address of this host.
    ///
    /// # Errors
    /// If another socket has it.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(UdpSocket(TcpListener::bind(address::first(addresses)?)?))
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(UdpSocket(self.0.try_clone()?))
    }

    /// No effect: nothing waits for a datagram.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// No effect.
    ///
    /// # Errors
    /// None.
    pub fn connect(&self, _: impl ToSocketAddrs) -> io::Result<()> {
        Ok(())
    }

    /// Loses the datagram.
    ///
    /// # Errors
    /// None.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    /// Nothing arrives.
    ///
    /// # Errors
    /// Always.
    pub fn recv(&self, _: &mut [u8]) -> io::Result<usize> {
        Err(error(io::ErrorKind::WouldBlock))
    }

    /// Loses the datagram.
    ///
    /// # Errors
    /// None.
    pub fn send_to(&self, bytes: &[u8], _: impl ToSocketAddrs) -> io::Result<usize> {
        Ok(bytes.len())
    }

    /// The address.
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

descriptor::forward!(UdpSocket);
