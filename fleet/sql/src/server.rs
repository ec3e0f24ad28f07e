//! The database to connect to, with its user.

use crate::{Credentials, Security, Tls, security};
use guira_client::text::Endpoint;
use guira_transport::TlsError;
use std::io;
use std::path::Path;

#[derive(Clone, Debug)]
pub struct Server {
    pub endpoint: Endpoint,
    pub security: Security,
    pub credentials: Credentials,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("database login: {0}")]
    Login(io::Error),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
}

impl Server {
    /// A server, once the files it names could be read.
    pub fn new(
        endpoint: &Endpoint,
        tls: Option<&Tls>,
        user: &str,
        password_file: Option<&Path>,
    ) -> Result<Self, ServerError> {
        let security = security(tls, endpoint)?;
        let credentials =
            Credentials { user: user.to_owned(), password_file: password_file.map(Path::to_owned) };
        credentials.read().map_err(ServerError::Login)?;
        Ok(Server { endpoint: endpoint.clone(), security, credentials })
    }
}
