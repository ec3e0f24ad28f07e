//! Errors of reading a database or its log.

use guira_sync::stop::Stopped;
use std::io;

/// Why a database, or its log, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The connection failed; another one may work.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The missing part of the log may have changed anything.
    #[error(
        "the database log has a gap: {0}. Changes in the gap were not deleted from the caches: flush the \
             caches, remove the position file and restart"
    )]
    Gap(String),
    #[error("cannot save the first position: {0}")]
    Position(io::Error),
    #[error("the database returned an error: {0}")]
    Refused(String),
    #[error("the database rejected the login: {0}")]
    Login(String),
    #[error("{0}")]
    Unsuitable(String),
    #[error("malformed data from the database: {0}")]
    Malformed(&'static str),
    /// The end of the requested part.
    #[error("reached the requested end of the log")]
    Ended,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl SourceError {
    /// Whether a retry may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, SourceError::Connection(_) | SourceError::Position(_))
    }
}
