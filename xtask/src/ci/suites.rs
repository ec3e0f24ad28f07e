//! The tests: compiled once, then run side by side. Most test programs wait more than they compute, so a few of them at
//! once take less time than one after the other, as cargo runs them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use super::tools::{cargo, command, target_folder, works};
use crate::workspace;

/// What the protocol tests run on besides the default engine: the name of the run, and the variable that says so.
const PROTOCOL: &[(&str, &str, &str)] = &[
    ("classic", "GUIRA_TEST_ENGINE", "classic"),
    ("fleec", "GUIRA_TEST_ENGINE", "fleec"),
    ("mica", "GUIRA_TEST_ENGINE", "mica"),
    ("mica-erew", "GUIRA_TEST_ENGINE", "mica:erew"),
    // The protocol tests describe memcached, so they must hold for memcached itself.
    (PEER, "GUIRA_TEST_SERVER", "memcached"),
];
const PEER: &str = "peer";

/// The programs that take longest begin first, so that none of them runs alone at the end.
const LONGEST: &[&str] =
    &["guira_slab", "fleet", "router", "protocol", "refusals", "client", "invalidator", "pools"];

/// Programs at once for each processor.
const AT_ONCE: usize = 2;

/// How long a test program may run: several times what the longest needs. A test that hangs fails with its name in the
/// log, and the other programs still report.
const LIMIT: Duration = Duration::from_secs(1800);

/// A test program, and how it is run.
#[derive(Clone, Debug)]
struct Suite {
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it too.
    folder: PathBuf,
    variable: Option<(&'static str, &'static str)>,
}

/// How a program ended.
struct Ended {
    name: String,
    took: Duration,
    is_right: bool,
    log: PathBuf,
}

/// A line of what cargo prints about what it has built.
#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Compiles all tests and runs them.
///
/// # Errors
/// The names of the programs that failed, with the last lines that they printed.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    start(root, with_protocol(built(root, &[])?))
}

/// Runs the unit tests of the crates in which files differ from the branch `main`, or are not in a commit.
///
/// # Errors
/// As of [`run`].
pub(crate) fn run_changed(root: &Path) -> Result<(), String> {
    let changed = changed(root);
    let mut suites = built(root, &["--lib", "--bins"])?;
    suites.retain(|suite| changed.iter().any(|file| root.join(file).starts_with(&suite.folder)));
    start(root, suites)
}

/// The files that differ from `main`, and those without a commit.
fn changed(root: &Path) -> Vec<String> {
    let lines = |arguments: &[&str]| workspace::output(root, "git", arguments).unwrap_or_default();
    let text =
        lines(&["diff", "--name-only", "main"]) + &lines(&["ls-files", "--others", "--exclude-standard"]);
    text.lines().map(str::to_owned).collect()
}

fn start(root: &Path, mut suites: Vec<Suite>) -> Result<(), String> {
    suites
        .sort_by_key(|suite| LONGEST.iter().position(|name| suite.name.contains(name)).unwrap_or(usize::MAX));
    let logs = target_folder(root).join("test-logs");
    std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let ended = side_by_side(suites, &logs)?;
    report(ended)
}

fn built(root: &Path, which: &[&str]) -> Result<Vec<Suite>, String> {
    let words = ["test", "--no-run", "--message-format=json-render-diagnostics"];
    let mut build = cargo(&[&words[..], which].concat());
    let output = build.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let artifacts = text.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    Ok(artifacts.filter_map(suite).collect())
}

fn suite(artifact: Artifact) -> Option<Suite> {
    let program = artifact.executable.filter(|_| artifact.profile.is_some_and(|profile| profile.test))?;
    let folder = artifact.manifest_path.parent()?.to_owned();
    Some(Suite { name: artifact.target?.name, program, folder, variable: None })
}

/// The suites, and that of the protocol once more for each engine and for memcached.
fn with_protocol(mut suites: Vec<Suite>) -> Vec<Suite> {
    let Some(protocol) = suites.iter().find(|suite| suite.name == "protocol").cloned() else { return suites };
    let has_peer = works(command(&["memcached", "--version"]));
    if !has_peer {
        println!("peer: skipped: memcached is not installed, so the tests are not run against it");
    }
    let more = PROTOCOL.iter().filter(|(name, ..)| has_peer || *name != PEER);
    suites.extend(more.map(|(name, variable, value)| Suite {
        name: format!("protocol-{name}"),
        variable: Some((variable, value)),
        ..protocol.clone()
    }));
    suites
}

