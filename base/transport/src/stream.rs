//! Connected sockets.

use crate::address::Address;
use crate::net::{self, TcpStream, UnixStream};
use crate::poll::Interest;
use crate::tls::{TlsFacts, TlsStream};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, sockopt};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS over one of them (boxed: a session is large, and most streams have none).
    Tls(Box<TlsStream>),
}

/// The result of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This many bytes were moved.
    Moved(usize),
    /// The call would block: wait for an event.
    Blocked,
    Ended,
}

pub(crate) fn progress(result: io::Result<usize>) -> io::Result<Progress> {
    match result {
        Ok(0) => Ok(Progress::Ended),
        Ok(bytes) => Ok(Progress::Moved(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Progress::Blocked),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Progress::Moved(0)),
        Err(error) => Err(error),
    }
}

impl Stream {
    /// Takes over a connected socket that was accepted elsewhere. Also returns the other end's address, over TCP.
    ///
    /// # Errors
    /// An error of the system, or that it is neither TCP nor UNIX, or not connected any more.
    pub fn adopt(socket: OwnedFd) -> io::Result<(Self, Option<SocketAddr>)> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => Ok((Stream::Unix(UnixStream::from(socket)), None)),
            AddressFamily::INET | AddressFamily::INET6 => {
                let stream = TcpStream::from(socket);
                let peer = stream.peer_addr()?;
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            _ => Err(io::Error::other("the socket is neither TCP nor UNIX")),
        }
    }

    /// Begins to connect. The stream is writable once it is connected or has failed, which [`Stream::take_error`] tells then.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_marked(address, 0)
    }

    /// The same, whose packets have this in the field of their service (DSCP, and two bits that are the kernel's), unless it is 0.
    ///
    /// # Errors
    /// As above.
    pub fn connect_marked(address: &Address, service: u8) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => Stream::Tcp(net::begin_tcp(*address, service)?),
            Address::Unix(path) => Stream::Unix(net::begin_unix(path)?),
        })
    }

    /// What has gone wrong with the socket since this was asked last.
    ///
    /// # Errors
    /// Just that.
    pub fn take_error(&self) -> io::Result<()> {
        net::take_error(self)
    }

    /// Whether all that there is of the connection is its socket: another process can go on with that.
    pub fn is_plain(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => true,
            Stream::Tls(_) => false,
        }
    }

    /// Reads into `buffer`, which must not be empty.
    ///
    /// # Errors
    /// An error of the system, except that it would block or was interrupted. With TLS, also a [`crate::TlsFault`].
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.read(buffer)),
            Stream::Unix(stream) => progress(stream.read(buffer)),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes some of `bytes`, which must not be empty.
    ///
    /// # Errors
    /// An error of the system, except that it would block or was interrupted.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.write(bytes)),
            Stream::Unix(stream) => progress(stream.write(bytes)),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes some of the bytes in `parts`, which must not all be empty.
    ///
    /// # Errors
    /// An error of the system, except that it would block or was interrupted.
    pub fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.write_vectored(parts)),
            Stream::Unix(stream) => progress(stream.write_vectored(parts)),
            Stream::Tls(stream) => stream.write_vectored(parts),
        }
    }

    /// Passes buffered output to the system: `Moved(0)` when nothing is left, `Blocked` otherwise. Only TLS buffers
    /// output, at most 64 KiB of plaintext.
    ///
    /// # Errors
    /// As for a write.
    pub fn flush(&mut self) -> io::Result<Progress> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(Progress::Moved(0)),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Ends the output: passes buffered output to the system, and with TLS sends a close_notify. `Moved(0)` when that
    /// is done and the stream can be dropped; `Blocked` if the call has to be repeated when the socket is writable.
    /// Dropping a stream does the same as far as possible without blocking.
    ///
    /// # Errors
    /// An error of the system: the connection is broken.
    pub fn finish(&mut self) -> io::Result<Progress> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(Progress::Moved(0)),
            Stream::Tls(stream) => stream.finish(),
        }
    }

    /// The event to poll the socket for in order to get `interest` in this stream. It may change with every call of
    /// another method.
    pub fn wants(&self, interest: Interest) -> Interest {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => interest,
            Stream::Tls(stream) => stream.wants(interest),
        }
    }

    /// Whether a read would return something that the poller does not report: bytes, an end or an error. After a read
    /// that did not fill its buffer there are no bytes.
    pub fn has_input(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(stream) => stream.has_input(),
        }
    }

    /// Whether output is buffered that the socket has not taken: encrypted bytes of TLS.
    pub fn has_output(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(stream) => stream.has_output(),
        }
    }

    /// Bytes buffered for this stream beside the fixed cost of its kind: with TLS, those of incomplete records and
    /// handshakes, unread plaintext, and unsent output.
    pub fn holds(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.holds(),
        }
    }

    /// The result of the TLS handshake; `None` before its end, and without TLS.
    pub fn tls_facts(&self) -> Option<TlsFacts> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => None,
            Stream::Tls(stream) => stream.facts(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::TcpListener;

    #[test]
    fn packets_are_marked_as_wanted() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // A host may have no IPv6.
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let address = listener.local_addr().unwrap();
            let service = |mark| {
                let stream = Stream::connect_marked(&Address::Tcp(address), mark).unwrap();
                match address {
                    SocketAddr::V4(_) => u32::from(sockopt::ip_tos(&stream).unwrap()),
                    SocketAddr::V6(_) => sockopt::ipv6_tclass(&stream).unwrap(),
                }
            };
            assert_eq!((service(0), service(0x8c), service(0x20)), (0, 0x8c, 0x20), "{host}");
        }
    }
}
