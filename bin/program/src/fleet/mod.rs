//! All commands but the cache server: the router, the invalidator, the checker, pools in etcd, and monitors of nodes.

pub(crate) mod check;
pub(crate) mod copy;
mod etcd;
pub(crate) mod invalidate;
pub(crate) mod pools;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod router;
mod shares;
pub(crate) mod top;

use guira_cli::failure::Failure;
use guira_invalidator::ReplayError;
use guira_top::TerminalError;

/// Whether a failure is an error of the command line or the configuration.
pub(crate) fn is_usage(failure: &Failure) -> bool {
    let is_replay = |error| matches!(error, &ReplayError::Wanted(_) | &ReplayError::Config(_));
    failure.find::<guira_invalidator::ConfigError>().is_some()
        || failure.find::<guira_checker::ConfigError>().is_some()
        || failure.find::<ReplayError>().is_some_and(is_replay)
        || failure.find::<TerminalError>().is_some_and(|error| matches!(error, TerminalError::None))
}
