//! `cargo xtask dist`: the binary as it is shipped, and its debug information beside it.

use std::path::Path;

use super::tools::{cargo, command, target_folder};
use super::{Step, Work};

/// Builds `target/dist/guira`, without debug information, and `target/dist/guira.debug`. A debugger or profiler that finds
/// both in one folder reads them together: the binary names the other file.
pub(crate) fn step() -> Step {
    Step { name: "dist", work }
}

fn work(root: &Path) -> Work {
    let target = target_folder(root);
    let (built, dist) = (target.join("release/guira"), target.join("dist"));
    if let Err(error) = std::fs::create_dir_all(&dist) {
        return Work::Skip(format!("cannot create {}: {error}", dist.display()));
    }
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (built, shipped, debug) = (path(&built), path(&dist.join("guira")), path(&dist.join("guira.debug")));
    Work::Commands(vec![
        cargo(&["build", "--release", "--locked", "--package", "guira", "--package", "guira-lab"]),
        command(&["objcopy", "--only-keep-debug", &built, &debug]),
        command(&["strip", "--strip-debug", "-o", &shipped, &built]),
        command(&["objcopy", &format!("--add-gnu-debuglink={debug}"), &shipped]),
    ])
}
