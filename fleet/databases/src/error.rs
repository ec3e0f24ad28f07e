//! What can go wrong.

use crate::Stopped;
use std::io;

/// Why a database, or its log, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The connection has failed: another one may do.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// What is missing may have changed anything.
    #[error(
        "the log has a gap: {0}. Changes in it were not deleted from the caches: flush the caches, remove the position file and start again"
    )]
    Gap(String),
    #[error("the first position cannot be saved: {0}")]
    Position(io::Error),
    #[error("the database refuses: {0}")]
    Refused(String),
    #[error("the database refuses the login: {0}")]
    Login(String),
    #[error("{0}")]
    Unsuitable(String),
    #[error("the database sent what cannot be understood: {0}")]
    Malformed(&'static str),
    /// What was to be read is read.
    #[error("the log was read as far as was wanted")]
    Ended,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl SourceError {
    /// Whether it may be over the next time.
    pub fn is_passing(&self) -> bool {
        matches!(self, SourceError::Connection(_) | SourceError::Position(_))
    }
}
