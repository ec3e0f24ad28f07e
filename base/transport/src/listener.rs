//! Listening sockets.

use crate::address::Address;
use crate::net::{self, TcpListener, UnixListener};
use crate::stream::Stream;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// The longest queue of connections that have not been accepted.
    pub backlog: u32,
    /// The permissions of a UNIX socket's file, such as 0o700.
    pub unix_mode: u32,
}

/// A non-blocking listening socket. A UNIX socket's file is removed when it is dropped, unless the socket was
/// inherited.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// The socket, and its file to remove, if that still has this device and inode.
    Unix(UnixListener, Option<(PathBuf, (u64, u64))>),
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    pub address: Address,
    pub source: io::Error,
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// This host is short of descriptors or memory: later it may have some again.
    #[error("out of file descriptors or memory: {0}")]
    Shortage(io::Error),
    /// The system refuses it for this listener: perhaps later it does not.
    #[error("the system refuses the listener's connections: {0}")]
    Refused(io::Error),
    /// The listener is of no use: it does not listen any more.
    #[error("the listener failed: {0}")]
    Broken(io::Error),
}

impl ListenError {
    /// Whether this machine lacks the address, or its address family.
    pub fn is_absent(&self) -> bool {
        let code = self.source.raw_os_error().map(Errno::from_raw_os_error);
        matches!(code, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
    }
}

impl Listener {
    /// Listens at `address`. While a UNIX socket is created, the umask of the process is changed.
    ///
    /// # Errors
    /// An error of the system; also if another process listens on a UNIX socket. A stale socket file is replaced.
    pub fn bind(address: &Address, options: ListenOptions) -> Result<Self, ListenError> {
        let fail = |source| ListenError { address: address.clone(), source };
        match address {
            Address::Tcp(wanted) => {
                let socket = net::listen_tcp(*wanted, options.backlog).map_err(fail)?;
                let address = Address::Tcp(socket.local_addr().map_err(fail)?);
                Ok(Listener { socket: Socket::Tcp(socket), address })
            }
            Address::Unix(path) => {
                let socket = net::listen_unix(path, options.unix_mode).map_err(fail)?;
                let file = file_number(path).map(|number| (path.clone(), number));
                Ok(Listener { socket: Socket::Unix(socket, file), address: address.clone() })
            }
        }
    }

    /// Takes over a listening socket that was created elsewhere; its file, if it has one, is not removed.
    ///
    /// # Errors
    /// An error of the system, or that it does not listen, or is neither TCP nor UNIX.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        if !net::is_listening(&socket)? {
            return Err(io::Error::other(NOT_LISTENING));
        }
        Self::of(socket)
    }

    fn of(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        match rustix::net::sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => {
                let socket = UnixListener::from(socket);
                let path = socket.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
                Ok(Listener { socket: Socket::Unix(socket, None), address: Address::Unix(path) })
            }
            AddressFamily::INET | AddressFamily::INET6 => {
                let socket = TcpListener::from(socket);
                let address = Address::Tcp(socket.local_addr()?);
                Ok(Listener { socket: Socket::Tcp(socket), address })
            }
            _ => Err(io::Error::other("the socket is neither TCP nor UNIX")),
        }
    }

    /// From now on the file of the socket, if it has one, is removed with it, as if it had been created here.
    pub fn own(&mut self) {
        if let (Socket::Unix(_, file), Address::Unix(path)) = (&mut self.socket, &self.address) {
            *file = file_number(path).map(|number| (path.clone(), number));
        }
    }

    /// The same socket once more. It does not own the file.
    ///
    /// # Errors
    /// An error of the system.
    pub fn share(&self) -> io::Result<Self> {
        Self::of(self.as_fd().try_clone_to_owned()?)
    }

    /// Leaves the file of the socket to somebody else.
    pub fn disown(&mut self) {
        if let Socket::Unix(_, file) = &mut self.socket {
            *file = None;
        }
    }

    /// Whether it has a file of its own, which is removed with it.
    pub fn owns_file(&self) -> bool {
        matches!(&self.socket, Socket::Unix(_, Some(_)))
    }

    /// The address, with the actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts a connection, and over TCP returns its address; `None` if none is waiting, or the one
    /// that was waiting is gone.
    ///
    /// # Errors
    /// If this host is short of something, or the listener is of no use any more.
    pub fn accept(&self) -> Result<Option<(Stream, Option<SocketAddr>)>, AcceptError> {
        let accepted = match &self.socket {
            Socket::Tcp(socket) => socket.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                // A failure costs only latency.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }),
            Socket::Unix(socket, _) => socket.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), None))
            }),
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(_) if self.is_shut_down() => {
                Err(AcceptError::Broken(io::Error::other("the UNIX socket was shut down")))
            }
            Err(error) => AcceptError::of(error).map_or(Ok(None), Err),
        }
    }

    /// Whether connections can be accepted: no process that shares the socket has shut it down, or one listens on it again.
    pub fn is_listening(&self) -> bool {
        net::is_listening(self).unwrap_or(false) && !self.is_shut_down()
    }

    /// Whether a process that shares this UNIX socket has shut it down. accept(2) fails with EAGAIN then, and the
    /// poller reports the socket again and again. (Over TCP accept(2) says so.)
    fn is_shut_down(&self) -> bool {
        let Socket::Unix(socket, _) = &self.socket else { return false };
        net::is_shut_down(socket)
    }
}

impl From<AcceptError> for io::Error {
    fn from(error: AcceptError) -> Self {
        let (AcceptError::Shortage(error) | AcceptError::Refused(error) | AcceptError::Broken(error)) = error;
        error
    }
}

