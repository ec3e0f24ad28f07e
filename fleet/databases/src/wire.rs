//! Connections, with TLS or without.

use super::socket::Socket;
use guira_client::text::Endpoint;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::{TlsConnector, TlsName};
use rustls::ClientConnection;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub enum Security {
    Plain,
    Tls(TlsConnector, TlsName),
}

impl Security {
    /// What encrypts it, with the certificates that the files have now.
    pub fn tls(&self) -> Option<(&TlsConnector, &TlsName)> {
        let Security::Tls(connector, name) = self else { return None };
        if let Err(error) = connector.reload_changed() {
            // Operator: Correct the file that the message names. The program retries when it changes, and
            // on SIGHUP.
            tracing::error!("cannot reload certificates; keeping the previous ones: {error}");
        }
        Some((connector, name))
    }
}

/// A read that finds nothing comes back after this time.
const READ_WAIT: Duration = Duration::from_secs(1);
/// What is read from a socket at once and given to TLS, in bytes.
const RAW: usize = 4 << 10;

/// A session of TLS, which is not held while anything is waited for to be read.
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
    /// What was read of the socket and not given to TLS yet.
    raw: Vec<u8>,
}

impl Wire {
    /// Connects to the first address of the name that answers.
    /// Reading waits for `read_timeout` at most.
    pub(crate) fn connect(endpoint: &Endpoint, read_timeout: Duration) -> io::Result<Self> {
        Ok(Self::over(Socket::connect(endpoint, read_timeout)?))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn over_unix(socket: guira_transport::net::UnixStream) -> io::Result<Self> {
        Ok(Self::over(Socket::Unix(socket).with_timeouts(Duration::from_secs(5))?))
    }

    fn over(socket: Socket) -> Self {
        Wire { writer: Writer { socket: Arc::new(socket), tls: None }, raw: Vec::new() }
    }

    /// Shakes hands; everything is encrypted from here on.
    pub(crate) fn start_tls(&mut self, connector: &TlsConnector, name: &TlsName) -> io::Result<()> {
        let mut session = connector.session(name)?;
        while session.is_handshaking() {
            session.complete_io(&mut &*self.writer.socket)?;
        }
        self.writer.tls = Some(Session { state: Arc::new(Mutex::new(session)) });
        Ok(())
    }

    /// Has reads come back after a second if there is nothing to be read; at first they wait for the beginning of a conversation.
    pub(crate) fn shorten_reads(&self) -> io::Result<()> {
        self.writer.socket.set_read_timeout(READ_WAIT)
    }

    /// Whether nobody else can listen: within this machine or encrypted.
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
    /// Reads what is there; waits for it for a while, and says WouldBlock then.
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
