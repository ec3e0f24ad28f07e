//! A connection to the server, over any of its listeners.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use guira_harness::certificate::Authority;
use guira_harness::socket::{Address, Socket};
use guira_transport::{TlsClientOptions, TlsConnector};
use guira_workload::Rng;
use rustls::{ClientConnection, StreamOwned};

/// How long an answer may take: the machine may be busy with a lot else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Unix,
    Tls,
}

impl Carrier {
    pub(crate) fn random(random: &mut Rng) -> Self {
        [Carrier::Tcp, Carrier::Unix, Carrier::Tls][random.below(3) as usize]
    }

    /// A random transport without encryption.
    pub(crate) fn plain(random: &mut Rng) -> Self {
        [Carrier::Tcp, Carrier::Unix][random.below(2) as usize]
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) tcp: SocketAddr,
    /// TLS, where there is one.
    pub(crate) tls: Option<(SocketAddr, TlsConnector)>,
    pub(crate) unix: PathBuf,
}

/// How clients speak TLS: they trust this authority.
pub(crate) fn tls_client(authority: &Authority) -> Result<TlsConnector, String> {
    let options = TlsClientOptions::trusting(Some(authority.root()));
    TlsConnector::new(options).map_err(|error| format!("cannot prepare TLS: {error}"))
}

#[derive(Debug)]
pub(crate) enum Link {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Addresses {
    /// Connects without TLS, also to the listener that speaks it.
    pub(crate) fn raw(&self, carrier: Carrier) -> io::Result<Socket> {
        let address = match (carrier, &self.tls) {
            (Carrier::Unix, _) => Address::Unix(self.unix.clone()),
            (Carrier::Tls, Some((address, _))) => Address::Tcp(*address),
            _ => Address::Tcp(self.tcp),
        };
        let plain = Socket::connect(&address)?;
        plain.set_timeouts(PATIENCE)?;
        Ok(plain)
    }

    /// Connects, and shakes hands if there is TLS.
    ///
    /// # Errors
    /// The error of the system or of TLS.
    pub(crate) fn open(&self, carrier: Carrier) -> io::Result<Link> {
        let mut plain = self.raw(carrier)?;
        let (Carrier::Tls, Some((address, connector))) = (carrier, &self.tls) else {
            return Ok(Link::Plain(plain));
        };
        let name = address.ip().to_string().parse().map_err(io::Error::other)?;
        let session = connector.shake_hands(&name, &mut plain)?;
        Ok(Link::Tls(Box::new(StreamOwned::new(session, plain))))
    }
}

impl Link {
    /// How long reads and writes wait.
    pub(crate) fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        match self {
            Link::Plain(plain) => plain.set_timeouts(time),
            Link::Tls(stream) => stream.sock.set_timeouts(time),
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Plain(plain) => plain.read(buffer),
            Link::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Link {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Link::Plain(plain) => plain.write(buffer),
            Link::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Link::Plain(plain) => plain.flush(),
            Link::Tls(stream) => stream.flush(),
        }
    }
}
