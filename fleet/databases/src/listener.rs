//! Where others connect to.

use crate::{Socket, SourceError, Stop};
use guira_client::text::Endpoint;
use guira_disk as disk;
use guira_transport::net::{TcpListener, UnixListener, UnixStream};
use guira_transport::{Interest, wait_for};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// How often it is looked whether somebody wants to connect.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Opens it. The socket of a process that is gone is replaced.
    pub fn bind(place: &Endpoint) -> io::Result<Self> {
        match place {
            Endpoint::Tcp { host, port } => {
                let listener = TcpListener::bind((host.as_str(), *port))?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
            Endpoint::Unix(path) => {
                let refused = UnixStream::connect(path).err().map(|error| error.kind());
                if refused == Some(io::ErrorKind::ConnectionRefused) {
                    disk::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(listener))
            }
        }
    }

    /// Whether somebody has connected who was not accepted yet.
    pub fn is_waited_for(&self) -> bool {
        let listener = match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        };
        wait_for(&[(listener, Interest::Read)], Some(Duration::ZERO)).is_ok_and(|ready| ready > 0)
    }

    /// Waits for somebody who connects. A read that finds nothing comes back after `read_wait`.
    pub fn accept(&self, stop: &Stop, read_wait: Duration) -> Result<Socket, SourceError> {
        loop {
            let accepted = match self {
                Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    Ok(Socket::Tcp(stream))
                }),
                Listener::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    Ok(Socket::Unix(stream))
                }),
            };
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stop.wait(LOOK_EVERY)?,
                accepted => return Ok(accepted?.with_timeouts(read_wait)?),
            }
        }
    }
}
