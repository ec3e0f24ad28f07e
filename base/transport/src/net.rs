//! Sockets: std's. No other crate of base, engines, node and fleet uses std's, so that a simulator can exchange them.
//! Addresses are plain values and come from std.

pub use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
pub use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
