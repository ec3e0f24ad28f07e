//! The Python package: its wheel is built, installed where nothing else of it is, and tested there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::clients::{PYMEMCACHE, python_with};
use super::tools::{command, target_folder, works};
use super::{Step, Work};

/// Its build backend, in a release that the step is known to work with.
const MATURIN: [&str; 1] = ["maturin==1.16.0"];
/// The oldest Python that the package is for, as `sys.version_info` has it.
const OLDEST: &str = "(3, 9)";

/// Builds the wheel with what the workspace was compiled with, and runs its tests in a Python that has nothing but them and pymemcache.
pub(super) fn step() -> Step {
    Step { name: "python", work: |root| tests(root).map_or_else(Work::Skip, Work::Commands) }
}

/// The wheel as it is released, in `target/package`.
pub(crate) fn wheel() -> Step {
    let work = |root: &Path| {
        let out = target_folder(root).join("package");
        build(root, "release", &out).map_or_else(Work::Skip, |build| Work::Commands(vec![build]))
    };
    Step { name: "wheel", work }
}

fn tests(root: &Path) -> Result<Vec<Command>, String> {
    let folder = target_folder(root).join("python/wheels");
    // One of another version would be what is installed.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let build = build(root, "dev", &folder)?;
    let python = python_with(root, "python/tests", &PYMEMCACHE)?;
    let wheels = folder.to_string_lossy();
    // What is there from before is replaced, although its version is the same.
    let install = command(&[
        &python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--force-reinstall",
        "--no-deps",
        "--no-index",
        "--find-links",
        &wheels,
        "guira",
    ]);
    let mut tests = command(&[&python, "-m", "pytest", "--quiet", "fleet/python/tests", "--guira"]);
    tests.arg(root.join(target_folder(root)).join("debug/guira")).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(vec![build, install, tests])
}

fn build(root: &Path, profile: &str, out: &Path) -> Result<Command, String> {
    let is_new_enough = format!("import sys; sys.exit(sys.version_info < {OLDEST})");
    if !works(command(&["python3", "-c", &is_new_enough])) {
        return Err(format!("there is no python3 of {OLDEST} or later"));
    }
    let python = python_with(root, "python/build", &MATURIN)?;
    let target: PathBuf = target_folder(root);
    let mut maturin = command(&[&python, "-m", "maturin", "build", "--quiet", "--profile", profile]);
    maturin.args(["--manifest-path", "fleet/python/Cargo.toml", "--target-dir"]).arg(target);
    maturin.arg("--out").arg(out);
    Ok(maturin)
}
