//! Sockets of a simulated world.

use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

pub use guira_world::net::{
    Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};

pub(crate) fn begin_tcp(address: SocketAddr, _service: u8) -> io::Result<TcpStream> {
    let stream = TcpStream::begin(address);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

pub(crate) fn begin_unix(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The error of a socket since the previous call.
pub(crate) fn take_error(stream: impl AsFd) -> io::Result<()> {
    guira_world::net::take_error(stream).map_or(Ok(()), Err)
}

pub(crate) fn listen_tcp(address: SocketAddr, _backlog: u32) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(crate) fn listen_unix(path: &Path, _mode: u32) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether a socket listens.
///
/// # Errors
/// None.
pub fn is_listening(_socket: impl AsFd) -> io::Result<bool> {
    Ok(true)
}

/// No other process shares a listener.
pub(crate) fn is_shut_down(_socket: &UnixListener) -> bool {
    false
}

/// No effect: a lost peer is noticed when something is sent.
///
/// # Errors
/// None.
pub fn notice_lost_peer(_socket: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// Connects to a socket in the file system.
///
/// # Errors
/// If no process of this host listens there.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Wakes a poller: readable once it was rung, until it is reset.
#[derive(Debug)]
pub(crate) struct Bell(guira_world::net::Bell);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Bell(guira_world::net::Bell::new()))
    }

    pub(crate) fn ring(&self) {
        self.0.ring();
    }

    pub(crate) fn reset(&self) {
        self.0.reset();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
