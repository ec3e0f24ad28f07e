//! The addresses of etcd, and the credentials for it.

use super::EtcdError;
use guira_disk as disk;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Bytes of the buffer for each direction of a connection: requests and most replies are shorter.
const BUFFER: usize = 16 << 10;

#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT` of its members.
    pub endpoints: Vec<String>,
    pub prefix: String,
    /// Certificates, for `https`.
    pub tls: EtcdTls,
    /// The first line of this file is USER:PASSWORD.
    pub login_file: Option<PathBuf>,
}

/// Files of certificates, PEM.
#[derive(Clone, Debug, Default)]
pub struct EtcdTls {
    /// The file of authorities that are trusted to sign the certificates of etcd. Without it, those
    /// of browsers are trusted.
    pub authority: Option<PathBuf>,
    /// The client certificate for etcd, with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

impl EtcdOptions {
    /// A cluster with the prefix `/guira/`, without certificates and logins.
    pub fn new(endpoints: Vec<String>) -> Self {
        EtcdOptions { endpoints, prefix: "/guira/".to_owned(), tls: EtcdTls::default(), login_file: None }
    }

    pub(super) fn agent(&self) -> Result<ureq::Agent, EtcdError> {
        let mut tls = TlsConfig::builder().provider(TlsProvider::Rustls);
        if let Some(path) = &self.tls.authority {
            let certificates = certificates(path)?;
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates)));
        }
        if let Some((chain, key)) = &self.tls.identity {
            let wrong = |error: ureq::Error| EtcdError::Unusable(format!("{}: {error}", key.display()));
            let key = PrivateKey::from_pem(&read(key)?).map_err(wrong)?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(chain)?, key)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_MAX))
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .tls_config(tls.build());
        // A proxy of the environment is for hosts outside.
        let config = config.proxy(None).build();
        #[cfg(guira_simulated)]
        let agent = super::simulated::agent(config);
        #[cfg(not(guira_simulated))]
        let agent = config.into();
        Ok(agent)
    }

    /// Read whenever it is needed: a password may change.
    pub(super) fn user(&self) -> Result<Option<User>, EtcdError> {
        let Some(path) = &self.login_file else { return Ok(None) };
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let line = text.lines().next().unwrap_or_default();
        let wrong =
            || EtcdError::Unusable(format!("{}: the first line is not USER:PASSWORD", path.display()));
        let (name, password) = line.split_once(':').ok_or_else(wrong)?;
        Ok(Some(User { name: name.to_owned(), password: password.to_owned() }))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, EtcdError> {
    disk::read(path).map_err(|error| EtcdError::Unusable(format!("{}: {error}", path.display())))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, EtcdError> {
    let text = read(path)?;
    let found: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        return Err(EtcdError::Unusable(format!("{} has no certificates", path.display())));
    }
    Ok(found)
}
