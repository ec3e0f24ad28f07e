//! `guira top` against real nodes: on a terminal of the test, and as plain text.

mod once;
mod screen;
mod terminal;

use std::process::Command;
use std::time::Duration;

use guira_harness::server::{ServerProcess, Spec};

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

fn guira(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira"));
    command.args(arguments).env_remove("NOTIFY_SOCKET");
    command
}

/// A node that listens at `listen`, and where it does.
fn node(listen: &str, more: &[&str]) -> (ServerProcess, String) {
    let mut command = guira(&["serve", "--workers", "1", "--memory", "64MiB", "--listen", listen]);
    command.args(more);
    let mut process = ServerProcess::start(Spec::new(command)).expect("the binary was built");
    let places = process.wait_until_ready(PATIENCE).expect("it serves");
    (process, places[0].place.clone())
}
