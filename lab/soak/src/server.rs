//! The server under load: how it is started, and which of its lines are failures.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use guira_harness::server::{Listening, ServerProcess, Spec};

use crate::plan::Plan;

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(30);

/// The log message of a server that finds a spoilt certificate, which the run produces now and
/// then.
const CERTIFICATES_SPOILT: &str = "cannot reload certificates";

/// Whether a line of the log reports a failure.
fn is_bad(line: &str) -> bool {
    let is_error = line.contains(" ERROR ") && !line.contains(CERTIFICATES_SPOILT);
    is_error || line.contains("panicked") || line.contains("overflow")
}

/// Whether `guira serve` has this option.
pub(crate) fn has_option(binary: &Path, option: &str) -> bool {
    let output = Command::new(binary).args(["serve", "--help"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(option))
}

/// Starts `guira serve` with these arguments, and does not wait for it. Its alarms are its bad lines.
pub(crate) fn spawn(plan: &Plan, arguments: &[String]) -> Result<ServerProcess, String> {
    let mut command = Command::new(&plan.binary);
    let (engine, access) = plan.engine.split_once(':').unwrap_or((&plan.engine, ""));
    command.args(["serve", "--engine", engine]);
    if !access.is_empty() {
        command.args(["--access", access]);
    }
    command.args(arguments);
    ServerProcess::start(Spec::of_service(command).alarmed_by(is_bad)).map_err(|error| error.to_string())
}

/// Waits until a server is ready; the TCP addresses that it listens on.
pub(crate) fn wait_until_ready(server: &mut ServerProcess) -> Result<Vec<SocketAddr>, String> {
    let places = server.wait_until_ready(START_MAX).map_err(|error| error.to_string())?;
    let tcp = places.iter().filter(|place| place.by.is_empty());
    Ok(tcp.filter_map(Listening::address).collect())
}

#[cfg(test)]
mod tests {
    use super::is_bad;

    #[test]
    fn panics_and_errors_are_told_from_warnings() {
        assert!(is_bad("thread 'worker-0' (5) panicked at node/server/src/worker.rs:1:1:"));
        assert!(is_bad("2026-11-20T16:31:23.1Z ERROR cannot go on"));
        assert!(!is_bad(
            "2026-11-20T16:31:23.1Z ERROR cannot reload certificates; keeping the previous ones: none"
        ));
        assert!(!is_bad("2026-11-20T16:31:23.1Z  WARN a client said ERRORS"));
    }
}
