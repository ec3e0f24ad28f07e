//! Connections, with TLS or without.

use guira_client::text::{Endpoint, Socket};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::{TlsConnector, TlsName};
use rustls::ClientConnection;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of connecting and sending.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A read without data returns after this time.
const READ_WAIT: Duration = Duration::from_secs(1);
/// The bytes that are read from a socket and passed to TLS at once.
const RAW: usize = 4 << 10;

/// A TLS session; the lock is not held during a wait for data.
#[derive(Clone, Debug)]
struct Session {
    /// LOCK: database_tls. Leaf.
    state: Arc<Mutex<ClientConnection>>,
}

impl Session {
    fn state(&self) -> MutexGuard<'_, ClientConnection> {
        self.state.lock()
    }
}

/// The half of a connection that is written.
#[derive(Clone, Debug)]
pub struct Writer {
    socket: Arc<Socket>,
    tls: Option<Session>,
}

impl Writer {
    /// Sends all of these bytes.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &self.tls else {
            return (&*self.socket).write_all(bytes);
        };
        let mut state = session.state();
        state.writer().write_all(bytes)?;
        self.send_records(&mut state)
    }

    fn send_records(&self, state: &mut ClientConnection) -> io::Result<()> {
        while state.wants_write() {
            state.write_tls(&mut &*self.socket)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct Wire {
    writer: Writer,
    /// Bytes from the socket that TLS has not taken yet.
    raw: Vec<u8>,
}

impl Wire {
    /// Connects to the first address of the name that answers.
    /// Reading waits for `read_timeout` at most.
    pub(crate) fn connect(endpoint: &Endpoint, read_timeout: Duration) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot connect to {endpoint}: {error}"));
        Self::over(Socket::connect(endpoint, TIMEOUT).map_err(named)?, read_timeout)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn over_unix(socket: guira_transport::net::UnixStream) -> io::Result<Self> {
        Self::over(Socket::Unix(socket), TIMEOUT)
    }

    /// The peer is noticed if its host is lost.
    fn over(socket: Socket, read_timeout: Duration) -> io::Result<Self> {
        socket.notice_lost_peer()?;
        socket.set_read_timeout(read_timeout)?;
        Ok(Wire { writer: Writer { socket: Arc::new(socket), tls: None }, raw: Vec::new() })
    }

    /// Shakes hands; everything is encrypted from here on.
    pub(crate) fn start_tls(&mut self, connector: &TlsConnector, name: &TlsName) -> io::Result<()> {
        let session = connector.shake_hands(name, &mut &*self.writer.socket)?;
        self.writer.tls = Some(Session { state: Arc::new(Mutex::new(session)) });
        Ok(())
    }

    /// Sets the read timeout to a second. The beginning of a conversation has a longer one.
    pub(crate) fn shorten_reads(&self) -> io::Result<()> {
        self.writer.socket.set_read_timeout(READ_WAIT)
    }

    /// Whether no one can eavesdrop: the connection is local or encrypted.
    pub(crate) fn is_private(&self) -> bool {
        self.writer.tls.is_some() || matches!(*self.writer.socket, Socket::Unix(_))
    }

    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write(bytes)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    /// Reads available bytes; fails with `WouldBlock` after a wait.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Wire { writer, raw } = self;
        let Some(session) = &writer.tls else {
            return (&*writer.socket).read(into);
        };
        loop {
            {
                let mut state = session.state();
                if !raw.is_empty() {
                    let mut left = &raw[..];
                    state.read_tls(&mut left)?;
                    let taken = raw.len() - left.len();
                    raw.drain(..taken);
                    let processed = state.process_new_packets();
                    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    writer.send_records(&mut state)?;
                }
                match state.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
            if raw.is_empty() {
                raw.resize(RAW, 0);
                let read = (&*writer.socket).read(raw);
                raw.truncate(*read.as_ref().unwrap_or(&0));
                if read? == 0 {
                    return Ok(0);
                }
            }
        }
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
            match Wire::connect(&endpoint, TIMEOUT) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&format!("cannot connect to {endpoint}: ")), "{error}");
        assert!(clock.elapsed() < TIMEOUT * 2);
    }
}
