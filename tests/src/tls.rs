//! A client that speaks TLS, and the files of a server that does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use guira_harness::certificate::Authority;
use guira_transport::{TlsClientOptions, TlsConnector};
use rustls::ClientConnection;

use crate::deadline::PATIENCE;
use crate::server::{Address, Server, Setup};

/// A certificate for `localhost` with its key, in files.
#[derive(Debug)]
pub struct Certificate(Authority);

impl Certificate {
    /// A new one.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn issue() -> Self {
        Certificate(Authority::new().expect("a certificate"))
    }

    /// Replaces the files by those of another certificate of the same authority.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn renew(&self) {
        self.0.renew().expect("a certificate");
    }

    pub fn chain(&self) -> PathBuf {
        self.0.certificate()
    }

    pub fn key(&self) -> PathBuf {
        self.0.key()
    }

    /// The file of the authority behind it.
    pub fn root(&self) -> PathBuf {
        self.0.root()
    }

    /// Has Guira speak TLS with it.
    pub fn given_to(&self, setup: Setup) -> Setup {
        setup
            .guira_argument(&format!("--tls-cert={}", self.chain().display()))
            .guira_argument(&format!("--tls-key={}", self.key().display()))
    }
}

/// A connection with TLS; its records are written as the test says.
#[derive(Debug)]
pub struct TlsClient {
    socket: TcpStream,
    session: ClientConnection,
}

impl TlsClient {
    /// A connection after its handshake.
    ///
    /// # Panics
    /// If there is none to be had.
    #[track_caller]
    pub fn connect(server: &Server, certificate: &Certificate) -> Self {
        let Address::Tcp(address) = *server.address() else { panic!("a TCP address") };
        Self::connect_to(address, certificate)
    }

    /// The same at another address.
    ///
    /// # Panics
    /// If there is none to be had.
    #[track_caller]
    pub fn connect_to(address: SocketAddr, certificate: &Certificate) -> Self {
        Self::try_to_connect(address, certificate, None).expect("a handshake")
    }

    /// A connection after its handshake, in which the client may show a certificate of its `own`; `None` if that fails.
    ///
    /// # Panics
    /// If nobody listens.
    #[track_caller]
    pub fn try_to_connect(
        address: SocketAddr,
        certificate: &Certificate,
        own: Option<&Certificate>,
    ) -> Option<Self> {
        let connector = TlsConnector::new(TlsClientOptions {
            chain: own.map(Certificate::chain),
            key: own.map(Certificate::key),
            ..TlsClientOptions::trusting(Some(certificate.root()))
        });
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let name = "localhost".parse().expect("a name");
        let session = connector.expect("certificates").shake_hands(&name, &mut socket).ok()?;
        Some(TlsClient { socket, session })
    }

    /// Sends these pieces, each as records of its own, in one piece of TCP.
    ///
    /// # Panics
    /// If the server does not take them.
    pub fn send(&mut self, pieces: &[&[u8]]) {
        let mut bytes = Vec::new();
        for piece in pieces {
            self.session.writer().write_all(piece).expect("a session takes it");
            while self.session.wants_write() {
                self.session.write_tls(&mut bytes).expect("a vector takes all");
            }
        }
        self.socket.write_all(&bytes).expect("the server takes it");
    }

    /// Sends as much as the server takes before it closes the connection.
    ///
    /// # Panics
    /// If the session takes nothing.
    pub fn send_until_closed(&mut self, piece: &[u8]) {
        self.session.writer().write_all(piece).expect("a session takes it");
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket).is_err() {
                return;
            }
        }
    }

    /// Sends this and that nothing more is sent, in one piece of TCP.
    ///
    /// # Panics
    /// If the server does not take it.
    pub fn send_last(&mut self, piece: &[u8]) {
        self.session.writer().write_all(piece).expect("a session takes it");
        self.session.send_close_notify();
        let mut bytes = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut bytes).expect("a vector takes all");
        }
        self.socket.write_all(&bytes).expect("the server takes it");
    }

    /// Whether the server has said that there is no more; to be asked after [`TlsClient::hear`] heard less than it was to.
    pub fn has_ended(&mut self) -> bool {
        self.session.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// What comes until there are `length` bytes, or the server says that there is no more, or nothing comes for too long.
    pub fn hear(&mut self, length: usize) -> Vec<u8> {
        let mut heard = Vec::new();
        while heard.len() < length {
            let mut buffer = [0; 4096];
            let mut stream = rustls::Stream::new(&mut self.session, &mut self.socket);
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => heard.extend_from_slice(&buffer[..bytes]),
            }
        }
        heard
    }
}
