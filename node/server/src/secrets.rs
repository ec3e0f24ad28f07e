//! Secrets that are read once, from files that the server's user may not be allowed to read.

use crate::options::Options;
use guira_serving::{Users, UsersError, unix_now};
use guira_transport::{TlsAcceptor, TlsError};
use guira_web::{Token, TokenError};
use std::sync::Arc;

/// Users, passwords and private keys, to be loaded before privileges are given up.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub(crate) users: Option<Users>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// What clients of the admin listener have to show.
    pub(crate) token: Option<Arc<Token>>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error("cannot speak TLS")]
    Tls(#[from] TlsError),
    /// The token of the admin listener.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl Secrets {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// If one of them cannot be read or is not what it should be.
    pub fn load(options: &Options) -> Result<Self, SecretsError> {
        let tls = options.tls().map(|tls| TlsAcceptor::new(tls, unix_now())).transpose()?;
        let users = options.auth_file.as_deref().map(Users::load).transpose()?;
        let token = options.admin_token_file.as_deref().map(Token::load).transpose()?.map(Arc::new);
        Ok(Secrets { users, tls, token })
    }
}
