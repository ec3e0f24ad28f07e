//! A connected socket.

use crate::poll::Interest;
use crate::tls::{TlsFacts, TlsStream};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// A connected socket that never blocks.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// UNIX.
    Unix(UnixStream),
    /// TLS over one of them (boxed: what a session needs is large, and most streams have none).
    Tls(Box<TlsStream>),
}

/// What came of trying to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes.
    Moved(usize),
    /// None now: wait for an event.
    Blocked,
    /// None any more.
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
    /// Reads into `buffer`, which is not empty.
    ///
    /// # Errors
    /// What the system says, but not that it would block or was interrupted. With TLS, a [`crate::TlsFault`] too.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.read(buffer)),
            Stream::Unix(stream) => progress(stream.read(buffer)),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes some of `bytes`, which are not empty.
    ///
    /// # Errors
    /// What the system says, but not that it would block or was interrupted.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.write(bytes)),
            Stream::Unix(stream) => progress(stream.write(bytes)),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes some of the bytes in `parts`, which are not all empty.
    ///
    /// # Errors
    /// What the system says, but not that it would block or was interrupted.
    pub fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Progress> {
        match self {
            Stream::Tcp(stream) => progress(stream.write_vectored(parts)),
            Stream::Unix(stream) => progress(stream.write_vectored(parts)),
            Stream::Tls(stream) => stream.write_vectored(parts),
        }
    }

    /// Hands over to the system what earlier writes have taken: `Moved(0)` when nothing is left, `Blocked` if something
    /// is. Only TLS keeps something back, of 64 KiB of plaintext at most.
    ///
    /// # Errors
    /// As those of a write.
    pub fn flush(&mut self) -> io::Result<Progress> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(Progress::Moved(0)),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Nothing is to be written any more: hands over what is left, and with TLS says so to the client. `Moved(0)` when
    /// that is done, and the stream can be dropped; `Blocked` if it is to be called again when the socket has room.
    /// A stream that is dropped does it as far as it goes without waiting.
    ///
    /// # Errors
    /// What the system says: there is nobody to tell.
    pub fn finish(&mut self) -> io::Result<Progress> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(Progress::Moved(0)),
            Stream::Tls(stream) => stream.finish(),
        }
    }

    /// What the socket is to be polled for by whoever waits for `interest` in this stream. It may change with every
    /// call of another method.
    pub fn wants(&self, interest: Interest) -> Interest {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => interest,
            Stream::Tls(stream) => stream.wants(interest),
        }
    }

    /// Whether a read has something to tell that the poller does not know of: bytes, an end or an error. After a read
    /// that did not fill its buffer there are no bytes.
    pub fn has_input(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(stream) => stream.has_input(),
        }
    }

    /// Bytes that are kept for it beside what every connection of its kind takes: with TLS what has come of a record or a handshake that
    /// is not complete, plaintext that nobody has read, and what the socket does not take.
    pub fn holds(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.holds(),
        }
    }

    /// What a TLS handshake has agreed; `None` before its end, and without TLS. The tests compare it with what the client believes.
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
