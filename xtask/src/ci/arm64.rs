//! Guira for arm64: compiled on x86-64, and run by an emulator of the processor.
//!
//! The emulator shows whether the code is right for arm64: the portable half of `words`, the calls of the system, the C
//! code. It does not show a missing barrier: its memory accesses become visible in the order of this machine's processor.
//! docs/develop/concurrency.md has the argument in place of that test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, PackageSet};
use super::tools::{cargo, command, installed, prints, target_folder, works};
use super::{Step, Work};

pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

/// A Rust that compiles for arm64, for toolchains without its standard library, and the emulator.
const TOOLS: PackageSet = PackageSet {
    name: "Rust for arm64",
    folder: "arm64",
    architectures: &["amd64", "arm64"],
    whole: &["libstd-rust-dev"],
    alone: &["rustc", "libstd-rust-dev:arm64", "qemu-user"],
};

/// What the names of the programs of the cross compiler begin with, and where its C library is.
pub(crate) const PREFIX: &str = "aarch64-linux-gnu-";
pub(crate) const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Crates whose unit tests are run: memory, racy words, numbers of system calls, items, and all engines.
const BASE: &[&str] = &["guira-sync", "guira-memory", "guira-sandbox", "guira-items", "guira-protocol"];
const ENGINES: &[&str] = &["guira-slab", "guira-fleec", "guira-mica"];

/// The profile of the server that the tests of the protocol are run against.
const PROFILE: &str = "quick";

/// Tests of the protocol that an emulated server cannot pass, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("a_running_cache_shrinks_to_eight_megabytes", "the memory of the emulator counts as that of the server"),
    ("memory_grows_and_is_given_back", "the memory of the emulator counts as that of the server"),
];

/// Compiles for arm64, and runs what was compiled.
#[derive(Clone, Debug)]
pub(crate) struct Cross {
    root: PathBuf,
    tools: PathBuf,
    /// The compiler, if it is not that of this toolchain.
    rustc: Option<PathBuf>,
}

impl Cross {
    /// Fetches what is missing. An error says what cannot be had.
    pub(crate) fn new(root: &Path) -> Result<Self, String> {
        if !installed(&format!("{PREFIX}gcc")) || !Path::new(LIBRARIES).join("lib/libc.so").exists() {
            return Err(format!(
                "{PREFIX}gcc or its C library (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross) is not installed"
            ));
        }
        let tools = TOOLS.fetch(root, runs)?;
        let own = command(&["rustc", "--print", "target-libdir", "--target", TARGET]);
        let has_own = prints(own, root).is_some_and(|folder| Path::new(folder.trim()).is_dir());
        let rustc = if has_own { None } else { Some(write_rustc(&tools)?) };
        Ok(Cross { root: root.to_owned(), tools, rustc })
    }

    /// The folder of what is built.
    fn target(&self) -> PathBuf {
        self.root.join(target_folder(&self.root)).join("arm64")
    }

    /// A cargo that builds for arm64.
    pub(crate) fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = cargo(words);
        self.equip(&mut cargo);
        cargo.env("CARGO_TARGET_DIR", self.target());
        cargo
    }

    /// Has a command of cargo build for arm64.
    pub(crate) fn equip(&self, cargo: &mut Command) {
        cargo.env("CARGO_BUILD_TARGET", TARGET);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", format!("{PREFIX}gcc"));
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", self.emulator().join(" "));
        if let Some(rustc) = &self.rustc {
            cargo.env("RUSTC", rustc);
        }
    }

    /// The compiler, if it is not that of this toolchain.
    pub(crate) fn rustc(&self) -> Option<&Path> {
        self.rustc.as_deref()
    }

    /// The words in front of a program for arm64.
    pub(crate) fn emulator(&self) -> [String; 3] {
        let emulator = self.tools.join(EMULATOR).to_string_lossy().into_owned();
        [emulator, "-L".to_owned(), LIBRARIES.to_owned()]
    }

    /// A script that is the program of this name to those that start it.
    fn emulated(&self, program: &Path) -> Result<PathBuf, String> {
        let script = self.target().join("guira");
        let words = self.emulator().join(" ");
        write_script(&script, &format!("exec {words} {} \"$@\"", program.display()))?;
        Ok(script)
    }
}

const EMULATOR: &str = "usr/bin/qemu-aarch64";
const RUSTC: &str = "usr/bin/rustc";

/// Whether everything is there that was to be fetched.
fn runs(tools: &Path) -> bool {
    let emulator = tools.join(EMULATOR);
    tools.join("usr/lib/rustlib").join(TARGET).is_dir()
        && works(command(&[&emulator.to_string_lossy(), "--version"]))
        && works(debian::program(tools, RUSTC, &["--version"]))
}

/// The fetched compiler as one file: it runs with the libraries it was built for, and finds the standard libraries beside it.
fn write_rustc(tools: &Path) -> Result<PathBuf, String> {
    let script = tools.join("rustc");
    let words = debian::loaded(tools, RUSTC).join(" ");
    write_script(&script, &format!("exec {words} --sysroot {} \"$@\"", tools.join("usr").display()))?;
    Ok(script)
}

fn write_script(path: &Path, line: &str) -> Result<(), String> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(path, format!("#!/bin/sh\n{line}\n")))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// `make arm64`: the unit tests of base and engines, and the tests of the protocol against the server.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "base", work: |root| with_cross(root, |cross| Ok(vec![cross.unit_tests(BASE)])) },
        Step { name: "engines", work: |root| with_cross(root, |cross| Ok(vec![cross.unit_tests(ENGINES)])) },
        Step { name: "protocol", work: |root| with_cross(root, Cross::protocol) },
    ]
}

/// The same as one step.
pub(crate) fn soak(root: &Path) -> Work {
    with_cross(root, |cross| {
        let units = vec![cross.unit_tests(BASE), cross.unit_tests(ENGINES)];
        Ok(units.into_iter().chain(cross.protocol()?).collect())
    })
}

fn with_cross(root: &Path, commands: impl FnOnce(&Cross) -> Result<Vec<Command>, String>) -> Work {
    match Cross::new(root) {
        Ok(cross) => match commands(&cross) {
            Ok(commands) => Work::Commands(commands),
            Err(error) => Work::Call(Box::new(|| Err(error))),
        },
        Err(reason) => Work::Skip(reason),
    }
}

impl Cross {
    /// Compiles and runs the unit tests of these crates.
    fn unit_tests(&self, crates: &[&str]) -> Command {
        let packages = crates.iter().flat_map(|name| ["--package", name]);
        let words: Vec<&str> = ["test", "--locked", "--lib"].into_iter().chain(packages).collect();
        self.cargo(&words)
    }

    /// Builds the server as `make serve` does, and runs the tests of the protocol against it, which are programs of this machine.
    fn protocol(&self) -> Result<Vec<Command>, String> {
        let build =
            ["build", "--locked", "--profile", PROFILE, "--package", "guira", "--no-default-features"];
        let mut tests = cargo(&["test", "--test", "protocol", "--"]);
        for (name, _reason) in LEFT_OUT {
            tests.args(["--skip", name]);
        }
        let server = self.target().join(TARGET).join(PROFILE).join("guira");
        tests.env("GUIRA_BIN", self.emulated(&server)?);
        Ok(vec![self.cargo(&build), tests])
    }
}
