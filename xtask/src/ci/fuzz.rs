//! Builds every fuzz target and runs each for a minute. `make test` tries the same laws on random inputs, without libFuzzer:
//! fuzz/tests/inputs.rs.

use std::path::Path;
use std::process::Command;

use super::Work;
use super::tools::{cargo, command, has_nightly, nightly, prints, target_folder, works};

/// Seconds for which each target runs.
const SECONDS: u32 = 60;

/// Turns on what the targets need of libFuzzer.
const FEATURE: &str = "--features=libfuzzer";

/// What installs cargo-fuzz, if it is missing: a release that this step is known to work with.
const CARGO_FUZZ: [&str; 5] = ["install", "cargo-fuzz", "--locked", "--version", "0.13.2"];

/// Builds all targets, and runs each with a fixed seed on its seeds and on what earlier runs found.
pub(crate) fn step(root: &Path) -> Work {
    if !has_nightly() {
        return Work::Skip("there is no nightly toolchain: rustup toolchain install nightly".into());
    }
    let Some(program) = cargo_fuzz(root) else {
        return Work::Skip(
            "cargo-fuzz is missing and cannot be installed: no access to the package registry".into(),
        );
    };
    let fuzz = |arguments: &[&str]| {
        let mut command = nightly(&[&[program.as_str()], arguments].concat());
        command.env("CARGO_TARGET_DIR", target_folder(root).join("fuzz"));
        // libFuzzer looks at each crate by itself.
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        command
    };
    let Some(targets) = prints(fuzz(&["list"]), root) else {
        return Work::Skip("cargo-fuzz cannot list the targets".into());
    };
    let runs = targets.split_whitespace().map(|target| run(root, &fuzz, target));
    Work::Commands(std::iter::once(fuzz(&["build", FEATURE])).chain(runs).collect())
}

/// The program: the installed one, or one of our own among what cargo builds.
fn cargo_fuzz(root: &Path) -> Option<String> {
    let folder = target_folder(root).join("tools");
    let own = folder.join("bin/cargo-fuzz").to_string_lossy().into_owned();
    let works_as = |program: &str| works(command(&[program, "--version"]));
    if works_as("cargo-fuzz") {
        return Some("cargo-fuzz".into());
    }
    if !works_as(&own) {
        println!("== fuzz: installing cargo-fuzz into {}", folder.display());
        let folder = folder.to_string_lossy();
        let mut install = cargo(&[&CARGO_FUZZ, ["--root", &folder].as_slice()].concat());
        install.env("CARGO_TARGET_DIR", target_folder(root).join("tools/build"));
        works(install);
    }
    works_as(&own).then_some(own)
}

/// What is found is kept in a corpus that git ignores, and is tried again the next time.
fn run(root: &Path, fuzz: &dyn Fn(&[&str]) -> Command, target: &str) -> Command {
    let corpus = format!("fuzz/corpus/{target}");
    let seeds = format!("fuzz/seeds/{target}");
    let seconds = format!("-max_total_time={SECONDS}");
    // A target that cannot write its corpus says so itself.
    let _ = std::fs::create_dir_all(root.join(&corpus));
    let mut arguments = vec!["run", FEATURE, target, corpus.as_str()];
    let has_seeds = root.join(&seeds).is_dir();
    arguments.extend(has_seeds.then_some(seeds.as_str()));
    arguments.extend(["--", "-seed=1", &seconds, "-timeout=10", "-len_control=0", "-verbosity=0"]);
    arguments.push("-print_final_stats=1");
    arguments.push("-dict=fuzz/dictionaries/memcache.dict");
    fuzz(&arguments)
}