fn side_by_side(suites: Vec<Suite>, logs: &Path) -> Result<Vec<Ended>, String> {
    let at_once = AT_ONCE * std::thread::available_parallelism().map_or(1, usize::from);
    let (waiting, ended) = (Mutex::new(VecDeque::from(suites)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> io::Result<()> {
        while let Some(suite) = next() {
            let one = suite.run(logs)?;
            let how = if one.is_right { "ok" } else { "FAILED" };
            println!("{:5.0} s {how:6} {}", one.took.as_secs_f32(), one.name);
            ended.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().map_err(|_| "a thread has panicked".to_owned())?.map_err(|error| error.to_string())
        };
        threads.into_iter().try_for_each(join)
    })?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Suite {
    fn run(&self, logs: &Path) -> io::Result<Ended> {
        let log = logs.join(format!("{}.log", self.file()));
        let mut out = File::create(&log)?;
        let begin = super::now();
        let mut program = Command::new("timeout");
        // In the foreground, so that an interrupt from the terminal reaches the program and its servers.
        program.args(["--foreground", "--kill-after=10"]).arg(LIMIT.as_secs().to_string()).arg(&self.program);
        program.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).envs(self.variable);
        program.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out.try_clone()?);
        let status = program.status()?;
        let took = begin.elapsed();
        if !status.success() && took >= LIMIT {
            writeln!(out, "{} did not end within {LIMIT:?}", self.program.display())?;
        } else if !status.success() {
            writeln!(out, "{} ended with {status}", self.program.display())?;
        }
        Ok(Ended { name: self.name.clone(), took, is_right: status.success(), log })
    }

    /// Two packages may have a test of the same name.
    fn file(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{package}-{}", self.name)
    }
}

/// Prints what failed, whole, and how long the longest took.
fn report(mut ended: Vec<Ended>) -> Result<(), String> {
    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    let longest = ended.iter().take(10).map(|one| format!("{} {:.0} s", one.name, one.took.as_secs_f32()));
    println!("the longest: {}", longest.collect::<Vec<_>>().join(", "));
    let mut failed = Vec::new();
    for one in ended.iter().filter(|one| !one.is_right) {
        let text = std::fs::read_to_string(&one.log).unwrap_or_default();
        println!("==== {}\n{text}", one.name);
        failed.push(format!("{}:\n{}", one.name, failures(&text)));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The part of a program's output that is about what failed.
fn failures(text: &str) -> String {
    let begin = text.find("\nfailures:\n").unwrap_or(text.len().saturating_sub(4_000));
    text.get(begin..).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(name: &str, script: &str) -> Suite {
        let folder = std::env::temp_dir().join(format!("guira-suites-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        Suite { name: name.to_owned(), program, folder, variable: Some(("WORD", "red")) }
    }

    #[test]
    fn programs_run_in_their_folders_and_what_failed_is_named_with_its_output() {
        let suites = vec![
            suite("good", "echo $WORD > word"),
            suite("bad", "echo long; echo; echo failures:; echo why; exit 3"),
        ];
        let folders: Vec<PathBuf> = suites.iter().map(|suite| suite.folder.clone()).collect();
        let ended = side_by_side(suites, &folders[1]).unwrap();
        assert_eq!(std::fs::read_to_string(folders[0].join("word")).unwrap(), "red\n");
        let error = report(ended).unwrap_err();
        assert!(error.starts_with("bad:") && error.contains("why") && !error.contains("long"), "{error}");
        folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }

    #[test]
    fn the_protocol_is_tested_once_more_with_each_engine() {
        let found = with_protocol(vec![suite("protocol", "true")]);
        let names: Vec<&str> = found.iter().map(|suite| suite.name.as_str()).collect();
        for name in ["protocol", "protocol-classic", "protocol-fleec", "protocol-mica", "protocol-mica-erew"]
        {
            assert!(names.contains(&name), "{names:?}");
        }
    }

    #[test]
    fn a_test_program_is_found_in_what_cargo_prints() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/x/tests/Cargo.toml",
            "target":{"name":"protocol"},"profile":{"test":true},"executable":"/t/protocol-1"}"#;
        let found = super::suite(serde_json::from_str(line).unwrap()).unwrap();
        assert_eq!((found.name.as_str(), found.folder.as_path()), ("protocol", Path::new("/x/tests")));
        let library = line.replace("true", "false");
        assert!(super::suite(serde_json::from_str(&library).unwrap()).is_none());
    }
}
