//! Listening for connections, blocking.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use guira_disk as disk;
use guira_sync::stop::{Stop, Stopped};
use guira_transport::net::{TcpListener, UnixListener, UnixStream};
use guira_transport::{Interest, wait_for};

use super::{Endpoint, Socket};

/// How often a listener looks for connections.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The longest wait of a write to a connection.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// A listening socket of a program that serves a few connections, each on a thread.
#[derive(Debug)]
pub struct Listener(Listening);

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens at `place`. The UNIX socket of a process that has ended is replaced.
    ///
    /// # Errors
    /// An error of the system.
    pub fn bind(place: &Endpoint) -> io::Result<Self> {
        match place {
            Endpoint::Tcp { host, port } => {
                let listener = TcpListener::bind((host.as_str(), *port))?;
                listener.set_nonblocking(true)?;
                Ok(Self(Listening::Tcp(listener)))
            }
            Endpoint::Unix(path) => {
                let refused = UnixStream::connect(path).err().map(|error| error.kind());
                if refused == Some(io::ErrorKind::ConnectionRefused) {
                    disk::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self(Listening::Unix(listener)))
            }
        }
    }

    /// Whether a connection waits to be accepted.
    pub fn is_waited_for(&self) -> bool {
        let listener = match &self.0 {
            Listening::Tcp(listener) => listener.as_fd(),
            Listening::Unix(listener) => listener.as_fd(),
        };
        wait_for(&[(listener, Interest::Read)], Some(Duration::ZERO)).is_ok_and(|ready| ready > 0)
    }

    /// Waits for a connection, whose reads without input end after `read_wait`.
    ///
    /// # Errors
    /// If the program is stopping; and within, an error of the system.
    pub fn accept(&self, stop: &Stop, read_wait: Duration) -> Result<io::Result<Socket>, Stopped> {
        loop {
            let accepted = match &self.0 {
                Listening::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    Ok(Socket::Tcp(stream))
                }),
                Listening::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    Ok(Socket::Unix(stream))
                }),
            };
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stop.wait(LOOK_EVERY)?,
                accepted => return Ok(accepted.and_then(|socket| prepared(socket, read_wait))),
            }
        }
    }
}

fn prepared(socket: Socket, read_wait: Duration) -> io::Result<Socket> {
    socket.notice_lost_peer()?;
    socket.set_write_timeout(WRITE_MAX)?;
    socket.set_read_timeout(read_wait)?;
    Ok(socket)
}
