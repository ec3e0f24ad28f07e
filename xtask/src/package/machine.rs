//! The machine that packages are for: this one, or another that cargo compiles for here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ci::arm64::{self, Cross};
use crate::ci::tools::{cargo, target_folder};
use crate::workspace;

/// What names the machine on the command line. Steps have no arguments, so it is read from there.
const ARCH: &str = "--arch";

pub(crate) const GUIRA: &str = "guira";
pub(super) const LAB: &str = "guira-lab";

/// The programs, which are a package of Debian each.
const PROGRAMS: [&str; 2] = [GUIRA, LAB];

/// The folder in which cargo compiles programs that are shipped.
const SHIPPED: &str = "shipped";

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    cross: Option<Cross>,
}

/// The names of steps among the arguments: those before `--arch NAME`.
pub(crate) fn steps_of(arguments: &[String]) -> &[String] {
    let end = arguments.iter().position(|argument| argument == ARCH).unwrap_or(arguments.len());
    &arguments[..end]
}

/// Addresses that are relative to where the program is loaded take bits instead of 24 bytes each, a twentieth of the
/// program; the C library knows this form from 2.36 on. Functions of equal code become one, a twenty-fifth; no code compares
/// addresses of functions. Rust's own linker does both, and links programs for x86-64 only.
const SMALL: &str = "-C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all ";

impl Machine {
    pub(super) const HOST: Machine = Machine { cross: None };

    /// That of the command line.
    pub(crate) fn chosen(root: &Path) -> Result<Self, String> {
        let name = std::env::args().skip_while(|argument| argument != ARCH).nth(1);
        match name.as_deref() {
            None | Some("amd64") => Ok(Self::HOST),
            Some("arm64") => Ok(Machine { cross: Some(Cross::new(root)?) }),
            Some(other) => Err(format!("{ARCH} is amd64 or arm64, not {other}")),
        }
    }

    /// The programs that are packed for it: the laboratory for this machine only.
    pub(crate) fn programs(&self) -> &'static [&'static str] {
        if self.cross.is_some() { &[GUIRA] } else { &PROGRAMS }
    }

    /// As Rust names it.
    pub(super) fn target(&self) -> &'static str {
        if self.cross.is_some() { arm64::TARGET } else { workspace::TARGET }
    }

    /// In the names of files.
    pub(super) fn name(&self) -> &'static str {
        if self.cross.is_some() { "aarch64" } else { std::env::consts::ARCH }
    }

    /// As Debian and containers name it.
    pub(super) fn debian(&self) -> &'static str {
        if self.name() == "aarch64" { "arm64" } else { "amd64" }
    }

    /// A folder for files of this machine.
    pub(crate) fn folder(&self, name: &str) -> String {
        if self.cross.is_some() { format!("{name}-arm64") } else { name.to_owned() }
    }

    /// A program of binutils.
    pub(crate) fn tool(&self, name: &str) -> String {
        if self.cross.is_some() { format!("{}{name}", arm64::PREFIX) } else { name.to_owned() }
    }

    /// The words that look for the packages of libraries.
    pub(super) fn shlibdeps(&self) -> String {
        let cross =
            self.cross.is_some().then(|| (format!("DEB_HOST_ARCH={} ", self.debian()), arm64::LIBRARIES));
        cross.map_or("dpkg-shlibdeps -O".to_owned(), |(variable, libraries)| {
            format!("{variable}dpkg-shlibdeps -O -l{libraries}/lib")
        })
    }

    /// The compiler.
    pub(super) fn rustc(&self) -> String {
        let rustc = self.cross.as_ref().and_then(|cross| cross.rustc());
        rustc.map_or_else(|| "rustc".to_owned(), |rustc| rustc.to_string_lossy().into_owned())
    }

    /// The words that start a program of it.
    pub(super) fn start(&self, program: &Path) -> Vec<String> {
        let emulator = self.cross.iter().flat_map(Cross::emulator);
        emulator.chain([program.to_string_lossy().into_owned()]).collect()
    }

    /// Where cargo puts programs that are shipped. Both forms of `guira` have the same name there: each is copied from there.
    pub(crate) fn built(&self, root: &Path) -> PathBuf {
        let target = target_folder(root).join(SHIPPED);
        let target = if self.cross.is_some() { target.join(arm64::TARGET) } else { target };
        target.join("release")
    }

    /// Programs as they are shipped: with these flags no path of this machine is left in them. All of them are built in
    /// one folder, so that libraries are compiled once.
    pub(crate) fn shipped(&self, root: &Path, words: &[&str]) -> Command {
        let small = if self.cross.is_some() { "" } else { SMALL };
        let mut flags = format!("{small}--remap-path-prefix={}=guira", root.display());
        let home =
            std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
        if let Ok(home) = home {
            flags += &format!(" --remap-path-prefix={home}=cargo");
        }
        let mut build = cargo(words);
        build.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target_folder(root).join(SHIPPED));
        if let Some(cross) = &self.cross {
            cross.equip(&mut build);
        }
        build
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_no_step() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(steps_of(&words(&["deb", "--arch", "arm64"])), words(&["deb"]));
        assert_eq!(steps_of(&words(&["deb", "sums"])), words(&["deb", "sums"]));
    }
}
