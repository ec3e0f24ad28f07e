//! `make soak`: what takes too long, or needs too much from elsewhere, for every change; and a short form of the load for `make test`.

use std::path::Path;
use std::process::Command;

use super::tools::{cargo, command, target_folder};
use super::{Step, Work, clients};

/// What begins a seed on the command line.
const SEED: &str = "--seed";

/// All steps.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "build", work: |_| Work::Commands(vec![cargo(&["build", "--package", "guira-cli"])]) },
        Step { name: "clients", work: clients::others },
        Step { name: "load", work: load },
        Step { name: "kills", work: kills },
        Step { name: "fleec", work: fleec },
        Step { name: "mica", work: mica },
    ]
}

/// The names of steps among the arguments: those before `--seed N`.
pub(crate) fn chosen(arguments: &[String]) -> &[String] {
    let end = arguments.iter().position(|argument| argument == SEED).unwrap_or(arguments.len());
    &arguments[..end]
}

/// The seed that the command line names. Steps have no arguments, so it is read from there.
fn seed() -> Option<String> {
    std::env::args().skip_while(|argument| argument != SEED).nth(1)
}

fn load(root: &Path) -> Work {
    let program = release(root, &["load", "--seconds", "600", "--memory", "256"]);
    Work::Commands(vec![build_release(), program])
}

fn kills(root: &Path) -> Work {
    Work::Commands(vec![build_release(), release(root, &["kills", "--kills", "200"])])
}

/// The engine without locks: sixteen threads on it in one process, the load, and kills.
fn fleec(root: &Path) -> Work {
    let [load, kills] = load_and_kills(root, "fleec");
    Work::Commands(vec![long_tests("guira-fleec"), build_release(), load, kills])
}

/// The engine with partitions: how full a gibibyte comes to be, the load, and kills.
fn mica(root: &Path) -> Work {
    let [load, kills] = load_and_kills(root, "mica");
    Work::Commands(vec![long_tests("guira-mica"), build_release(), load, kills])
}

/// The tests of an engine that are too long for every change.
fn long_tests(package: &str) -> Command {
    cargo(&["test", "--release", "--package", package, "--", "--ignored", "--nocapture"])
}

/// The load and the kills, shorter, with another engine than the default.
fn load_and_kills(root: &Path, engine: &str) -> [Command; 2] {
    let load = ["load", "--engine", engine, "--seconds", "300", "--memory", "256"];
    [release(root, &load), release(root, &["kills", "--engine", engine, "--kills", "100"])]
}

/// A minute with less of everything, against the debug build, whose assertions hold as well; always with the same seed.
pub(crate) fn short(root: &Path) -> Work {
    let build = cargo(&["build", "-p", "guira-cli", "-p", "guira-soak"]);
    let amounts = ["--seconds", "60", "--memory", "64", "--kills", "5", SEED, "1"];
    Work::Commands(vec![build, program(root, "debug", &amounts)])
}

fn build_release() -> Command {
    cargo(&["build", "--release", "-p", "guira-cli", "-p", "guira-soak"])
}

fn release(root: &Path, arguments: &[&str]) -> Command {
    program(root, "release", arguments)
}

fn program(root: &Path, profile: &str, arguments: &[&str]) -> Command {
    let folder = target_folder(root).join(profile);
    let binary = folder.join("guira-soak").to_string_lossy().into_owned();
    let mut program = command(&[&[binary.as_str()], arguments].concat());
    program.arg("--guira").arg(folder.join("guira"));
    if let Some(seed) = seed() {
        program.args([SEED, &seed]);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn a_seed_is_no_step() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&words(&["load", "--seed", "7"])), words(&["load"]));
        assert_eq!(chosen(&words(&["load", "kills"])), words(&["load", "kills"]));
        assert!(chosen(&words(&["--seed", "7"])).is_empty());
    }
}
