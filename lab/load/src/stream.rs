//! A connected socket with or without TLS, with the same methods for both.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// A socket and the TLS session over it.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: rustls::Connection,
}

impl Stream {
    /// A socket whose bytes belong to `session`.
    pub(crate) fn tls(socket: TcpStream, session: impl Into<rustls::Connection>) -> Self {
        Self::Tls(Box::new(TlsStream { socket, session: session.into() }))
    }

    /// The timeout of reads of a blocking socket.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.set_read_timeout(Some(timeout)),
            Self::Tls(tls) => tls.socket.set_read_timeout(Some(timeout)),
        }
    }

    /// Reads like [`Read::read`]. A read that does not fill `into` leaves nothing in the session,
    /// so the event loop, which watches the socket, reports when there is more.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }

    /// Writes like [`Write::write_vectored`]. With TLS, bytes that were taken may not be sent yet:
    /// see [`Stream::flush`].
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(slices),
            Self::Tls(tls) => tls.write(slices),
        }
    }

    /// Sends the bytes that `write` took; an error of the kind `WouldBlock` when the socket has no
    /// room for all of them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Tls(tls) => tls.socket.as_fd(),
        }
    }
}

impl TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // A handshake replies to its input; bytes without room are sent with the next write.
            match self.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let count = self.session.writer().write_vectored(slices)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
