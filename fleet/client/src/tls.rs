//! The TLS setup of a client.

use std::path::Path;

use guira_transport::{TlsClientOptions, TlsConnector, TlsError};

/// Which servers a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Servers whose certificate is signed by an authority in this PEM file.
    Authority(&'a Path),
    /// All servers: certificates are not verified.
    Anyone,
}

impl Trust<'_> {
    /// The options of a client with this trust.
    pub fn options(self) -> TlsClientOptions {
        TlsClientOptions::trusting(match self {
            Self::Authority(path) => Some(path.to_owned()),
            Self::Anyone => None,
        })
    }

    pub(crate) fn connector(self) -> Result<TlsConnector, TlsError> {
        TlsConnector::new(self.options())
    }
}
