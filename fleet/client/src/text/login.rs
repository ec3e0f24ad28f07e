//! User and password.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use guira_protocol::client;

/// The longest file that is read, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// A user and a password. They are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

/// Why a login could not be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The first line of the file is no login.
    #[error("the first line of {0} is not USER:PASSWORD, without blanks")]
    Form(PathBuf),
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login")
    }
}

impl Login {
    /// Reads the first line, `USER:PASSWORD`, of a file such as the server's auth file.
    ///
    /// # Errors
    /// When the file cannot be read, or its first line has another form. Neither part may have blanks, which separate
    /// them in the protocol.
    pub fn of_file(path: &Path) -> Result<Self, LoginError> {
        let mut text = String::new();
        let read =
            guira_disk::File::open(path).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
        read.map_err(|source| LoginError::File { path: path.to_owned(), source })?;
        let wrong = || LoginError::Form(path.to_owned());
        let (user, password) = text.lines().next().and_then(|line| line.split_once(':')).ok_or_else(wrong)?;
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control());
        if !is_word(user) || !is_word(password) {
            return Err(wrong());
        }
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }

    /// The request that logs in; `STORED` is the answer to a login that is right.
    pub(super) fn request(&self) -> Vec<u8> {
        let mut request = Vec::new();
        client::login(&self.user, &self.password, &mut request);
        request
    }
}
