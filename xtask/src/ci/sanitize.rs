//! `make sanitize`: the tests of the crates with `unsafe` under the address and the thread sanitizer, and those of the lowest ones in Miri.

use std::path::Path;
use std::process::Command;

use super::tools::{has_nightly, nightly_cargo, packages_with, target_folder, works};
use super::{Step, Work};

/// Crates with `unsafe`, with their folders.
const UNSAFE: &[(&str, &str)] = &[
    ("guira-sync", "base/sync/"),
    ("guira-memory", "base/memory/"),
    ("guira-transport", "base/transport/"),
    ("guira-slab", "engines/slab/"),
    ("guira-fleec", "engines/fleec/"),
    ("guira-mica", "engines/mica/"),
];

/// Crates whose tests Miri interprets, and arguments that leave out some of these tests: Miri is a thousand times
/// slower than a processor, and knows no mappings and few system calls.
const INTERPRETED: &[(&str, &[&str])] =
    &[("guira-sync", &["--skip", "at_every_alignment"]), ("guira-memory", &["region::", "budget::"])];

const MACHINE: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "miri", work: miri },
        Step { name: "address", work: address },
        Step { name: "thread", work: thread },
    ]
}

/// Miri interprets the tests of [`INTERPRETED`], and reports undefined behaviour. A Region has memory of the allocator there.
fn miri(root: &Path) -> Work {
    if !has_nightly() || !works(nightly_cargo(&["miri", "--version"])) {
        return Work::Skip("Miri is missing: rustup component add miri rust-src --toolchain nightly".into());
    }
    let interpret = |(name, tests): &(&str, &[&str])| {
        let arguments = ["miri", "test", "--lib", "-p", name, "--"].into_iter().chain(tests.iter().copied());
        let mut command = nightly_cargo(&arguments.collect::<Vec<_>>());
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command.env("CARGO_TARGET_DIR", target_folder(root).join("miri"));
        command
    };
    Work::Commands(INTERPRETED.iter().map(interpret).collect())
}

fn address(root: &Path) -> Work {
    sanitized(root, "address", &[])
}

/// The thread sanitizer must see the standard library as well, or it takes its locks for races.
fn thread(root: &Path) -> Work {
    let mut sources = Command::new("rustup");
    sources.args([
        "run",
        "nightly",
        "sh",
        "-c",
        "test -d \"$(rustc --print sysroot)/lib/rustlib/src/rust/library\"",
    ]);
    sources.env_remove("RUSTUP_TOOLCHAIN");
    if !works(sources) {
        return Work::Skip("rust-src is missing: rustup component add rust-src --toolchain nightly".into());
    }
    sanitized(root, "thread", &["-Zbuild-std"])
}

fn sanitized(root: &Path, sanitizer: &str, further: &[&str]) -> Work {
    if !has_nightly() {
        return Work::Skip("there is no nightly toolchain: rustup toolchain install nightly".into());
    }
    let packages = packages_with(root, "unsafe", UNSAFE);
    let names = packages.iter().flat_map(|name| ["-p", name]);
    let arguments =
        ["test", "--tests", "--target", MACHINE].into_iter().chain(further.iter().copied()).chain(names);
    let mut tests = nightly_cargo(&arguments.collect::<Vec<_>>());
    let thread_cfg = if sanitizer == "thread" { " --cfg guira_tsan" } else { "" };
    tests.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}{thread_cfg}"));
    tests.env("CARGO_TARGET_DIR", target_folder(root).join(format!("sanitize-{sanitizer}")));
    Work::Commands(vec![tests])
}
