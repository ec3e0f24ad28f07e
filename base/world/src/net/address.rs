//! Addresses that are given as texts, as std takes them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The first address of a text, which must be one of numbers: names are resolved elsewhere.
pub(super) fn first(addresses: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no address");
    addresses.to_socket_addrs()?.next().ok_or_else(none)
}
