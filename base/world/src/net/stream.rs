//! Sockets with the face of std's.

use super::{address, descriptor, wires};
use crate::failure::error;
use crate::scheduler::{self, Woken};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
struct Handle {
    fd: i32,
    is_nonblocking: AtomicBool,
    /// Nanoseconds; 0 for none.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
}

impl Handle {
    fn new(fd: i32) -> Self {
        let (is_nonblocking, read_timeout, write_timeout) = Default::default();
        Handle { fd, is_nonblocking, read_timeout, write_timeout }
    }

    /// Another handle of the same socket.
    fn share(&self) -> Self {
        wires::share(self.fd);
        let same = |time: &AtomicU64| AtomicU64::new(time.load(Ordering::Relaxed));
        Handle {
            fd: self.fd,
            is_nonblocking: AtomicBool::new(self.is_nonblocking.load(Ordering::Relaxed)),
            read_timeout: same(&self.read_timeout),
            write_timeout: same(&self.write_timeout),
        }
    }

    /// Tries until it does not block.
    fn wait<R>(&self, timeout: &AtomicU64, mut attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        scheduler::point();
        let timeout = match timeout.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(scheduler::now() + Duration::from_nanos(nanos)),
        };
        loop {
            let result = attempt();
            let is_blocked = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            if !is_blocked || self.is_nonblocking.load(Ordering::Relaxed) {
                return result;
            }
            let waiters = wires::with(|net| net.sockets.get(self.fd).map(|socket| socket.waiters.clone()));
            let Some(waiters) = waiters else { return result };
            waiters.enter();
            let limit = timeout.map(|end| end.saturating_sub(scheduler::now()));
            if waiters.wait(limit) == Woken::ByTime {
                return attempt();
            }
        }
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is not -1. It is no descriptor of the system: only doors of the world take it, and they
        // look it up among the world's sockets; a call of the system would fail with EBADF.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        wires::drop_handle(self.fd);
    }
}

#[derive(Debug)]
pub struct TcpStream(Handle);

impl TcpStream {
    pub(super) fn pair() -> (Self, Self) {
        let (one, other) = wires::pair();
        (TcpStream(Handle::new(one)), TcpStream(Handle::new(other)))
    }

    /// Connects, and waits for the outcome.
    ///
    /// # Errors
    /// If the connection is refused.
    pub fn connect(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_at_most(address::first(addresses)?, None)
    }

    /// The same, at most for `limit`.
    ///
    /// # Errors
    /// If the connection is refused, or the time is over.
    pub fn connect_timeout(address: &SocketAddr, limit: Duration) -> io::Result<Self> {
        Self::connect_at_most(*address, Some(limit))
    }

    fn connect_at_most(address: SocketAddr, limit: Option<Duration>) -> io::Result<Self> {
        let stream = Self::begin(address);
        let timeout = AtomicU64::new(limit.map_or(0, |limit| limit.as_nanos() as u64));
        let connected = stream.0.wait(&timeout, || match stream.state() {
            State::Connecting => Err(error(io::ErrorKind::WouldBlock)),
            State::Connected => Ok(()),
            State::Failed(fault) => Err(error(fault.unwrap_or(io::ErrorKind::NotConnected))),
        });
        match connected {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Err(error(io::ErrorKind::TimedOut)),
            result => result.map(|()| stream),
        }
    }

    /// Begins to connect, without waiting. The stream does not block.
    pub fn begin(address: SocketAddr) -> Self {
        let stream = TcpStream(Handle::new(wires::connect(address)));
        scheduler::point();
        stream
    }

    fn state(&self) -> State {
        wires::with(|net| match net.sockets.get_mut(self.0.fd).map(|socket| &mut socket.kind) {
            Some(wires::Kind::Connecting) => State::Connecting,
            Some(wires::Kind::Failed(error)) => State::Failed(error.take()),
            Some(wires::Kind::Connected { .. } | wires::Kind::Listener { .. } | wires::Kind::Bell { .. }) => {
                State::Connected
            }
            None => State::Failed(None),
        })
    }

    /// The error that has happened since the previous call.
    ///
    /// # Errors
    /// None.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self.state() {
            State::Failed(Some(error)) => Ok(Some(error.into())),
            _ => Ok(None),
        }
    }

    /// Whether calls return at once.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// The longest that a read waits.
    ///
    /// # Errors
    /// None.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.store(timeout.map_or(0, |time| time.as_nanos() as u64), Ordering::Relaxed);
        Ok(())
    }

    /// The longest that a write waits.
    ///
    /// # Errors
    /// None.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout.store(timeout.map_or(0, |time| time.as_nanos() as u64), Ordering::Relaxed);
        Ok(())
    }

    /// No effect: packets leave at once.
    ///
    /// # Errors
    /// None.
    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            wires::end(self.0.fd);
        }
        if how != Shutdown::Write {
            wires::with(|net| net.sockets.get_mut(self.0.fd).map(|socket| socket.flow.has_ended = true));
        }
        Ok(())
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// If there is no connection any more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let remote = wires::with(|net| net.sockets.get(self.0.fd).map(|socket| socket.remote));
        remote.ok_or_else(|| error(io::ErrorKind::NotConnected))
    }

    /// The own address.
    ///
    /// # Errors
    /// If there is no connection any more.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = wires::with(|net| net.sockets.get(self.0.fd).map(|socket| socket.local));
        local.ok_or_else(|| error(io::ErrorKind::NotConnected))
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(TcpStream(self.0.share()))
    }
}

enum State {
    Connecting,
    Connected,
    Failed(Option<io::ErrorKind>),
}

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.wait(&self.0.read_timeout, || wires::receive(self.0.fd, buffer))
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.wait(&self.0.write_timeout, || wires::send(self.0.fd, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.write(&all)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct TcpListener(Handle);

impl TcpListener {
    /// Listens at an address of this host.
    ///
    /// # Errors
    /// If another socket listens there.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(TcpListener(Handle::new(wires::listen(address::first(addresses)?)?)))
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// If none waits, and the listener does not block.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let none = AtomicU64::new(0);
        let blocked = || error(io::ErrorKind::WouldBlock);
        let (fd, remote) = self.0.wait(&none, || wires::accept(self.0.fd).ok_or_else(blocked))?;
        Ok((TcpStream(Handle::new(fd)), remote))
    }

    /// The address.
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = wires::with(|net| net.sockets.get(self.0.fd).map(|socket| socket.local));
        local.ok_or_else(|| error(io::ErrorKind::NotConnected))
    }

    /// Another handle of the same listener.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(TcpListener(self.0.share()))
    }

    /// Whether [`TcpListener::accept`] returns at once.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
        Ok(())
    }
}

/// A descriptor that is readable once it was rung, until it is reset.
#[derive(Debug)]
pub struct Bell(Handle);

impl Bell {
    /// A bell that was not rung.
    pub fn new() -> Self {
        Bell(Handle::new(wires::bell()))
    }

    pub fn ring(&self) {
        wires::set_bell(self.0.fd, true);
        scheduler::point();
    }

    /// Not rung any more.
    pub fn reset(&self) {
        wires::set_bell(self.0.fd, false);
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

descriptor::forward!(TcpStream);
descriptor::forward!(TcpListener);
descriptor::forward!(Bell);
