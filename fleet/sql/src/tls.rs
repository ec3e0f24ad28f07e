//! How a connection is encrypted: `tls = { ca = "…" }`.

use guira_client::text::{Endpoint, Target};
use guira_transport::{Resumption, TlsClientOptions, TlsConnector, TlsError, TlsName};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    #[serde(default)]
    mode: Mode,
    /// Authorities, as PEM.
    #[serde(default)]
    ca: Option<PathBuf>,
    /// The certificate for a server that requires one; its key is in the same file if none is
    /// named.
    #[serde(default)]
    cert: Option<PathBuf>,
    #[serde(default)]
    key: Option<PathBuf>,
}

/// The servers to trust, by the names of libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Require,
    /// Only a server with a certificate of `ca` for its host name.
    #[default]
    VerifyFull,
}

impl Tls {
    pub fn check(&self, endpoint: &Endpoint) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        match (self.mode, &self.ca) {
            _ if matches!(endpoint, Endpoint::Unix(_)) => wrong("tls cannot be used with a UNIX socket"),
            (Mode::VerifyFull, None) => {
                wrong("tls needs ca, or mode = \"require\" to accept any certificate")
            }
            (Mode::Require, Some(_)) => wrong("ca of tls needs mode = \"verify-full\""),
            _ if self.key.is_some() && self.cert.is_none() => wrong("key of tls needs cert"),
            _ => Ok(()),
        }
    }

    fn connector(&self) -> Result<TlsConnector, TlsError> {
        TlsConnector::new(TlsClientOptions {
            chain: self.cert.clone(),
            key: self.key.clone(),
            resumption: Resumption::Off,
            ..TlsClientOptions::trusting(self.ca.clone())
        })
    }
}

/// How a connection to `endpoint` is made that has these settings, or none.
pub fn security(tls: Option<&Tls>, endpoint: &Endpoint) -> Result<Security, TlsError> {
    match (tls, endpoint) {
        (Some(tls), Endpoint::Tcp { host, .. }) => Ok(Security::Tls(tls.connector()?, host.parse()?)),
        _ => Ok(Security::Plain),
    }
}

/// `target` with the TLS of these settings, if there are any.
pub fn secured(target: Target, tls: Option<&Tls>) -> Result<Target, TlsError> {
    Ok(match security(tls, target.endpoint())? {
        Security::Plain => target,
        Security::Tls(connector, name) => target.with_connector(connector, name),
    })
}

#[derive(Clone, Debug)]
pub enum Security {
    Plain,
    Tls(TlsConnector, TlsName),
}

impl Security {
    /// The TLS connector with the present certificates of the files, and the server's name.
    pub(crate) fn tls(&self) -> Option<(&TlsConnector, &TlsName)> {
        let Security::Tls(connector, name) = self else { return None };
        reload(connector);
        Some((connector, name))
    }
}

/// Reads certificates that have changed, for the next connection.
pub fn reload(connector: &TlsConnector) {
    if let Err(error) = connector.reload_changed() {
        // Operator: Correct the file that the message names. The program retries when it changes, and
        // on SIGHUP.
        tracing::error!("cannot reload certificates; keeping the previous ones: {error}");
    }
}
