//! What a client needs to speak TLS.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion};

/// Which servers a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Those whose certificate is signed by one of the authorities in this PEM file.
    Authority(&'a Path),
    /// All of them: certificates are not verified.
    Anyone,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities cannot be read.
    #[error("cannot read certificates from {path}: {problem}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate cannot be used as an authority.
    #[error("a certificate is not a CA certificate: {0}")]
    Authority(rustls::Error),
    /// The versions or cipher suites do not fit together.
    #[error("cannot prepare TLS: {0}")]
    Setup(#[from] Box<dyn Error + Send + Sync>),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |problem: String| TlsError::Certificates { path: path.to_owned(), problem };
    let list: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?.collect();
    let list = list.map_err(|error| unusable(error.to_string()))?;
    if list.is_empty() { Err(unusable("the file has no certificates".to_owned())) } else { Ok(list) }
}

/// The configuration of a client that trusts `trust`, with the cipher suites of `provider` and these versions.
///
/// # Errors
/// When the file of authorities cannot be used, or the versions do not fit the cipher suites.
pub fn client_config(
    trust: Trust<'_>,
    provider: Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| TlsError::Setup(Box::new(error)))?;
    Ok(match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Credulous { provider }))
            .with_no_client_auth(),
        Trust::Authority(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(TlsError::Authority)?;
            }
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| TlsError::Setup(Box::new(error)))?;
            builder.with_webpki_verifier(verifier).with_no_client_auth()
        }
    })
}

/// Believes every certificate; that the server holds its key is still checked.
#[derive(Debug)]
struct Credulous {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
