//! `guira ready`: stores a value on a server and reads it, for probes of containers.

use std::time::Duration;

use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::units::Span;
use guira_client::text::{Connection, Endpoint, TextError};

const NOTES: &str = "The value is stored under the key guira:ready for a minute.

Exit codes: 0 if the server stored and returned the value, 1 if not, 2 if the command line is wrong.

Example:
  guira ready 127.0.0.1:11211";

/// Arguments of `guira ready`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// Server, as HOST:PORT or unix:PATH.
    #[arg(value_name = "SERVER")]
    server: Endpoint,
    /// How long the server may take for each reply.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    timeout: Span,
    #[command(flatten)]
    access: Access,
}

const REQUEST: &[u8] = b"set guira:ready 0 60 5\r\nready\r\nget guira:ready\r\n";
const REPLY: [&str; 4] = ["STORED", "VALUE guira:ready 0 5", "ready", "END"];

/// # Errors
/// If the server does not reply in time, or with something else.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { server, timeout: Span(timeout), access } = args;
    check_timeout(*timeout)?;
    let target = access.target(server, *timeout)?;
    let failed = |error: TextError| Failure::caused(format!("{server} is not ready"), error);
    let mut connection = Connection::open(&target).map_err(failed)?;
    connection.send(REQUEST).map_err(failed)?;
    for expected in REPLY {
        let line = connection.line().map_err(failed)?;
        if line != expected.as_bytes() {
            let line = line.escape_ascii();
            return Err(Failure::new(format!(
                "{server} is not ready: it replied '{line}' instead of '{expected}'"
            )));
        }
    }
    Ok(())
}

fn check_timeout(timeout: Duration) -> Result<(), Failure> {
    if timeout.is_zero() { Err(Failure::usage("--timeout must not be 0")) } else { Ok(()) }
}
