//! Compiles the programs twice, in folders of different names, and compares them byte by byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::machine::{GUIRA, LAB, Machine};
use super::{FOR_ARCHIVES, missing, static_link, sums, tree};
use crate::ci::tools::target_folder;
use crate::ci::{Step, Work};
use crate::workspace;

/// Names of different lengths: a path in a program would move what follows it.
const FOLDERS: [&str; 2] = ["one", "the-other-folder"];

pub(crate) fn step() -> Step {
    let work = |root: &Path| match missing(FOR_ARCHIVES) {
        Some(reason) => Work::Skip(reason),
        None => {
            let root = root.to_owned();
            Work::Call(Box::new(move || check(&root)))
        }
    };
    Step { name: "reproducible", work }
}

fn check(root: &Path) -> Result<(), String> {
    let commit = workspace::output(root, "git", &["rev-parse", "--short=10", "HEAD"])?;
    let place = target_folder(root).join("reproducible");
    let [one, other] = FOLDERS.map(|name| build(root, &place.join(name), commit.trim()));
    let different = sums::differences(&one?, &other?);
    if different.is_empty() {
        return tree::remove(&place);
    }
    let different = different.join(", ");
    Err(format!("two builds of {commit} differ in {different}: compare them below {}", place.display()))
}

/// Compiles the last commit in a folder of its own. Returns the sums of the programs as packages have them.
fn build(root: &Path, folder: &Path, commit: &str) -> Result<String, String> {
    let (source, out) = (folder.join("source"), folder.join("programs"));
    tree::empty(&source)?;
    tree::empty(&out)?;
    let archive = format!("git archive HEAD | tar -x -C '{}'", source.display());
    run(Command::new("sh").args(["-euc", &archive]).current_dir(root))?;
    let target = folder.join("target");
    let all = ["build", "--release", "--locked", "--package", GUIRA, "--package", LAB];
    let machine = Machine::HOST;
    let programs =
        [(machine.shipped(&source, &all), &[GUIRA, LAB][..]), (static_link(&machine, &source), &[GUIRA])];
    for (number, (mut build, names)) in programs.into_iter().enumerate() {
        build.current_dir(&source).env("CARGO_TARGET_DIR", &target).env("GUIRA_COMMIT", commit);
        run(&mut build)?;
        for name in names {
            let copy = out.join(format!("{name}-{number}"));
            let built = target.join("release").join(name);
            fs::copy(&built, &copy).map_err(|error| format!("{}: {error}", built.display()))?;
        }
    }
    let sums = "strip --remove-section=.comment * && sha256sum *";
    workspace::output(&out, "sh", &["-euc", sums])
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}
