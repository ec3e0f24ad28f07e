//! Why a checker does not start.

use crate::config::ConfigError;
use guira_client::text::Endpoint;
use guira_web::AdminError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Unsuitable(String),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("cannot listen at {0}")]
    Listen(Endpoint, #[source] io::Error),
    #[error("cannot start")]
    System(#[from] io::Error),
}
