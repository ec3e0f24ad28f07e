//! A port of this host that belongs to its holder, whether or not somebody listens.
//!
//! A listener that is dropped gives its port back, and the next program that asks for any free port may be given it: then whoever
//! connects to the old address talks to a stranger. Here a bound socket that never listens keeps the port. The system refuses
//! connections to it, gives the port to nobody who asks for any, and shares it only with listeners of this user that ask for its number with
//! SO_REUSEPORT, as [`Port::listen`] does.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt};

/// Connections that may wait until they are taken, as with the listeners of the standard library.
const BACKLOG: i32 = 128;

/// A port of the loopback address.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    /// Bound, and never listens.
    _holder: OwnedFd,
}

impl Port {
    /// A port that no other program is given, until it is dropped.
    ///
    /// # Errors
    /// When the system has none.
    pub fn hold() -> io::Result<Self> {
        let holder = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = getsockname(&holder)?.try_into()?;
        Ok(Self { address, _holder: holder })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens. When the listener is dropped, connections are refused again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen(&self) -> io::Result<TcpListener> {
        let socket = bound(self.address)?;
        listen(&socket, BACKLOG)?;
        Ok(TcpListener::from(socket))
    }
}

/// An address that refuses connections for as long as this process runs.
///
/// # Panics
/// If the system has no port.
pub fn refusing_address() -> SocketAddr {
    let port = Port::hold().expect("a free port");
    let address = port.address();
    std::mem::forget(port);
    address
}

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::Port;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn nobody_else_gets_a_port_that_is_held() {
        let port = Port::hold().unwrap();
        let taken = || TcpListener::bind(port.address()).map(drop).map_err(|error| error.kind());
        let connected = || TcpStream::connect(port.address()).map(drop).map_err(|error| error.kind());
        for _ in 0..2 {
            assert_eq!(
                (taken(), connected()),
                (Err(ErrorKind::AddrInUse), Err(ErrorKind::ConnectionRefused))
            );
            let listener = port.listen().unwrap();
            let client = TcpStream::connect(port.address()).unwrap();
            assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
            assert_eq!(taken(), Err(ErrorKind::AddrInUse));
        }
    }
}
