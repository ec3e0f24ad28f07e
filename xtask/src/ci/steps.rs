//! The steps of `make test`.

use std::path::Path;

use super::tools::{cargo, command, packages_with, target_folder, works};
use super::{Step, Work, clients, fuzz, python, soak};
use crate::package;

/// Crates that may have loom tests, with their folders.
const LOOM: &[(&str, &str)] = &[
    ("guira-sync", "base/sync/"),
    ("guira-slab", "engines/slab/"),
    ("guira-fleec", "engines/fleec/"),
    ("guira-mica", "engines/mica/"),
    ("guira-upstream", "fleet/upstream/"),
];

/// What every loom test calls.
const LOOM_CALL: &str = "loom::model";

/// All steps, cheap ones first. Commands name the whole workspace and not a package of it: with those of fewer packages dependencies have
/// fewer features, and are compiled once more.
pub(crate) fn ci() -> Vec<Step> {
    vec![
        Step { name: "format", work: |_| Work::Commands(vec![cargo(&["fmt", "--all", "--check"])]) },
        Step { name: "tidy", work: |_| Work::Tidy },
        Step { name: "clippy", work: |_| Work::Commands(vec![clippy()]) },
        Step { name: "build", work: |_| Work::Commands(vec![cargo(&["build", "--workspace"])]) },
        Step { name: "test", work: |_| Work::Commands(vec![cargo(&["test", "--workspace"])]) },
        Step {
            name: "classic",
            work: |_| Work::Commands(vec![protocol_with("GUIRA_TEST_ENGINE", "classic")]),
        },
        Step { name: "fleec", work: |_| Work::Commands(vec![protocol_with("GUIRA_TEST_ENGINE", "fleec")]) },
        Step { name: "mica", work: |_| Work::Commands(vec![protocol_with("GUIRA_TEST_ENGINE", "mica")]) },
        Step {
            name: "mica-erew",
            work: |_| Work::Commands(vec![protocol_with("GUIRA_TEST_ENGINE", "mica:erew")]),
        },
        Step { name: "peer", work: peer },
        package::chart::current(),
        package::check(),
        package::install(),
        Step { name: "pymemcache", work: clients::pymemcache },
        python::step(),
        Step { name: "memccapable", work: clients::memccapable },
        Step { name: "memcached-tool", work: clients::memcached_tool },
        Step { name: "soak", work: soak::short },
        Step { name: "loom", work: loom },
        Step { name: "fuzz", work: fuzz::step },
    ]
}

/// Writes the documents that are made of tables in the code.
pub(crate) fn documents() -> Step {
    Step {
        name: "docs",
        work: |root| {
            let program = target_folder(root).join("debug/guira");
            let build = cargo(&["build", "--workspace", "--bin", "guira"]);
            Work::Commands(vec![build, command(&[&program.to_string_lossy(), "docs", "docs"])])
        },
    }
}

fn clippy() -> std::process::Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// The protocol tests describe memcached, so they must hold for memcached itself.
fn peer(_root: &Path) -> Work {
    if !works(command(&["memcached", "--version"])) {
        return Work::Skip("memcached is not installed, so the tests are not run against it".into());
    }
    Work::Commands(vec![protocol_with("GUIRA_TEST_SERVER", "memcached")])
}

fn protocol_with(variable: &str, value: &str) -> std::process::Command {
    let mut tests = cargo(&["test", "--workspace", "--test", "protocol"]);
    tests.env(variable, value);
    tests
}

fn loom(root: &Path) -> Work {
    let packages = packages_with(root, LOOM_CALL, LOOM);
    if packages.is_empty() {
        return Work::Skip("no crate has a loom test yet".into());
    }
    let names = packages.iter().flat_map(|name| ["-p", name]);
    let arguments =
        ["test", "--release", "--lib"].into_iter().chain(names).chain(["loom"]).collect::<Vec<_>>();
    let mut tests = cargo(&arguments);
    tests.env("RUSTFLAGS", "--cfg guira_loom");
    tests.env("LOOM_MAX_PREEMPTIONS", "2");
    tests.env("CARGO_TARGET_DIR", target_folder(root).join("loom"));
    Work::Commands(vec![tests])
}
