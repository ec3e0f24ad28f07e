//! The steps of `make test`.

use std::path::Path;

use super::tools::{cargo, command, everything, packages_with, programs, target_folder};
use super::{Plan, Step, Work, arm64, clients, python, simulation, soak, suites};
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

/// Commands name no packages: for fewer packages dependencies have fewer features, and are compiled once more.
pub(crate) fn ci() -> Plan {
    let stages = vec![
        vec![Step { name: "format", work: |_| Work::Commands(vec![cargo(&["fmt", "--all", "--check"])]) }],
        vec![Step { name: "tidy", work: |_| Work::Tidy }],
        vec![package::chart::current()],
        // Each often has work for one processor only.
        vec![
            Step { name: "build", work: |_| Work::Commands(vec![everything()]) },
            Step { name: "clippy", work: clippy_beside },
        ],
        vec![package::check()],
    ];
    let side_by_side = vec![
        Step { name: "test", work: suites::all },
        Step { name: "examples", work: |_| Work::Commands(vec![cargo(&["test", "--doc"])]) },
        package::install(),
        Step { name: "pymemcache", work: clients::pymemcache },
        python::step(),
        Step { name: "memccapable", work: clients::memccapable },
        Step { name: "memcached-tool", work: clients::memcached_tool },
        Step { name: "soak", work: soak::short },
        Step { name: "simulation", work: simulation::short },
        Step { name: "loom", work: loom },
        Step { name: "arm64", work: arm64::short },
    ];
    Plan { stages, side_by_side }
}

/// What a developer runs before each commit.
pub(crate) fn check() -> Vec<Step> {
    vec![
        Step { name: "format", work: |_| Work::Commands(vec![cargo(&["fmt", "--all", "--check"])]) },
        Step { name: "tidy", work: |_| Work::Tidy },
        Step { name: "clippy", work: |_| Work::Commands(vec![clippy()]) },
        Step { name: "changed", work: suites::changed },
    ]
}

/// Writes the documents that are made of tables in the code.
pub(crate) fn documents() -> Step {
    Step {
        name: "docs",
        work: |root| {
            let folder = target_folder(root).join("debug");
            let docs = |name| command(&[&folder.join(name).to_string_lossy(), "docs", "docs/reference"]);
            let mut of_guira = docs("guira");
            of_guira.args(["--dashboards", "deploy/grafana"]);
            Work::Commands(vec![
                command(&["cargo", "xtask", "log-messages"]),
                programs(),
                of_guira,
                docs("guira-lab"),
            ])
        },
    }
}

fn clippy() -> std::process::Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Clippy, in a folder of its own: in one folder, cargo runs one compilation after the other.
fn clippy_beside(root: &Path) -> Work {
    let mut clippy = clippy();
    clippy.env("CARGO_TARGET_DIR", target_folder(root).join("clippy"));
    Work::Commands(vec![clippy])
}

fn loom(root: &Path) -> Work {
    let packages = packages_with(root, LOOM_CALL, LOOM);
    if packages.is_empty() {
        return Work::Skip("no crate has a loom test yet".into());
    }
    let names = packages.iter().flat_map(|name| ["-p", name]);
    let arguments = ["test", "--lib"].into_iter().chain(names).chain(["loom"]).collect::<Vec<_>>();
    let mut tests = cargo(&arguments);
    tests.env("RUSTFLAGS", "--cfg guira_loom");
    tests.env("LOOM_MAX_PREEMPTIONS", "2");
    tests.env("CARGO_TARGET_DIR", target_folder(root).join("loom"));
    // The models run for a second, and to optimise what they use takes a minute.
    tests.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    Work::Commands(vec![tests])
}
