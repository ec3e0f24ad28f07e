//! A socket that connections come from.

use crate::address::Address;
use crate::stream::Stream;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A listening socket that never blocks. A UNIX socket's file is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// Why nothing can be listened to.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    /// Where.
    pub address: Address,
    /// What the system said.
    pub source: io::Error,
}

impl Listener {
    /// Listens at `address`, with room for `backlog` connections that nobody has accepted yet.
    ///
    /// # Errors
    /// What the system says. A UNIX socket that another process listens on is an error too; one that is left over is
    /// replaced.
    pub fn bind(address: &Address, backlog: u32) -> Result<Self, ListenError> {
        let fail = |source| ListenError { address: address.clone(), source };
        match address {
            Address::Tcp(wanted) => {
                let socket = tcp(*wanted, backlog).map_err(fail)?;
                let address = Address::Tcp(socket.local_addr().map_err(fail)?);
                Ok(Listener { socket: Socket::Tcp(socket), address })
            }
            Address::Unix(path) => {
                let socket = unix(path).map_err(fail)?;
                Ok(Listener { socket: Socket::Unix(socket, path.clone()), address: address.clone() })
            }
        }
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A connection, or `None` if none is waiting.
    ///
    /// # Errors
    /// What the system says, for example that there are no descriptors left.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Tcp(socket) => socket.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                // A failure costs latency only.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }),
            Socket::Unix(socket, _) => socket.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The client has gone again, or a signal came: there may be others.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, backlog.min(i32::MAX as u32) as i32)?;
    Ok(TcpListener::from(socket))
}

fn unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    // A socket that nobody answers on was left behind by a process that is gone.
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket, _) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Whoever wants to listen here next replaces it if this fails.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Progress;
    use std::io::Write;
    use std::net::TcpStream;

    #[test]
    fn a_connection_is_accepted_and_read_from() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 16).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let Address::Tcp(address) = *listener.address() else { panic!("a TCP address") };
        assert_ne!(address.port(), 0);
        let mut client = TcpStream::connect(address).unwrap();
        let mut server = loop {
            if let Some(stream) = listener.accept().unwrap() {
                break stream;
            }
        };
        let mut buffer = [0; 8];
        assert_eq!(server.read(&mut buffer).unwrap(), Progress::Blocked);
        client.write_all(b"hello").unwrap();
        drop(client);
        let mut read = Vec::new();
        loop {
            match server.read(&mut buffer).unwrap() {
                Progress::Moved(bytes) => read.extend_from_slice(&buffer[..bytes]),
                Progress::Blocked => std::thread::yield_now(),
                Progress::Ended => break,
            }
        }
        assert_eq!(read, b"hello");
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let path = std::env::temp_dir().join(format!("guira-listener-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        let listener = Listener::bind(&address, 16).unwrap();
        assert!(Listener::bind(&address, 16).is_err(), "it is in use");
        drop(listener);
        assert!(!path.exists());
    }
}
