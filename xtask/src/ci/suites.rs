//! The test programs: compiled once, then jobs that run side by side.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::Work;
use super::pool::Job;
use super::tools::{cargo, command, everything, works};
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

/// A test program, and how it is run.
#[derive(Clone, Debug)]
struct Suite {
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it too.
    folder: PathBuf,
    variable: Option<(&'static str, &'static str)>,
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

/// Compiles all tests. Its jobs run them.
pub(crate) fn all(root: &Path) -> Work {
    work(built(root, everything()).map(with_protocol))
}

/// The unit tests of the crates in which files differ from the branch `main`, or are not in a commit.
pub(crate) fn changed(root: &Path) -> Work {
    let mut suites = built(root, cargo(&["test", "--no-run", "--lib", "--bins"]));
    if let Ok(suites) = &mut suites {
        let changed = changed_files(root);
        suites.retain(|suite| changed.iter().any(|file| root.join(file).starts_with(&suite.folder)));
    }
    work(suites)
}

fn work(suites: Result<Vec<Suite>, String>) -> Work {
    match suites {
        Ok(suites) => Work::Jobs(suites.into_iter().map(Suite::job).collect()),
        Err(error) => Work::Call(Box::new(|| Err(error))),
    }
}

/// The files that differ from `main`, and those without a commit.
fn changed_files(root: &Path) -> Vec<String> {
    let lines = |arguments: &[&str]| workspace::output(root, "git", arguments).unwrap_or_default();
    let text =
        lines(&["diff", "--name-only", "main"]) + &lines(&["ls-files", "--others", "--exclude-standard"]);
    text.lines().map(str::to_owned).collect()
}

fn built(root: &Path, mut build: Command) -> Result<Vec<Suite>, String> {
    build.arg("--message-format=json-render-diagnostics");
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

impl Suite {
    /// Named with its package, since two packages may have a test of the same name.
    fn job(self) -> Job {
        let package = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let mut program = Command::new(&self.program);
        program.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).envs(self.variable);
        Job::new(format!("{package}-{}", self.name), vec![program])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_tested_once_more_with_each_engine() {
        let [program, folder] = ["/t/protocol-1", "/x/tests"].map(PathBuf::from);
        let protocol = Suite { name: "protocol".to_owned(), program, folder, variable: None };
        let found = with_protocol(vec![protocol]);
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
