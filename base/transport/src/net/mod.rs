//! Sockets: the system's, or under `--cfg guira_simulated` those of guira_world. No other crate of base, engines, node
//! and fleet uses std's. Addresses are plain values and come from std.

#[cfg(guira_simulated)]
mod simulated;
#[cfg(not(guira_simulated))]
mod system;

#[cfg(guira_simulated)]
use simulated as sockets;
#[cfg(not(guira_simulated))]
use system as sockets;

pub(crate) use sockets::{Bell, begin_tcp, begin_unix, is_shut_down, listen_tcp, listen_unix, take_error};
pub use sockets::{
    Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener, UnixStream,
    connect_unix, is_listening, notice_lost_peer,
};
