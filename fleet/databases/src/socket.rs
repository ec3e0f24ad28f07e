//! The way to a database: TCP, or a UNIX socket.

use guira_client::text::Endpoint;
use guira_transport::net::{Shutdown, TcpStream, ToSocketAddrs, UnixStream, connect_unix, notice_lost_peer};
use std::io::{self, Read, Write};
use std::time::Duration;

/// How long connecting and sending may take.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to the first address of the name that answers. Reading waits for `read_timeout` at most.
    pub(crate) fn connect(endpoint: &Endpoint, read_timeout: Duration) -> io::Result<Self> {
        let socket = match endpoint {
            Endpoint::Tcp { host, port } => connect_tcp(host, *port).map(Socket::Tcp),
            Endpoint::Unix(path) => connect_unix(path).map(Socket::Unix),
        };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot connect to {endpoint}: {error}"));
        socket.map_err(named)?.with_timeouts(read_timeout)
    }

    /// Sending does not wait for ever either, and a peer whose host is gone is noticed.
    pub fn with_timeouts(self, read_timeout: Duration) -> io::Result<Self> {
        match &self {
            Socket::Tcp(socket) => {
                notice_lost_peer(socket)?;
                socket.set_write_timeout(Some(TIMEOUT))?;
            }
            Socket::Unix(socket) => socket.set_write_timeout(Some(TIMEOUT))?,
        }
        self.set_read_timeout(read_timeout)?;
        Ok(self)
    }

    /// Ends both directions, for everybody who holds it.
    pub fn close(&self) {
        // One that has ended already cannot be ended.
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(Some(timeout)),
            Socket::Unix(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).read(into),
            Socket::Unix(socket) => (&mut &*socket).read(into),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).write(bytes),
            Socket::Unix(socket) => (&mut &*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::scratch::Scratch;
    use guira_sync::clock::Stopwatch;
    use guira_transport::net::UnixListener;

    #[test]
    fn a_database_that_accepts_nobody_holds_nobody_up() {
        let path = Scratch::new();
        let path = path.file("socket");
        let _server = UnixListener::bind(&path).unwrap();
        let endpoint: Endpoint = format!("unix:{}", path.display()).parse().unwrap();
        let clock = Stopwatch::start();
        let mut waiting = Vec::new();
        // The system has room for 4096 at most.
        let error = loop {
            match Socket::connect(&endpoint, TIMEOUT) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&format!("cannot connect to {endpoint}: ")), "{error}");
        assert!(clock.elapsed() < TIMEOUT * 2);
    }
}
