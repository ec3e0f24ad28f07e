//! `cargo xtask dist`: the binary as it is shipped, and its debug information beside it.

use std::path::Path;

use super::tools::{command, target_folder};
use super::{Step, Work};
use crate::package::machine::{GUIRA, Machine};

/// Where the programs are put.
pub(crate) const FOLDER: &str = "dist";

/// Builds `target/dist/guira`, without debug information, and `target/dist/guira.debug`. A debugger or profiler that finds
/// both in one folder reads them together: the binary names the other file. `guira-lab` is there too.
pub(crate) fn step() -> Step {
    Step { name: "dist", work }
}

fn work(root: &Path) -> Work {
    let machine = match Machine::chosen(root) {
        Ok(machine) => machine,
        Err(reason) => return Work::Skip(reason),
    };
    let (built, dist) = (machine.built(root), target_folder(root).join(machine.folder(FOLDER)));
    if let Err(error) = std::fs::create_dir_all(&dist) {
        return Work::Skip(format!("cannot create {}: {error}", dist.display()));
    }
    let path = |folder: &Path, name: &str| folder.join(name).to_string_lossy().into_owned();
    let guira = path(&built, GUIRA);
    let (stripped, debug) = (path(&dist, GUIRA), path(&dist, "guira.debug"));
    let [strip, objcopy] = ["strip", "objcopy"].map(|tool| machine.tool(tool));
    let packages = machine.programs().iter().flat_map(|name| ["--package", name]);
    let words: Vec<&str> = ["build", "--release", "--locked"].into_iter().chain(packages).collect();
    let mut commands = vec![
        machine.shipped(root, &words),
        command(&[&objcopy, "--only-keep-debug", &guira, &debug]),
        command(&[&strip, "--strip-debug", "-o", &stripped, &guira]),
        command(&[&objcopy, &format!("--add-gnu-debuglink={debug}"), &stripped]),
    ];
    let others = machine.programs().iter().filter(|name| **name != GUIRA);
    commands.extend(
        others.map(|name| command(&[&strip, "--strip-debug", "-o", &path(&dist, name), &path(&built, name)])),
    );
    Work::Commands(commands)
}
