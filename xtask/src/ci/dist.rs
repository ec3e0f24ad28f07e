//! `cargo xtask dist`: the binary as it is shipped, and its debug information beside it.

use std::path::Path;

use super::tools::{command, target_folder};
use super::{Step, Work};
use crate::package::{SHIPPED, shipped};

/// Where the programs are put.
pub(crate) const FOLDER: &str = "dist";

/// Builds `target/dist/guira`, without debug information, and `target/dist/guira.debug`. A debugger or profiler that finds
/// both in one folder reads them together: the binary names the other file. `guira-lab` is there too.
pub(crate) fn step() -> Step {
    Step { name: "dist", work }
}

fn work(root: &Path) -> Work {
    let target = target_folder(root);
    let (built, dist) = (target.join(SHIPPED).join("release"), target.join(FOLDER));
    if let Err(error) = std::fs::create_dir_all(&dist) {
        return Work::Skip(format!("cannot create {}: {error}", dist.display()));
    }
    let path = |folder: &Path, name: &str| folder.join(name).to_string_lossy().into_owned();
    let (guira, lab) = (path(&built, "guira"), path(&built, "guira-lab"));
    let (stripped, debug) = (path(&dist, "guira"), path(&dist, "guira.debug"));
    Work::Commands(vec![
        shipped(root, &["build", "--release", "--locked", "--package", "guira", "--package", "guira-lab"]),
        command(&["objcopy", "--only-keep-debug", &guira, &debug]),
        command(&["strip", "--strip-debug", "-o", &stripped, &guira]),
        command(&["objcopy", &format!("--add-gnu-debuglink={debug}"), &stripped]),
        command(&["strip", "--strip-debug", "-o", &path(&dist, "guira-lab"), &lab]),
    ])
}
