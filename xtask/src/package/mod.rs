//! `cargo xtask package`: what is installed elsewhere, written to `target/package`: a package for Debian, a tarball and an image with a static binary.
//!
//! All three are made of one list of files ([`files`]) by tools that a Debian system has: tar, gzip, dpkg-deb, sha256sum. Equal binaries give
//! equal packages: names are sorted, and times are that of the last commit, or what `SOURCE_DATE_EPOCH` says.

pub(crate) mod chart;
mod deb;
mod files;
mod image;
mod kit;
mod licenses;
mod linked;
pub(crate) mod machine;
pub(crate) mod reproducible;
mod sbom;
mod sums;
mod tarball;
mod tree;

use std::path::Path;
use std::process::Command;

use crate::ci::arm64::Cross;
use crate::ci::tools::{cargo, command, installed, target_folder, works};
use crate::ci::{Step, Work, dist};
use kit::Kit;
use machine::{GUIRA, Machine};

/// The folder of the static binary.
const STATIC: &str = "static";

/// A program that is used beside cargo, and the Debian package that has it.
type Tool = (&'static str, &'static str);

const STRIP: Tool = ("strip", "binutils");
const FOR_DEB: &[Tool] =
    &[STRIP, ("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("gzip", "gzip"), ("md5sum", "coreutils")];
const FOR_ARCHIVES: &[Tool] = &[STRIP, ("tar", "tar"), ("gzip", "gzip"), ("sha256sum", "coreutils")];

type Make = fn(&Kit) -> Result<(), String>;

/// The packages as they are released.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        dist::step(),
        Step { name: "static", work: static_step },
        Step { name: "pages", work: |root| released(root, &[], pages) },
        Step { name: "deb", work: |root| released(root, FOR_DEB, deb::make) },
        Step { name: "tarball", work: |root| released(root, FOR_ARCHIVES, tarball::make) },
        Step { name: "image", work: |root| released(root, FOR_ARCHIVES, image::make) },
        Step { name: "sums", work: |root| released(root, FOR_ARCHIVES, sums::make) },
    ]
}

/// What the Dockerfile copies into its image.
pub(crate) fn image_root() -> Vec<Step> {
    vec![
        Step { name: "static", work: static_step },
        Step { name: "root", work: |root| released(root, &[STRIP], image::fill) },
    ]
}

/// For continuous integration: all of it with the binary for tests, which is there already, in a folder of its own;
/// twice, to find what depends on the time or on the folder.
pub(crate) fn check() -> Step {
    let work = |root: &Path| with_tools(&[FOR_DEB, FOR_ARCHIVES].concat(), || Kit::checked(root), twice);
    Step { name: "package", work }
}

fn all(kit: &Kit) -> Result<(), String> {
    let makes: [Make; 5] = [pages, deb::make, tarball::make, image::make, sums::make];
    makes.iter().try_for_each(|make| make(kit))
}

/// Makes all packages in two folders of different names and permissions, and compares them byte by byte.
fn twice(kit: &Kit) -> Result<(), String> {
    // Packages of another version may be there.
    tree::empty(&kit.out)?;
    all(kit)?;
    let again = kit.elsewhere("again");
    all(&again)?;
    sums::compare(kit, &again)?;
    tree::remove(&again.out)
}

fn released(root: &Path, tools: &[Tool], make: Make) -> Work {
    with_tools(tools, || Kit::released(root, Machine::chosen(root)?), make)
}

fn with_tools(tools: &[Tool], kit: impl FnOnce() -> Result<Kit, String>, make: Make) -> Work {
    if let Some(reason) = missing(tools) {
        return Work::Skip(reason);
    }
    match kit() {
        Ok(kit) => Work::Call(Box::new(move || make(&kit))),
        Err(error) => Work::Call(Box::new(move || Err(error))),
    }
}

/// What is not installed, if anything is not.
fn missing(tools: &[Tool]) -> Option<String> {
    let (program, package) = tools.iter().find(|(program, _)| !installed(program))?;
    Some(format!("{program} is not installed, which the package {package} has"))
}

/// Man pages and completions, made of the command line by the binary itself.
fn pages(kit: &Kit) -> Result<(), String> {
    kit.machine.programs().iter().try_for_each(|program| {
        let share = kit.share(program);
        tree::empty(&share)?;
        kit.run(&kit.dynamic.join(program), &["man", "--all", &share.to_string_lossy()])
    })
}