impl AcceptError {
    /// What an error of accept(2) means; `None` if it is about the connection that was waiting.
    fn of(error: io::Error) -> Option<Self> {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // None is waiting, or a signal arrived.
            Some(Errno::AGAIN | Errno::INTR) => None,
            // The client has closed the connection, or its network had an error before it was
            // accepted: Linux passes those on.
            Some(
                Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::TIMEDOUT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::PROTO
                | Errno::NOPROTOOPT,
            ) => None,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                Some(AcceptError::Shortage(error))
            }
            Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => Some(AcceptError::Broken(error)),
            // A filter or a security module, or what no manual names.
            _ => Some(AcceptError::Refused(error)),
        }
    }
}

const NOT_LISTENING: &str = "the socket does not listen (in a systemd unit, Accept=yes passes such sockets)";

/// Device and inode, which distinguish files of the same name.
fn file_number(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
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
        if let Socket::Unix(_, Some((path, number))) = &self.socket
            && file_number(path) == Some(*number)
        {
            // If this fails, the next listener replaces the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{TcpStream, UnixStream};
    use crate::stream::Progress;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    const OPTIONS: ListenOptions = ListenOptions { backlog: 16, unix_mode: 0o750 };

    #[test]
    fn a_connection_is_accepted_and_read_from() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let Address::Tcp(address) = *listener.address() else { panic!("a TCP address") };
        assert_ne!(address.port(), 0);
        let mut client = TcpStream::connect(address).unwrap();
        let mut server = loop {
            if let Some((stream, peer)) = listener.accept().unwrap() {
                assert_eq!(peer, Some(client.local_addr().unwrap()));
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
                Progress::Blocked => guira_sync::thread::yield_now(),
                Progress::Ended => break,
            }
        }
        assert_eq!(read, b"hello");
    }

    #[test]
    fn errors_of_one_connection_of_the_host_and_of_the_listener_are_told_apart() {
        let of = |error: Errno| AcceptError::of(error.into());
        for passing in [Errno::AGAIN, Errno::INTR, Errno::CONNABORTED, Errno::NETDOWN, Errno::PROTO] {
            assert!(of(passing).is_none(), "{passing}");
        }
        for short in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert!(matches!(of(short), Some(AcceptError::Shortage(_))), "{short}");
        }
        for broken in [Errno::INVAL, Errno::NOTSOCK, Errno::BADF] {
            assert!(matches!(of(broken), Some(AcceptError::Broken(_))), "{broken}");
        }
        for refused in [Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP, Errno::NOSR] {
            assert!(matches!(of(refused), Some(AcceptError::Refused(_))), "{refused}");
        }
    }

    #[test]
    fn a_unix_listener_that_another_process_shut_down_is_broken() {
        let folder = std::env::temp_dir().join(format!("guira-listener-{}", std::process::id()));
        let _ = std::fs::remove_file(&folder);
        let socket = UnixListener::bind(&folder).unwrap();
        let other = socket.try_clone().unwrap();
        let listener = Listener::adopt(socket.into()).unwrap();
        assert!(listener.accept().unwrap().is_none());
        assert!(listener.is_listening());
        rustix::net::shutdown(&other, rustix::net::Shutdown::Both).unwrap();
        assert!(matches!(listener.accept(), Err(AcceptError::Broken(_))));
        assert!(!listener.is_listening(), "the system still says that the socket listens");
        std::fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn a_socket_that_does_not_listen_is_not_taken_over() {
        let (one, _other) = UnixStream::pair().unwrap();
        let error = Listener::adopt(one.into()).unwrap_err();
        assert_eq!(error.to_string(), NOT_LISTENING);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        assert!(Listener::adopt(listener.into()).is_err());
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let path = std::env::temp_dir().join(format!("guira-listener-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        let left_behind = crate::net::UnixListener::bind(&path).unwrap();
        // A process that another test starts at this moment has the descriptor too, until it executes its program.
        rustix::net::shutdown(&left_behind, rustix::net::Shutdown::Both).unwrap();
        drop(left_behind);
        let listener = Listener::bind(&address, OPTIONS).unwrap();
        assert!(Listener::bind(&address, OPTIONS).is_err(), "it is in use");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        let again = Listener::adopt(listener.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(again.address(), &address);
        drop(again);
        assert!(path.exists(), "an inherited socket does not own its file");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_a_socket_goes_with_the_last_who_owns_it() {
        let path = std::env::temp_dir().join(format!("guira-listener-succeed-{}", std::process::id()));
        let mut first = Listener::bind(&Address::Unix(path.clone()), OPTIONS).unwrap();
        drop(first.share().unwrap());
        assert!(path.exists() && first.owns_file());
        let mut next = first.share().unwrap();
        next.own();
        first.disown();
        drop(first);
        assert!(path.exists() && next.owns_file());
        UnixStream::connect(&path).unwrap();
        drop(next);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_replaced_the_socket_is_not_removed() {
        let path = std::env::temp_dir().join(format!("guira-listener-other-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address, OPTIONS).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Listener::bind(&address, OPTIONS).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_that_refuses_is_left_over() {
        let path = std::env::temp_dir().join(format!("guira-listener-kind-{}", std::process::id()));
        // A socket of another type uses the path, although connecting to it fails.
        let other = crate::net::UnixDatagram::bind(&path).unwrap();
        assert!(Listener::bind(&Address::Unix(path.clone()), OPTIONS).is_err());
        assert!(path.exists(), "it is not ours to remove");
        drop(other);
        std::fs::remove_file(&path).unwrap();
    }
}
