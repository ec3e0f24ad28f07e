//! What is installed here, and commands made of it.

use std::path::Path;
use std::process::{Command, Stdio};

/// A command from its words. It does not inherit the variables that `cargo run` sets for xtask: ring's build script
/// runs again when one of them changes, so two builds, one with them and one without, would each compile ring and all
/// that depends on it.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// A cargo of the toolchain of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(&[&["cargo"], arguments].concat())
}

/// Builds all programs as the tests use them. With a test among the targets, cargo gives dependencies the features that
/// it gives them for `cargo test`, so that nothing is compiled twice.
pub(crate) fn programs() -> Command {
    cargo(&["build", "--bins", "--test", "cli"])
}

/// Builds all programs and all test programs.
pub(crate) fn everything() -> Command {
    cargo(&["build", "--bins", "--tests"])
}

/// A program with the nightly toolchain. The variables that rustup sets for the toolchain of this process would
/// win over the name, so they are taken away.
pub(crate) fn nightly(words: &[&str]) -> Command {
    let mut command = command(&[&["rustup", "run", "nightly"], words].concat());
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}

/// A cargo of the nightly toolchain.
pub(crate) fn nightly_cargo(arguments: &[&str]) -> Command {
    nightly(&[&["cargo"], arguments].concat())
}

/// Whether a program runs and succeeds.
pub(crate) fn works(mut command: Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Whether there is a program of this name.
pub(crate) fn installed(program: &str) -> bool {
    works(command(&["sh", "-c", &format!("command -v {program}")]))
}

/// What a program prints when it succeeds.
pub(crate) fn prints(mut command: Command, folder: &Path) -> Option<String> {
    let output = command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether there is a nightly toolchain.
pub(crate) fn has_nightly() -> bool {
    works(nightly_cargo(&["--version"]))
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into)
}

/// The names of those packages among `candidates` that contain `text` in one of their Rust files.
pub(crate) fn packages_with<'a>(root: &Path, text: &str, candidates: &[(&'a str, &str)]) -> Vec<&'a str> {
    let files = crate::workspace::files(root).unwrap_or_default();
    let mentions = |folder: &str| {
        let files = files.iter().filter(|file| file.starts_with(folder) && file.ends_with(".rs"));
        files
            .into_iter()
            .any(|file| std::fs::read_to_string(root.join(file)).is_ok_and(|code| code.contains(text)))
    };
    candidates.iter().filter(|(_, folder)| mentions(folder)).map(|(name, _)| *name).collect()
}

/// A command as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy().into_owned();
        let value = if value.contains(' ') { format!("'{value}'") } else { value };
        Some(format!("{}={value}", name.to_string_lossy()))
    });
    let program = std::iter::once(command.get_program().to_string_lossy().into_owned());
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    variables.chain(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_described_with_their_variables() {
        let mut command = cargo(&["test", "--release"]);
        command.env("RUSTFLAGS", "--cfg guira_loom").env_remove("CARGO");
        assert_eq!(describe(&command), "RUSTFLAGS='--cfg guira_loom' cargo test --release");
    }

    #[test]
    fn programs_are_looked_for() {
        assert!(works(command(&["true"])));
        assert!(!works(command(&["false"])));
        assert!(!works(command(&["no-such-program-anywhere"])));
        assert!(installed("sh") && !installed("no-such-program-anywhere"));
    }
}