fn static_step(root: &Path) -> Work {
    match Machine::chosen(root) {
        Ok(machine) => Work::Commands(static_build(&machine, root)),
        Err(reason) => Work::Skip(reason),
    }
}

/// Links the static binary. A panic ends the program, and without symbols no trace of the stack could name what led to
/// it: the tables for that, a tenth of the program, are discarded.
fn static_build(machine: &Machine, root: &Path) -> Vec<Command> {
    let copied = target_folder(root).join(machine.folder(STATIC));
    let [built, copied] =
        [machine.built(root), copied].map(|folder| folder.join(GUIRA).to_string_lossy().into_owned());
    vec![static_link(machine, root), command(&["install", "-D", "--mode=755", &built, &copied])]
}

/// The flags are a part of what cargo makes names of symbols from: they contain no path of this machine. The linker runs
/// in the root of the repository.
fn static_link(machine: &Machine, root: &Path) -> Command {
    let words = ["rustc", "--release", "--locked", "--package", GUIRA, "--bin", GUIRA, "--"];
    let discard = "link-arg=-Wl,-T,xtask/src/package/no-tables.ld";
    machine.shipped(root, &[&words[..], &["-C", "target-feature=+crt-static", "-C", discard]].concat())
}

/// The .deb is installed into a root of its own, started by its unit's command, and purged.
pub(crate) fn install() -> Step {
    Step { name: "install", work: |root| installing(root, "package-check", "overlay") }
}

/// The same with the packages as they are released: in the smallest Debian; and the tarball is unpacked, and the image run.
pub(crate) fn soak() -> Step {
    let work = |root: &Path| match missing(&[FOR_DEB, FOR_ARCHIVES].concat())
        .map_or_else(|| installing(root, "package", "debootstrap"), Work::Skip)
    {
        Work::Commands(installing) => {
            let mut commands = vec![cargo(&["xtask", "package"])];
            commands.extend(installing);
            commands.push(script_on(root, "tests/packages/tarball.sh", "package"));
            commands.push(script_on(root, "tests/packages/image.sh", "package"));
            Work::Commands(commands)
        }
        other => other,
    };
    Step { name: "packages", work }
}

/// The packages for arm64, unpacked and started by an emulator.
pub(crate) fn soak_arm64() -> Step {
    let work = |root: &Path| {
        let cross = match missing(&[FOR_DEB, FOR_ARCHIVES].concat()).map_or_else(|| Cross::new(root), Err) {
            Ok(cross) => cross,
            Err(reason) => return Work::Skip(reason),
        };
        let mut script = script_on(root, "tests/packages/arm64.sh", "package-arm64");
        script.args(cross.emulator());
        Work::Commands(vec![cargo(&["xtask", "package", "--arch", "arm64"]), script])
    };
    Step { name: "packages-arm64", work }
}

/// Namespaces, and a layer above this system in them.
const LAYER: &str = "mount -t tmpfs none /mnt && cd /mnt && mkdir upper work root \
    && mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root";

fn installing(root: &Path, folder: &str, kind: &str) -> Work {
    if let Some(missing) = ["ip", "systemd-sysusers"].iter().find(|tool| !installed(tool)) {
        return Work::Skip(format!("{missing} is not installed"));
    }
    if !works(command(&["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", LAYER])) {
        return Work::Skip(
            "no root of its own can be made here for the package: that takes root, and overlayfs".into(),
        );
    }
    let mut script = script_on(root, "tests/packages/deb.sh", folder);
    script.arg(kind);
    Work::Commands(vec![script])
}

fn script_on(root: &Path, script: &str, folder: &str) -> Command {
    let mut command = command(&["bash", script]);
    command.arg(root.join(target_folder(root)).join(folder));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_program_are_built_of_the_same_libraries() {
        let root = Path::new("/source");
        let machine = Machine::HOST;
        let both = [machine.shipped(root, &["build"]), static_build(&machine, root).remove(0)];
        let [one, other] = both.each_ref().map(|build| build.get_envs().collect::<Vec<_>>());
        assert_eq!(one, other);
    }

    #[test]
    fn a_tool_that_is_missing_is_named_with_its_package() {
        assert_eq!(missing(&[("sh", "dash"), ("cargo", "cargo")]), None);
        let reason = missing(&[("sh", "dash"), ("no-such-program", "no-such-package")]);
        let reason = reason.expect("it is not there");
        assert!(reason.contains("no-such-program") && reason.contains("no-such-package"), "{reason}");
    }
}
