//! The cache server: `guira serve` and `guira memcached`.

pub(crate) mod container;
pub(crate) mod memcached;
mod notify;
pub(crate) mod options;
pub(crate) mod process;
mod run;
pub(crate) mod serve;
mod upgrade;

use guira_cli::failure::Failure;
use guira_server::{OptionsError, StartError};
use options::ConfigError;

/// Whether the command line or the configuration of a server is at fault.
pub(crate) fn is_usage(failure: &Failure) -> bool {
    let is_start = |error| matches!(error, &StartError::NamelessDatagrams | &StartError::LittleMemory { .. });
    failure.is_usage()
        || failure.find::<ConfigError>().is_some()
        || failure.find::<OptionsError>().is_some()
        || failure.find::<StartError>().is_some_and(is_start)
}
