//! Tells the programs which commit they are built from.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-env-changed=GUIRA_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A package may be built from an archive without history: who builds it can name the commit.
    let named = std::env::var("GUIRA_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(|| {
        // Every commit and checkout writes to this file.
        let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
        if Path::new(&log).exists() {
            println!("cargo::rerun-if-changed={log}");
        }
        git(&["rev-parse", "--short=10", "HEAD"])
    });
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = commit.map_or(version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=GUIRA_VERSION={version}");
}
