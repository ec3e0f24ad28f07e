//! The test programs: compiled once, then jobs that run side by side.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::Work;
use super::pool::Job;
use super::tools::{cargo, command, everything, works};
use crate::workspace;

/// The tests that run with each engine.
const OF_ENGINES: [&str; 2] = [PROTOCOL, "extensions"];

/// What memcached does: its tests run against memcached itself as well.
const PROTOCOL: &str = "protocol";

/// The engines besides the default one, some with an access mode.
const ENGINES: [&str; 4] = ["classic", "fleec", "mica", "mica:erew"];

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
    work(built(root, everything()).map(with_engines))
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

/// The suites, and some of them once more for each engine and for memcached.
fn with_engines(mut suites: Vec<Suite>) -> Vec<Suite> {
    let mut more = Vec::new();
    for suite in suites.iter().filter(|suite| OF_ENGINES.contains(&suite.name.as_str())) {
        more.extend(ENGINES.map(|engine| suite.with(engine, "GUIRA_TEST_ENGINE")));
    }
    if works(command(&["memcached", "--version"])) {
        let protocol = suites.iter().filter(|suite| suite.name == PROTOCOL);
        more.extend(protocol.map(|suite| suite.with("memcached", "GUIRA_TEST_SERVER")));
    } else {
        println!("memcached is not installed, so the tests of the protocol are not run against it");
    }
    suites.extend(more);
    suites
}

impl Suite {
    fn with(&self, value: &'static str, variable: &'static str) -> Self {
        let name = format!("{}-{}", self.name, value.replace(':', "-"));
        Suite { name, variable: Some((variable, value)), ..self.clone() }
    }

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
    fn some_suites_run_with_each_engine() {
        let [program, folder] = ["/t/program-1", "/x/tests"].map(PathBuf::from);
        let suite = |name: &str| Suite {
            name: name.to_owned(),
            program: program.clone(),
            folder: folder.clone(),
            variable: None,
        };
        let found = with_engines(["protocol", "extensions", "server"].map(suite).to_vec());
        let names: Vec<&str> = found.iter().map(|suite| suite.name.as_str()).collect();
        for name in ["server", "protocol", "protocol-classic", "extensions-fleec", "extensions-mica-erew"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.contains(&"server-mica") && !names.contains(&"extensions-memcached"), "{names:?}");
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
