//! Why an invalidator does not start, or stops.

use crate::config::ConfigError;
use crate::deliver::SpoolError;
use crate::position::PositionError;
use crate::source::SourceError;
use guira_sandbox::SandboxError;
use guira_web::AdminError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    SystemCalls(#[from] SandboxError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("a thread has ended unexpectedly")]
    Thread,
    #[error("cannot restart: {0}")]
    Begin(#[from] Box<StartError>),
}
