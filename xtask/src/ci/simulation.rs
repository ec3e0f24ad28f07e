//! Regions in a simulated machine (docs/develop/simulation.md).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Work;
use super::tools::{cargo, command, target_folder};

const PROGRAM: &str = "guira-simulation";

/// Adds `--cfg guira_simulated` for our crates only, so that those of other people are compiled once for all builds.
const WRAPPER: &str = "xtask/rustc/simulated";

/// How the simulator is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    /// For long runs.
    Fast,
    /// As all tests, and with what is compiled for them.
    OfTests,
}

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

/// Builds the simulator and its tests as [`short`] runs them. Cargo gives dependencies the same features as for the other
/// tests if no package is named and a test is among the targets.
pub(crate) fn build(root: &Path) -> Command {
    cargo_of(root, Profile::OfTests, &["build", "--quiet"])
}

/// The simulator's tests, and half a minute of seeds that did not run before. The program prints the seeds, and how to repeat
/// one that fails.
pub(crate) fn short(root: &Path) -> Work {
    let seed = fresh().to_string();
    let arguments =
        ["--seed", &seed, "--seeds", "1000000", "--again", "1", "--first", REPEATED, "--seconds", SECONDS];
    let mut run = command(&[&*program(root, Profile::OfTests).to_string_lossy()]);
    run.args(arguments);
    Work::Commands(vec![cargo_of(root, Profile::OfTests, &["test", "--quiet"]), run])
}

/// Another seed each second.
#[expect(clippy::disallowed_methods, reason = "each run has other seeds, which it prints")]
fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// A command of cargo for the simulator.
fn cargo_of(root: &Path, profile: Profile, arguments: &[&str]) -> Command {
    let targets = ["--features", "guira-simulation/simulated", "--bin", PROGRAM, "--test", "simulated"];
    let mut command = cargo(&[arguments, &targets].concat());
    if profile == Profile::Fast {
        command.args(["--profile", "simulation"]);
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER));
    command
}

fn program(root: &Path, profile: Profile) -> PathBuf {
    let folder = match profile {
        Profile::Fast => "simulation",
        Profile::OfTests => "debug",
    };
    root.join(target_folder(root)).join(folder).join(PROGRAM)
}

/// The build of the simulator for long runs, and its run with these arguments.
pub(super) fn commands(root: &Path, arguments: &[String]) -> Vec<Command> {
    let mut run = command(&[&*program(root, Profile::Fast).to_string_lossy()]);
    run.args(arguments);
    vec![cargo_of(root, Profile::Fast, &["build", "--quiet"]), run]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_repeats_its_first_seeds_and_ends_in_time() {
        let Work::Commands(commands) = short(Path::new("/")) else { panic!("a step of commands") };
        let run = commands.last().expect("tests and a run");
        let arguments: Vec<String> =
            run.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let value = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name);
            at.and_then(|at| arguments[at + 1].parse::<u64>().ok())
        };
        assert_eq!((commands.len(), value("--again"), value("--first")), (2, Some(1), Some(50)));
        assert!(value("--seconds").is_some_and(|seconds| seconds < 60));
        assert!(value("--seed").is_some_and(|seed| seed > 1_700_000_000), "the seeds are fresh");
    }
}
