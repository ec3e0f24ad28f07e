//! Blocking sockets.

use std::io::{self, Read, Write};
use std::time::Duration;

use guira_transport::net::{Shutdown, TcpStream, ToSocketAddrs, UnixStream, connect_unix, notice_lost_peer};

use super::Endpoint;

/// A blocking socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Within this machine.
    Unix(UnixStream),
}

impl Socket {
    /// Connects to the first address of the name that answers. Connecting to each address, reads and writes take at most
    /// `timeout`.
    ///
    /// # Errors
    /// When no address answers.
    pub fn connect(endpoint: &Endpoint, timeout: Duration) -> io::Result<Self> {
        let socket = match endpoint {
            Endpoint::Tcp { host, port } => Self::Tcp(connect_tcp(host, *port, timeout)?),
            Endpoint::Unix(path) => Self::Unix(connect_unix(path)?),
        };
        socket.set_write_timeout(timeout)?;
        socket.set_read_timeout(timeout)?;
        Ok(socket)
    }

    /// Enables keepalive probes, so that the system notices the loss of an idle peer's host.
    ///
    /// # Errors
    /// An error of the system.
    pub fn notice_lost_peer(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => notice_lost_peer(socket),
            Self::Unix(_) => Ok(()),
        }
    }

    /// Ends both directions, for all threads that use the socket.
    pub fn close(&self) {
        // Fails if the socket is already closed.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// An error of the system.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_read_timeout(Some(timeout)),
            Self::Unix(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }

    /// How long a write waits.
    ///
    /// # Errors
    /// An error of the system.
    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_write_timeout(Some(timeout)),
            Self::Unix(socket) => socket.set_write_timeout(Some(timeout)),
        }
    }
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).read(into),
            Socket::Unix(socket) => (&mut &*socket).read(into),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).write(bytes),
            Socket::Unix(socket) => (&mut &*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}
