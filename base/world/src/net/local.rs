//! Sockets with names of files, on the host of a process: TCP in the world, found by their path.

use super::stream::{TcpListener, TcpStream};
use super::{descriptor, wires};
use crate::failure::error;
use crate::scheduler;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn key(path: &Path) -> (IpAddr, PathBuf) {
    (wires::host_of(scheduler::current_process()), path.to_owned())
}

#[derive(Debug)]
pub struct UnixStream(TcpStream);

#[derive(Debug)]
pub struct UnixListener(TcpListener);

/// There are none in a world.
#[derive(Debug)]
pub struct UnixDatagram(());

impl UnixStream {
    /// Connects.
    ///
    /// # Errors
    /// If no process of this host listens at the path.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let key = key(path.as_ref());
        let address = wires::with(|net| net.paths.get(&key).copied());
        Ok(UnixStream(TcpStream::connect(address.ok_or_else(|| error(io::ErrorKind::NotFound))?)?))
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// None.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = TcpStream::pair();
        Ok((UnixStream(one), UnixStream(other)))
    }

    /// Whether calls return at once.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(is_nonblocking)
    }

    /// The longest that a read waits.
    ///
    /// # Errors
    /// None.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    /// The longest that a write waits.
    ///
    /// # Errors
    /// None.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(timeout)
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(UnixStream(self.0.try_clone()?))
    }
}

impl UnixListener {
    /// Listens.
    ///
    /// # Errors
    /// If the system has no address for it.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let key = key(path.as_ref());
        let listener = TcpListener::bind(SocketAddr::new(key.0, 0))?;
        let address = listener.local_addr()?;
        wires::with(|net| net.paths.insert(key, address));
        Ok(UnixListener(listener))
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// If none waits, and the listener does not block.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, address) = self.0.accept()?;
        Ok((UnixStream(stream), address))
    }

    /// The address, which has no path here.
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<std::os::unix::net::SocketAddr> {
        std::os::unix::net::SocketAddr::from_pathname("")
    }

    /// Whether [`UnixListener::accept`] returns at once.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(is_nonblocking)
    }
}

impl Read for UnixStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for UnixStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &UnixStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }
}

impl Write for &UnixStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

descriptor::forward!(UnixStream);
descriptor::forward!(UnixListener);
