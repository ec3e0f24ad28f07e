//! The Python package: its wheel is built, installed where nothing else of it is, and tested there.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::clients::{PYMEMCACHE, python_with};
use super::tools::{command, target_folder, works};
use super::{Step, Unable, Work};

/// Its build backend, in a release that the step is known to work with.
const MATURIN: [&str; 1] = ["maturin==1.16.0"];
/// What checks the types of the package: the last release that knows the oldest Python.
const MYPY: &str = "mypy==1.18.2";
/// The oldest Python that the package is for, as `sys.version_info` has it.
const OLDEST: &str = "(3, 9)";

/// Builds the wheel with what the workspace was compiled with, and runs its tests in a Python that has nothing but pymemcache and what they need.
pub(super) fn step() -> Step {
    Step { name: "python", work: |root| tests(root).map_or_else(Work::Skip, Work::Commands) }
}

/// Builds the wheel as it is released, in `target/package`, and prints its path.
pub(crate) fn wheel(root: &Path) -> ExitCode {
    let work = |root: &Path| {
        build(root, "release", &packages(root)).map_or_else(Work::Skip, |build| Work::Commands(vec![build]))
    };
    let code = super::run(root, vec![Step { name: "wheel", work }], &[], Unable::Fails);
    if code == ExitCode::SUCCESS
        && let Some(wheel) = newest_wheel(&packages(root))
    {
        println!("the wheel is {0}; install it with: pip install {0}", wheel.display());
    }
    code
}

fn packages(root: &Path) -> PathBuf {
    root.join(target_folder(root)).join("package")
}

/// The folder may have wheels of earlier versions.
fn newest_wheel(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let wheels = files.map(|file| file.path()).filter(is_wheel);
    wheels.max_by_key(|path| path.metadata().and_then(|facts| facts.modified()).ok())
}

fn tests(root: &Path) -> Result<Vec<Command>, String> {
    let folder = target_folder(root).join("python/wheels");
    // One of another version would be what is installed.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let build = build(root, "dev", &folder)?;
    let python = python_with(root, "python/tests", &[&PYMEMCACHE[..], &[MYPY]].concat())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_newest_wheel_is_found_among_other_files() {
        let folder = std::env::temp_dir().join(format!("guira-wheels-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(newest_wheel(&folder), None);
        for (name, age) in [("guira-0.2.whl", 0), ("guira-0.9.whl", 60), ("guira-0.2.deb", 0)] {
            let file = File::create(folder.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(100 - age)).unwrap();
        }
        assert_eq!(newest_wheel(&folder), Some(folder.join("guira-0.2.whl")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
