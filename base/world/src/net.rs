//! Sockets: connections between hosts, with latency, limited buffers and faults, and a poller for them.
//!
//! A host is an address; each process has one, and two processes of a host share it. Bytes of a connection arrive in
//! order, some time after they were sent. What a fault does is drawn when something is sent.

mod address;
mod datagram;
mod descriptor;
mod local;
mod poll;
mod sockets;
mod stream;
mod wires;

pub use datagram::UdpSocket;
pub use local::{UnixDatagram, UnixListener, UnixStream};
pub use poll::{Poll, Ready, wait_for};
pub use std::net::{Shutdown, ToSocketAddrs};
pub use stream::{Bell, TcpListener, TcpStream};
pub use wires::{Faults, crash, cut, heal, host_of, redirect, set_faults, set_host, take_error};
