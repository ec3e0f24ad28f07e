//! How a cache or a router is reached.

use crate::Security;
use guira_client::text::{Connection, Endpoint, Login, LoginError, Target, TextError};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Way {
    pub endpoint: Endpoint,
    pub timeout: Duration,
    pub security: Security,
    /// A file that begins with USER:PASSWORD.
    pub login_file: Option<PathBuf>,
}

/// Why it is not.
#[derive(Debug, thiserror::Error)]
pub enum WayError {
    #[error(transparent)]
    Connection(#[from] TextError),
    #[error(transparent)]
    Login(#[from] LoginError),
}

impl Way {
    /// Who logs in, if anybody does. The file is read for each connection.
    pub fn login(&self) -> Result<Option<Login>, LoginError> {
        self.login_file.as_deref().map(Login::of_file).transpose()
    }

    pub fn connect(&self) -> Result<Connection, WayError> {
        let mut target = Target::new(self.endpoint.clone(), self.timeout);
        if let Some((connector, name)) = self.security.tls() {
            target = target.with_connector(connector.clone(), name.clone());
        }
        if let Some(login) = self.login()? {
            target = target.with_login(login);
        }
        Ok(Connection::open(&target)?)
    }
}
