//! Makes TLS connections to servers, and manages their configuration.

use super::counters::TlsCounters;
use super::files::{Identity, Stamps, TlsError, authorities};
use super::options::{Resumption, TlsClientOptions};
use super::server_check::ServerCheck;
use super::stream::TlsStream;
use crate::stream::Stream;
use guira_sync::lock::{Mutex, MutexGuard};
use rustls::client::{self, ClientConfig, ClientConnection};
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::SingleCertAndKey;
use rustls_pki_types::ServerName;
use std::io::{self, Read, Write};
use std::str::FromStr;
use std::sync::Arc;

/// Makes TLS connections. A clone shares files, counters and configuration with the original.
#[derive(Clone, Debug)]
pub struct TlsConnector {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: TlsClientOptions,
    counters: Arc<TlsCounters>,
    /// LOCK: connector_state. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    configuration: Arc<ClientConfig>,
    /// Stamps of the files when they were last read, successfully or not.
    seen: Stamps,
}

/// What a server is called: a DNS name, which it is told, or an IP address, which it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsName(ServerName<'static>);

impl FromStr for TlsName {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        // The zone of an address means something on this machine only.
        let host = text.split('%').next().unwrap_or_default();
        let name = ServerName::try_from(host.to_owned());
        name.map(TlsName).map_err(|_| TlsError::BadName { name: text.to_owned() })
    }
}

fn load(options: &TlsClientOptions) -> Result<Arc<ClientConfig>, TlsError> {
    let provider =
        Arc::new(CryptoProvider { cipher_suites: options.ciphers.suites(), ..ring::default_provider() });
    let trusted = options.authorities.as_deref().map(authorities).transpose()?;
    let check = ServerCheck::new(trusted, options.names, provider.signature_verification_algorithms);
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Library)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(check));
    let mut config = match &options.chain {
        None => builder.with_no_client_auth(),
        Some(chain) => {
            let identity = Identity::read(chain, options.key.as_deref().unwrap_or(chain), &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.key)))
        }
    };
    if options.resumption == Resumption::Off {
        config.resumption = client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

impl TlsConnector {
    /// Reads the files and makes a connector.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn new(options: TlsClientOptions) -> Result<Self, TlsError> {
        let seen = Stamps::take(options.files());
        let state = Mutex::new(State { configuration: load(&options)?, seen });
        Ok(TlsConnector { shared: Arc::new(Shared { options, counters: Arc::default(), state }) })
    }

    /// Starts TLS on `stream`, which is connected to the server of this name. A stream that has TLS already is returned
    /// as it is. The first read or write begins the handshake; [`Stream::tls_facts`] tells when it is over.
    ///
    /// # Errors
    /// The library refuses, for reasons that do not depend on the server.
    pub fn connect(&self, stream: Stream, name: &TlsName) -> io::Result<Stream> {
        Ok(TlsStream::over(stream, self.session(name)?.into(), &self.shared.counters))
    }

    /// A session with the server of this name after its handshake over `socket`, which blocks. It is not counted.
    ///
    /// # Errors
    /// As [`TlsConnector::connect`], or the handshake fails.
    pub fn shake_hands(
        &self,
        name: &TlsName,
        socket: &mut (impl Read + Write),
    ) -> io::Result<ClientConnection> {
        let mut session = self.session(name)?;
        while session.is_handshaking() || session.wants_write() {
            session.complete_io(socket)?;
        }
        Ok(session)
    }

    /// A session with the server of this name before its handshake.
    ///
    /// # Errors
    /// As [`TlsConnector::connect`].
    pub fn session(&self, name: &TlsName) -> io::Result<ClientConnection> {
        let configuration = self.state().configuration.clone();
        ClientConnection::new(configuration, name.0.clone()).map_err(io::Error::other)
    }

    /// Reads the files again if they have changed since they were last read, successfully or not: for new connections,
    /// which resume no earlier session. True if new files are in use. It costs a system call for each file.
    ///
    /// # Errors
    /// What is wrong with the new files; the previous ones stay in use.
    pub fn reload_changed(&self) -> Result<bool, TlsError> {
        // Before the files are read: any later write is another change.
        let seen = Stamps::take(self.shared.options.files());
        if !self.state().seen.have_changed(self.shared.options.files()) {
            return Ok(false);
        }
        let loaded = load(&self.shared.options);
        let mut state = self.state();
        state.seen = seen;
        state.configuration = loaded?;
        Ok(true)
    }

    pub fn counters(&self) -> &TlsCounters {
        &self.shared.counters
    }

    pub fn options(&self) -> &TlsClientOptions {
        &self.shared.options
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}
