//! An admin listener of a process that has no other listeners: from its place to its end.

use crate::{Site, Token, TokenError, open, place, start};
use guira_serving::{Crew, PortError};
use guira_transport::Address;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long replies under way are waited for at the end.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Admin {
    address: Address,
    crew: Crew,
    token: Option<Arc<Token>>,
}

#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("admin {0}")]
    Place(String),
    #[error("cannot open the admin listener")]
    Port(#[source] PortError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

impl Admin {
    /// Serves `site` at `at`, to those who show the token of the file, if there is one; see [`start`].
    ///
    /// # Errors
    /// When the place makes no sense or cannot be had, the file cannot be read, or the system has no threads left.
    pub fn serve<S: Site>(
        at: &str,
        token_file: Option<&Path>,
        secrets: &str,
        site: impl FnOnce() -> S + Send + 'static,
    ) -> Result<Self, AdminError> {
        let at = place(at).map_err(AdminError::Place)?;
        let token = token_file.map(Token::load).transpose()?.map(Arc::new);
        let port = open(&at).map_err(AdminError::Port)?;
        let address = port.listener.address().clone();
        let crew = start(port, token.clone(), secrets, site)?;
        crew.begin();
        Ok(Admin { address, crew, token })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Reads the file of the token again.
    pub fn reload(&self) {
        if let Some(token) = &self.token {
            token.reload();
        }
    }

    /// Ends it; that it does not end in order is logged.
    pub fn end(self) {
        if let Err(error) = self.crew.end(DRAIN) {
            // Operator: Nothing, unless it repeats; the process ends anyway.
            tracing::warn!(%error, "the admin listener did not stop cleanly");
        }
    }
}
