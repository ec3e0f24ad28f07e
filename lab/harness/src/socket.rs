//! One type for the two kinds of stream sockets.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// How long a TCP connection may take to open. A listener with a full queue drops the first packets, which are sent again after seconds.
const CONNECT_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects; a TCP socket sends small pieces at once.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn connect(address: &Address) -> Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_MAX)?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn duplicate(&self) -> Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Bounds reads and writes.
    ///
    /// # Errors
    /// When `timeout` is zero.
    pub fn set_timeouts(&self, timeout: Duration) -> Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Closes the sending half.
    ///
    /// # Errors
    /// When the peer has closed the connection.
    pub fn end_of_sending(&self) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Closes a TCP connection by a reset; another socket in order.
    pub fn reset(self) {
        if let Self::Tcp(stream) = self {
            // If this fails the connection ends in order, which is as well.
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
