//! TLS on both sides of a connection of the load, always version 1.3 with AES-128-GCM, so that every server pays for
//! the same work.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

pub use guira_client::tls::Trust;
use guira_serving::unix_now;
use guira_transport::{
    CipherList, MinVersion, TlsAcceptor, TlsClientOptions, TlsConnector, TlsName, TlsOptions,
};
use rustls::ClientConnection;

use crate::error::LoadError;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The TLS setup of a client.
#[derive(Debug, Clone)]
pub struct TlsClient {
    connector: TlsConnector,
}

fn failed(what: &str, error: &dyn std::error::Error) -> LoadError {
    LoadError::Tls(format!("{what}: {error}"))
}

/// The one cipher suite that is offered and accepted, which only TLS 1.3 has.
fn ciphers() -> Result<CipherList, LoadError> {
    "TLS_AES_128_GCM_SHA256".parse().map_err(|error| failed("cannot speak TLS", &error))
}

impl TlsClient {
    /// A client that believes `trust`.
    ///
    /// # Errors
    /// When the file has no certificates.
    pub fn new(trust: Trust<'_>) -> Result<Self, LoadError> {
        let options = TlsClientOptions { ciphers: ciphers()?, ..trust.options() };
        let connector = TlsConnector::new(options).map_err(|error| LoadError::Tls(error.to_string()))?;
        Ok(Self { connector })
    }

    /// Shakes hands over `socket`, which blocks.
    ///
    /// # Errors
    /// When the server does not speak TLS 1.3 with AES-128-GCM, or its certificate is not believed.
    pub(crate) fn shake_hands(
        &self,
        socket: &mut TcpStream,
        addr: SocketAddr,
    ) -> Result<ClientConnection, LoadError> {
        let refused =
            |error: &dyn std::error::Error| failed(&format!("the TLS handshake with {addr} failed"), error);
        let name: TlsName = addr.ip().to_string().parse().map_err(|error| refused(&error))?;
        let mut shake = || -> io::Result<ClientConnection> {
            socket.set_read_timeout(Some(HANDSHAKE_MAX))?;
            let session = self.connector.shake_hands(&name, socket)?;
            socket.set_read_timeout(None)?;
            Ok(session)
        };
        shake().map_err(|error| refused(&error))
    }

    /// The TLS version and cipher that a server negotiates with this client.
    ///
    /// # Errors
    /// When the server cannot be reached or does not agree.
    pub fn agreed(&self, addr: SocketAddr) -> Result<String, LoadError> {
        let connected = TcpStream::connect(addr);
        let mut socket = connected.map_err(|source| LoadError::Connect { addr, source })?;
        let session = self.shake_hands(&mut socket, addr)?;
        let version = session.protocol_version().and_then(|version| version.as_str());
        let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        Ok(format!("{}, {}", version.unwrap_or("unknown version"), suite.unwrap_or("unknown cipher")))
    }
}

/// The TLS setup of a server: `certificate` and `key` are PEM files.
///
/// # Errors
/// When a file cannot be used.
pub fn server_config(certificate: &Path, key: &Path) -> Result<TlsAcceptor, LoadError> {
    let unusable = |error: &dyn std::error::Error| failed("cannot speak TLS", error);
    let options = TlsOptions {
        key: Some(key.to_owned()),
        min_version: MinVersion::Tls13,
        ciphers: ciphers()?,
        ..TlsOptions::new(certificate)
    };
    TlsAcceptor::new(options, unix_now()).map_err(|error| unusable(&error))
}
