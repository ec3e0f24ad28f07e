//! The Helm chart, and the manifest that comes of its defaults.
//!
//! Rendering takes helm's own library, which Go needs minutes to build, so it is done when the chart is changed (`cargo xtask chart`) and in
//! `make soak`. The manifest carries the digest of the chart that it was rendered from; continuous integration compares that.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::ci::tools::{command, installed, programs, target_folder, works};
use crate::ci::{Step, Work};
use crate::workspace;

const CHART: &str = "deploy/helm/guira";
const MANIFEST: &str = "deploy/kubernetes/guira.yaml";

/// `cargo xtask chart`: renders the chart, checks what comes of it, and writes the manifest.
pub(crate) fn write() -> Step {
    Step { name: "chart", work: |root| with_go(root, save) }
}

/// Renders and checks the chart, and compares what comes of it with the manifest.
pub(crate) fn rendered() -> Step {
    Step { name: "chart", work: |root| with_go(root, compare) }
}

/// Compares the digest in the manifest with that of the chart.
pub(crate) fn current() -> Step {
    let work = |root: &Path| {
        let root = root.to_owned();
        Work::Call(Box::new(move || is_current(manifest(&root)?.starts_with(&head(&root)?))))
    };
    Step { name: "chart", work }
}

fn save(root: &Path, text: &str) -> Result<(), String> {
    fs::write(root.join(MANIFEST), text).map_err(|error| format!("{MANIFEST}: {error}"))
}

fn compare(root: &Path, text: &str) -> Result<(), String> {
    is_current(manifest(root)? == text)
}

fn is_current(current: bool) -> Result<(), String> {
    if current {
        Ok(())
    } else {
        Err(format!("{MANIFEST} is not what {CHART} renders: run cargo xtask chart"))
    }
}

fn manifest(root: &Path) -> Result<String, String> {
    fs::read_to_string(root.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))
}

fn head(root: &Path) -> Result<String, String> {
    let line = format!("cd {CHART} && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum");
    let digest = workspace::output(root, "sh", &["-euc", &line])?;
    let digest = digest.split_whitespace().next().unwrap_or_default();
    Ok(format!(
        "# What the chart {CHART} renders with its defaults: written by `cargo xtask chart`.\n# The chart's digest: {digest}\n"
    ))
}

/// Builds the program that renders, and does this with what it prints.
fn with_go(root: &Path, then: fn(&Path, &str) -> Result<(), String>) -> Work {
    if !installed("go") {
        return Work::Skip("go is not installed, so the chart is not rendered".into());
    }
    let folder = root.join(target_folder(root)).join("tools/chart");
    if !works(go(root, &folder, &["mod", "download"])) {
        return Work::Skip("helm's library cannot be fetched: no access to the module proxy of Go".into());
    }
    let root = root.to_owned();
    Work::Call(Box::new(move || {
        let text = render(&root, &folder)?;
        then(&root, &(head(&root)? + &text))
    }))
}

fn render(root: &Path, folder: &Path) -> Result<String, String> {
    // What is rendered are command lines and configurations, which the binary is asked about.
    if !works(programs()) {
        return Err("the programs cannot be built: run `cargo build --bins`".into());
    }
    let path = |below: &Path| root.join(below).to_string_lossy().into_owned();
    let (chart, binary) = (path(Path::new(CHART)), path(&target_folder(root).join("debug/guira")));
    let output =
        go(root, folder, &["run", ".", &chart, &binary]).output().map_err(|error| format!("go: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn go(root: &Path, folder: &Path, words: &[&str]) -> Command {
    let mut go = command(&[&["go"], words].concat());
    go.current_dir(root.join("tests/chart"));
    // A module cache that can be deleted like everything else in the target folder.
    go.env("GOPATH", folder).env("GOFLAGS", "-mod=readonly -modcacherw").env("GOTOOLCHAIN", "local");
    go
}
