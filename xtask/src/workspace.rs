//! Where the repository is and what is in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// A package of the workspace, as far as the checks read it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for normal, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// A library, binary, test or bench of a package.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    /// Such as `lib`, `bin`, `test`.
    pub(crate) kind: Vec<String>,
    /// The file of its root module.
    pub(crate) src_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// The nearest folder upwards from the current one that has this crate in it.
pub(crate) fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|error| format!("no current directory: {error}"))?;
    let found = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    found.map(Path::to_owned).ok_or_else(|| format!("{} is not inside the repository", here.display()))
}

/// Runs a program in `root` and gives what it prints.
pub(crate) fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let what = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run {what}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{what} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The system that programs are shipped for.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Manifests of the workspaces in the repository.
pub(crate) const WORKSPACES: [&str; 2] = ["Cargo.toml", "papers/Cargo.toml"];

/// The packages of all workspaces, as `cargo metadata` lists them.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let mut packages = Vec::new();
    for manifest in WORKSPACES {
        let arguments = ["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest];
        let text = output(root, "cargo", &arguments)?;
        let metadata = serde_json::from_str::<Metadata>(&text)
            .map_err(|error| format!("cargo metadata of {manifest}: {error}"))?;
        packages.extend(metadata.packages);
    }
    Ok(packages)
}

/// The files that git tracks or would track, relative to `root`.
pub(crate) fn files(root: &Path) -> Result<Vec<String>, String> {
    let listed = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut files = listed.lines().map(str::to_owned).collect::<Vec<_>>();
    files.sort();
    files.dedup();
    // A file that is tracked but deleted in the working tree is still listed.
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}
