//! TLS connections to servers.

use crate::config::LoadError;
use crate::options::ServerTls;
use guira_routing::config::Address as Named;
use guira_serving::Causes;
use guira_transport::TlsConnector;
use guira_upstream::Secure;

#[derive(Debug)]
pub(crate) struct TlsToServers {
    options: ServerTls,
    /// Made when a configuration has a server that uses TLS.
    connector: Option<TlsConnector>,
}

impl TlsToServers {
    pub(crate) fn new(options: ServerTls) -> Self {
        TlsToServers { options, connector: None }
    }

    pub(crate) fn connector(&self) -> Option<TlsConnector> {
        self.connector.clone()
    }

    /// Whether a configuration has had a server that uses TLS.
    pub(crate) fn is_used(&self) -> bool {
        self.connector.is_some()
    }

    /// The TLS parameters of a server.
    pub(crate) fn secure(&mut self, address: &Named) -> Result<Secure, LoadError> {
        let connector = match &self.connector {
            Some(connector) => connector.clone(),
            None => {
                if self.options.options.authorities.is_none() {
                    // Operator: Use `--ssl-verify-peers` with `--pem-ca-path`.
                    tracing::warn!("server certificates are not verified: use --ssl-verify-peers");
                }
                self.connector.insert(TlsConnector::new(self.options.options.clone())?).clone()
            }
        };
        let name = match (&self.options.identity, address) {
            (Some(name), _) => name.clone(),
            (None, Named::Tcp { host, .. }) => host.parse()?,
            // Pools refuse TLS over these.
            (None, Named::Unix(path)) => path.parse()?,
        };
        Ok(Secure { connector, name })
    }

    /// Reads changed certificates and keys again.
    pub(crate) fn reload_changed(&self) {
        let Some(connector) = &self.connector else { return };
        match connector.reload_changed() {
            Ok(true) => tracing::info!("reloaded the certificates for servers"),
            Ok(false) => {}
            Err(error) => {
                // Operator: Correct the file that the message names. The router retries when it changes,
                // and on SIGHUP.
                tracing::error!(
                    "cannot reload the certificates for servers; keeping the previous ones: {}",
                    Causes(&error)
                );
            }
        }
    }
}
