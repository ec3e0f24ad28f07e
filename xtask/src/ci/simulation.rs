//! Regions in a simulated machine (docs/develop/simulation.md).

use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Work;
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

/// Seeds that each run twice, in two processes, whose events must be equal; then others run once until so many seconds
/// have passed.
const REPEATED: &str = "50";
const SECONDS: &str = "30";

/// The simulator's tests, and half a minute of seeds that did not run before. The program prints the seeds, and how to repeat
/// one that fails.
pub(crate) fn short(root: &Path) -> Work {
    let seed = fresh().to_string();
    let arguments =
        ["--seed", &seed, "--seeds", "1000000", "--again", "1", "--first", REPEATED, "--seconds", SECONDS];
    let tests = simulated(root, &["test", "--quiet", "--lib"]);
    Work::Commands(iter::once(tests).chain(commands(root, &arguments.map(str::to_owned))).collect())
}

/// Another seed each second.
#[expect(clippy::disallowed_methods, reason = "each run has other seeds, which it prints")]
fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// A command of cargo for the simulator.
fn simulated(root: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo(&[arguments, &["--profile", PROFILE, "-p", PROGRAM]].concat());
    command.env("RUSTFLAGS", "--cfg guira_simulated").env("CARGO_TARGET_DIR", folder(root));
    command
}

fn folder(root: &Path) -> PathBuf {
    root.join(target_folder(root)).join("simulated")
}

/// The build of the simulator, and its run with these arguments.
pub(super) fn commands(root: &Path, arguments: &[String]) -> Vec<Command> {
    let program = folder(root).join(PROFILE).join(PROGRAM);
    let mut run = command(&[&*program.to_string_lossy()]);
    run.args(arguments);
    vec![simulated(root, &["build", "--quiet"]), run]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_repeats_its_first_seeds_and_ends_in_time() {
        let Work::Commands(commands) = short(Path::new("/")) else { panic!("a step of commands") };
        let run = commands.last().expect("tests, a build and a run");
        let arguments: Vec<String> =
            run.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let value = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name);
            at.and_then(|at| arguments[at + 1].parse::<u64>().ok())
        };
        assert_eq!((commands.len(), value("--again"), value("--first")), (3, Some(1), Some(50)));
        assert!(value("--seconds").is_some_and(|seconds| seconds < 60));
        assert!(value("--seed").is_some_and(|seed| seed > 1_700_000_000), "the seeds are fresh");
    }
}
