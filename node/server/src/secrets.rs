//! What is read once from files that the server's user may not be allowed to read.

use crate::auth::{Users, UsersError};
use crate::options::Options;

/// Users and passwords, to be loaded before privileges are given up.
#[derive(Debug)]
pub struct Secrets {
    pub(crate) users: Option<Users>,
}

impl Secrets {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// If one of them cannot be read or is not what it should be.
    pub fn load(options: &Options) -> Result<Self, UsersError> {
        Ok(Secrets { users: options.auth_file.as_deref().map(Users::load).transpose()? })
    }
}
