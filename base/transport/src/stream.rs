//! A connected socket.

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

fn progress(result: io::Result<usize>) -> io::Result<Progress> {
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
    /// What the system says, but not that it would block or was interrupted.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        progress(match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        })
    }

    /// Writes some of `bytes`, which are not empty.
    ///
    /// # Errors
    /// What the system says, but not that it would block or was interrupted.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Progress> {
        progress(match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        })
    }

    /// Writes some of the bytes in `parts`, which are not all empty.
    ///
    /// # Errors
    /// What the system says, but not that it would block or was interrupted.
    pub fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Progress> {
        progress(match self {
            Stream::Tcp(stream) => stream.write_vectored(parts),
            Stream::Unix(stream) => stream.write_vectored(parts),
        })
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}
