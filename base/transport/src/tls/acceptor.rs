//! Turns accepted connections into TLS connections, and manages their configuration.

use super::counters::TlsCounters;
use super::files::{Identity, Stamps, TlsError, authorities};
use super::options::{MinVersion, Resumption, TlsOptions, VerifyMode};
use super::reject_all::RejectAll;
use super::stream::TlsStream;
use crate::stream::Stream;
use guira_sync::lock::{Mutex, MutexGuard};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use std::io;
use std::sync::Arc;

/// Accepts TLS connections. A clone shares files, counters and configuration with the original.
#[derive(Clone, Debug)]
pub struct TlsAcceptor {
    shared: Arc<Shared>,
    verify: VerifyMode,
}

#[derive(Debug)]
struct Shared {
    options: TlsOptions,
    counters: Arc<TlsCounters>,
    /// LOCK: reload. One thread reads the files at a time, so that the latest files are used. May take state.
    reload: Mutex<()>,
    /// LOCK: state. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    configurations: Configurations,
    /// Stamps of the files when they were last read, successfully or not.
    seen: Stamps,
    status: TlsStatus,
}

/// The certificate in use, for statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStatus {
    /// The last second of the certificate's validity, since 1970.
    pub not_after: i64,
    /// The common name of the server's certificate.
    pub common_name: Option<String>,
    /// When the files in use were read, in seconds since 1970.
    pub loaded_at: u64,
    pub reloads: u64,
    pub failed_reloads: u64,
}

/// One configuration for each mode of client certificates. They share nothing, so that a session that began without a
/// certificate is not resumed where one is required.
#[derive(Clone, Debug)]
struct Configurations {
    none: Arc<ServerConfig>,
    peer: Arc<ServerConfig>,
    force: Arc<ServerConfig>,
}

impl Configurations {
    fn get(&self, verify: VerifyMode) -> &Arc<ServerConfig> {
        match verify {
            VerifyMode::None => &self.none,
            VerifyMode::Peer => &self.peer,
            VerifyMode::Force | VerifyMode::Once => &self.force,
        }
    }

    fn new(
        options: &TlsOptions,
        provider: Arc<CryptoProvider>,
        identity: &Identity,
    ) -> Result<Self, TlsError> {
        let configure = |verifier| configure(options, &provider, identity, verifier);
        let none = configure(WebPkiClientVerifier::no_client_auth())?;
        let Some(roots) = options.authorities.as_deref().map(authorities).transpose()? else {
            let schemes = provider.signature_verification_algorithms.supported_schemes();
            let reject_all = |mandatory| Arc::new(RejectAll { mandatory, schemes: schemes.clone() });
            return Ok(Configurations {
                none,
                peer: configure(reject_all(false))?,
                force: configure(reject_all(true))?,
            });
        };
        let verifier = || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let failed = |error: rustls::server::VerifierBuilderError| {
            TlsError::Library(rustls::Error::General(error.to_string()))
        };
        let peer = verifier().allow_unauthenticated().build().map_err(failed)?;
        let force = verifier().build().map_err(failed)?;
        Ok(Configurations { none, peer: configure(peer)?, force: configure(force)? })
    }
}

fn configure(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
    identity: &Identity,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let old = options.min_version == MinVersion::Tls12
        && provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
    let versions: &[_] =
        if old { &[&rustls::version::TLS13, &rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(versions).map_err(TlsError::Library)?;
    let resolver = Arc::new(SingleCertAndKey::from(identity.key.clone()));
    let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
    // Tickets hold the state of a session that can be resumed: the server keeps none for disconnected clients.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if options.resumption == Resumption::Tickets {
        config.ticketer = ring::Ticketer::new().map_err(TlsError::Library)?;
    }
    Ok(Arc::new(config))
}

fn load(options: &TlsOptions) -> Result<(Configurations, Identity), TlsError> {
    let provider =
        Arc::new(CryptoProvider { cipher_suites: options.ciphers.suites(), ..ring::default_provider() });
    let identity = Identity::read(&options.chain, options.key_file(), &provider)?;
    Ok((Configurations::new(options, provider, &identity)?, identity))
}

impl TlsAcceptor {
    /// Reads the files and makes an acceptor. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn new(options: TlsOptions, now: u64) -> Result<Self, TlsError> {
        let seen = Stamps::take(options.files());
        let (configurations, identity) = load(&options)?;
        let verify = options.verify;
        let status = TlsStatus {
            not_after: identity.facts.not_after,
            common_name: identity.facts.common_name,
            loaded_at: now,
            reloads: 0,
            failed_reloads: 0,
        };
        let state = Mutex::new(State { configurations, seen, status });
        let shared = Shared { options, counters: Arc::default(), reload: Mutex::new(()), state };
        Ok(TlsAcceptor { shared: Arc::new(shared), verify })
    }

    /// The same acceptor for a listener with another mode of client certificates.
    #[must_use]
    pub fn with_verify(&self, verify: VerifyMode) -> Self {
        TlsAcceptor { shared: self.shared.clone(), verify }
    }

    /// Starts TLS on `stream`. A stream that has TLS already is returned as it is. Nothing is sent or received before
    /// the first read or write.
    ///
    /// # Errors
    /// The library refuses, for reasons that do not depend on the client.
    pub fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let configuration = self.state().configurations.get(self.verify).clone();
        let session = ServerConnection::new(configuration).map_err(io::Error::other)?;
        Ok(TlsStream::over(stream, session.into(), &self.shared.counters))
    }

    /// Reads the files again, for new connections; existing ones keep their configuration. `now` is in seconds since
    /// 1970. Earlier sessions are not resumed.
    ///
    /// # Errors
    /// What is wrong with the files; the previous ones stay in use.
    pub fn reload(&self, now: u64) -> Result<(), TlsError> {
        let _one_at_a_time = self.shared.reload.lock();
        // Before the files are read: any later write is another change.
        let seen = Stamps::take(self.shared.options.files());
        let loaded = load(&self.shared.options);
        let mut state = self.state();
        state.seen = seen;
        match loaded {
            Ok((configurations, identity)) => {
                state.configurations = configurations;
                state.status.not_after = identity.facts.not_after;
                state.status.common_name = identity.facts.common_name;
                state.status.loaded_at = now;
                state.status.reloads += 1;
                Ok(())
            }
            Err(error) => {
                state.status.failed_reloads += 1;
                Err(error)
            }
        }
    }

    /// Whether the files have changed since they were last read, successfully or not. It costs a system call for each
    /// file. A file that was read half-written counts as changed again when the other half is written.
    pub fn changed(&self) -> bool {
        let seen = self.state().seen.clone();
        seen.have_changed(self.shared.options.files())
    }

    pub fn status(&self) -> TlsStatus {
        self.state().status.clone()
    }

    pub fn counters(&self) -> &TlsCounters {
        &self.shared.counters
    }

    pub fn options(&self) -> &TlsOptions {
        &self.shared.options
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}
