//! What packages are made of, and where they go.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ci::tools::target_folder;
use crate::workspace;

use super::STATIC;
use super::machine::Machine;
use crate::ci::dist;

#[derive(Clone, Debug)]
pub(super) struct Kit {
    pub(super) root: PathBuf,
    /// The folder that they are written to.
    pub(super) out: PathBuf,
    /// The folder of the programs that use the C library of their system.
    pub(super) dynamic: PathBuf,
    /// The folder of the program that needs nothing.
    pub(super) standalone: PathBuf,
    pub(super) machine: Machine,
    pub(super) version: String,
    /// How hard is compressed, up to 9.
    pub(super) effort: u32,
    /// The time of all files, in seconds since 1970.
    pub(super) epoch: String,
    /// The same, if the environment gives it.
    pub(super) given_epoch: Option<String>,
}

impl Kit {
    /// With binaries as they are released.
    pub(super) fn released(root: &Path, machine: Machine) -> Result<Self, String> {
        let target = root.join(target_folder(root));
        let folders = [dist::FOLDER, STATIC].map(|folder| target.join(machine.folder(folder)));
        let out = target.join(machine.folder("package"));
        Self::of(root, machine, out, folders, 9)
    }

    /// With the programs for tests in place of both.
    pub(super) fn checked(root: &Path) -> Result<Self, String> {
        let target = root.join(target_folder(root));
        let programs = target.join("debug");
        Self::of(root, Machine::HOST, target.join("package-check"), [programs.clone(), programs], 1)
    }

    fn of(
        root: &Path,
        machine: Machine,
        out: PathBuf,
        folders: [PathBuf; 2],
        effort: u32,
    ) -> Result<Self, String> {
        let [dynamic, standalone] = folders;
        let text = std::fs::read_to_string(root.join("Cargo.toml")).map_err(|error| error.to_string())?;
        let manifest: toml::Table = text.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
        let version = manifest["workspace"]["package"]["version"].as_str().ok_or("no version")?.to_owned();
        let commit = || workspace::output(root, "git", &["log", "-1", "--format=%ct"]);
        // Without a repository, as in an image that is being built, any time will do.
        let given_epoch = std::env::var("SOURCE_DATE_EPOCH").ok().map(|epoch| epoch.trim().to_owned());
        let epoch = given_epoch.clone().unwrap_or_else(|| commit().unwrap_or_else(|_| "0".into()));
        let epoch = epoch.trim().to_owned();
        let root = root.to_owned();
        Ok(Self { root, out, dynamic, standalone, machine, version, effort, epoch, given_epoch })
    }

    /// The same with another folder to write to.
    pub(super) fn elsewhere(&self, suffix: &str) -> Self {
        let name = self.out.file_name().unwrap_or_default().to_string_lossy();
        Self { out: self.out.with_file_name(format!("{name}-{suffix}")), ..self.clone() }
    }

    /// Where the man pages and completions of a program lie.
    pub(super) fn share(&self, program: &str) -> PathBuf {
        self.out.join("share").join(program)
    }

    /// Runs a program of the machine in the root of the repository.
    pub(super) fn run(&self, program: &Path, arguments: &[&str]) -> Result<(), String> {
        let words = self.machine.start(program);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        workspace::output(&self.root, words[0], &words[1..]).map(drop)
    }

    /// Removes what a program need not have from those at these paths in a folder.
    pub(super) fn strip(&self, folder: &Path, programs: &str) -> Result<(), String> {
        self.shell(folder, &format!("{} --remove-section=.comment {programs}", self.machine.tool("strip")))
            .map(drop)
    }

    /// Runs a line of shell in a folder; gives what it prints.
    pub(super) fn shell(&self, folder: &Path, line: &str) -> Result<String, String> {
        let mut shell = Command::new("sh");
        shell.args(["-euc", line]).current_dir(folder);
        shell.env("LC_ALL", "C").env("TZ", "UTC").env("SOURCE_DATE_EPOCH", &self.epoch);
        let output = shell.output().map_err(|error| format!("cannot run a shell: {error}"))?;
        if !output.status.success() {
            return Err(format!("{line} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// The words of gzip by which equal files become equal archives.
    pub(super) fn gzip(&self) -> String {
        format!("gzip -{}n", self.effort)
    }

    /// The words of tar by which equal folders become equal archives.
    pub(super) fn tar(&self) -> String {
        format!("tar --sort=name --format=gnu --mtime=@{} --owner=0 --group=0 --numeric-owner", self.epoch)
    }
}
