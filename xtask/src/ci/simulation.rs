//! Regions in a simulated machine (docs/develop/simulation.md).

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

/// Seeds that each run twice, in two processes, whose events must be equal.
const REPEATED: u64 = 50;
/// Seconds of the seeds that run once.
const SECONDS: u64 = 25;

/// The simulator's tests, and a minute of seeds that did not run before. The program prints the seeds, and how to repeat
/// one that fails.
pub(crate) fn short(root: &Path) -> Work {
    let seed = fresh();
    let repeated = format!("--seed {seed} --seeds {REPEATED} --again 1");
    let others = format!("--seed {} --seeds 1000000 --seconds {SECONDS}", seed + REPEATED);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let tests = simulated(root, &["test", "--quiet", "--lib"]);
    let mut all = vec![tests];
    all.extend(commands(root, &words(&repeated)));
    all.extend(commands(root, &words(&others)).pop());
    Work::Commands(all)
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
    fn seeds_run_twice_and_then_others_once() {
        let Work::Commands(commands) = short(Path::new("/")) else { panic!("a step of commands") };
        let arguments: Vec<Vec<String>> = commands
            .iter()
            .map(|it| it.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect())
            .collect();
        assert_eq!(arguments.len(), 4, "tests, a build and two runs");
        let seed = |run: usize| arguments[run][1].parse::<u64>().expect("--seed has a number");
        assert!(arguments[2].ends_with(&["--again".to_owned(), "1".to_owned()]));
        assert!(arguments[3].contains(&"--seconds".to_owned()));
        assert_eq!(seed(3), seed(2) + REPEATED);
    }
}
