//! A node: the server with the engine that its options name.
//!
//! The server is generic over its engine, and only this crate compiles it for each engine. That
//! takes longer than the rest of the server, so changes and tests of the server do not wait for it.

#![forbid(unsafe_code)]

use guira_roster::{Choice, OpenError, Setup};
use guira_server::{Inherited, Options, Predecessor, Running, Secrets, StartError, Starting};

/// Starts a server: see [`guira_server::start_after`].
///
/// # Errors
/// Those of [`guira_server::start_after`].
pub fn start_after(
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    predecessor: Option<Predecessor>,
) -> Result<Running, StartError> {
    guira_server::start_after(open, options, secrets, inherited, predecessor)
}

fn open(
    choice: &Choice,
    setup: &Setup,
    starting: Starting<'_>,
) -> Result<Result<Running, StartError>, OpenError> {
    choice.open(setup, starting)
}
