//! How a target is reached.

use super::dialect::DeliveryError;
use guira_client::text::{Connection, Endpoint, Login, LoginError, Target};
use guira_databases::Security;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) endpoint: Endpoint,
    pub(crate) timeout: Duration,
    pub(crate) security: Security,
    /// A file that begins with USER:PASSWORD.
    pub(crate) login_file: Option<PathBuf>,
}

/// Where deletes of a target go, and flushes.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) deletes: Way,
    /// All of them.
    pub(crate) flushes: Vec<Way>,
}

impl Way {
    /// Who logs in, if anybody does. The file is read for each connection.
    pub(crate) fn login(&self) -> Result<Option<Login>, LoginError> {
        self.login_file.as_deref().map(Login::of_file).transpose()
    }

    pub(super) fn connect(&self) -> Result<Connection, DeliveryError> {
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
