//! The token that clients of the admin listener show, if one is wanted: a file that holds nothing else.

use guira_disk::read_file;
use guira_sync::lock::RwLock;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token file {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the token file {path} must have one line of 1 to 1024 printable ASCII characters")]
    Form { path: PathBuf },
}

const TOKEN_MAX: usize = 1024;

/// A token, which is not shown by anything.
pub struct Token {
    path: PathBuf,
    /// LOCK: token. Leaf.
    token: RwLock<Box<[u8]>>,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Token").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Token {
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        Ok(Token { path: path.to_owned(), token: RwLock::new(read(path)?) })
    }

    /// Reads the file again. What fails is logged, and the token stays.
    pub fn reload(&self) {
        match read(&self.path) {
            Ok(token) => {
                *self.token.write() = token;
                tracing::info!(file = %self.path.display(), "reloaded the token file");
            }
            // Operator: Correct the file and its permissions, then send SIGHUP.
            Err(error) => {
                tracing::error!("cannot reload the token file; keeping the previous token: {error}")
            }
        }
    }

    /// Whether `authorization`, the value of that header, shows it (RFC 6750). It takes as long for every one of the same length.
    pub fn is_shown(&self, authorization: &[u8]) -> bool {
        const SCHEME: &[u8] = b"Bearer ";
        let Some((scheme, shown)) = authorization.split_at_checked(SCHEME.len()) else {
            return false;
        };
        let token = self.token.read();
        scheme.eq_ignore_ascii_case(SCHEME) && guira_serving::is_same_secret(&token, shown.trim_ascii())
    }
}

fn read(path: &Path) -> Result<Box<[u8]>, TokenError> {
    let text = read_file(path, TOKEN_MAX + 2)
        .map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
    let token = text.trim_ascii();
    let is_token = (1..=TOKEN_MAX).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
    if is_token { Ok(token.into()) } else { Err(TokenError::Form { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_whole() {
        let path = std::env::temp_dir().join(format!("guira-token-{}", std::process::id()));
        guira_disk::write(&path, "s3cret\n").unwrap();
        let token = Token::load(&path).unwrap();
        assert!(token.is_shown(b"Bearer s3cret") && token.is_shown(b"bearer  s3cret "));
        for wrong in
            [&b""[..], b"Bearer", b"Bearer ", b"Bearer s3cre", b"Bearer s3crets", b"Basic s3cret", b"s3cret"]
        {
            assert!(!token.is_shown(wrong), "{wrong:?}");
        }
        for bad in ["", "\n", "two words", "s\u{e4}ge", &"x".repeat(TOKEN_MAX + 1)] {
            guira_disk::write(&path, bad).unwrap();
            assert!(Token::load(&path).is_err(), "{bad}");
        }
        token.reload();
        assert!(token.is_shown(b"Bearer s3cret"), "the file is of no use");
        guira_disk::write(&path, "other").unwrap();
        token.reload();
        assert!(token.is_shown(b"Bearer other") && !token.is_shown(b"Bearer s3cret"));
        guira_disk::remove_file(&path).unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Read { .. })));
    }
}
