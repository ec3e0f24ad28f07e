//! Regions in a simulated machine (docs/develop/simulation.md).

use std::path::Path;
use std::process::{Command, ExitCode};

use super::tools::{cargo, command, target_folder};

const PROFILE: &str = "simulation";
const PROGRAM: &str = "guira-simulation";

/// Builds the simulator and runs it with these arguments.
pub(crate) fn run(root: &Path, arguments: &[String]) -> ExitCode {
    for mut command in commands(root, arguments) {
        match command.current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cannot run {}: {error}", super::tools::describe(&command));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The build of the simulator, and its run with these arguments.
pub(super) fn commands(root: &Path, arguments: &[String]) -> Vec<Command> {
    let folder = root.join(target_folder(root)).join("simulated");
    let mut build = cargo(&["build", "--quiet", "--profile", PROFILE, "-p", PROGRAM]);
    build.env("RUSTFLAGS", "--cfg guira_simulated").env("CARGO_TARGET_DIR", &folder);
    let program = folder.join(PROFILE).join(PROGRAM);
    let mut run = command(&[&*program.to_string_lossy()]);
    run.args(arguments);
    vec![build, run]
}
