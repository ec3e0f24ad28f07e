//! `make soak`: what takes too long, or needs too much from elsewhere, for every change; and a short form of the load for `make test`.

use std::path::Path;
use std::process::Command;

use super::pool::Job;
use super::tools::{cargo, command, programs, target_folder};
use super::{Step, Work, arm64, clients, fuzz, mysql};
use crate::package;

/// What begins a seed on the command line.
const SEED: &str = "--seed";

/// Every engine, which all do everything. The first is what runs unless another is named; it does more of it.
const ENGINES: [&str; 7] = ["memc3", "classic", "fleec", "memclock", "mica", "mica:erew", "mica-store"];

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "build", work: |_| Work::Commands(vec![programs()]) },
        Step { name: "clients", work: clients::others },
        Step { name: "page", work: clients::page },
        Step { name: "load", work: load },
        Step { name: "full", work: full },
        Step { name: "kills", work: kills },
        Step { name: "takeovers", work: takeovers },
        Step { name: "router", work: router },
        Step { name: "system-calls", work: |_| Work::Commands(system_calls()) },
        package::chart::rendered(),
        package::soak(),
        package::soak_arm64(),
        package::reproducible::step(),
        Step { name: "router-kills", work: |_| Work::Commands(ignored_tests("router")) },
        Step { name: "invalidator-kills", work: |_| Work::Commands(ignored_tests("invalidator")) },
        Step { name: "mysql", work: mysql::tests },
        Step { name: "arm64", work: arm64::soak },
        Step { name: "regions", work: |_| Work::Commands(ignored_tests("client")) },
        Step { name: "demo", work: demo },
        Step { name: "simulation", work: simulation },
        Step { name: "fuzz", work: fuzz::step },
        Step { name: "shared-writes", work: |root| Work::Commands(shared_writes(root, &[])) },
        Step { name: "long-tests", work: |_| Work::Commands(vec![long_tests()]) },
        Step {
            name: "papers",
            work: |_| {
                let papers = ["--manifest-path", "papers/Cargo.toml"];
                let clippy =
                    [&["clippy", "--release", "--all-targets"], &papers[..], &["--", "-D", "warnings"]];
                let tests = [&["test", "--release"], &papers[..]];
                Work::Commands(vec![cargo(&clippy.concat()), cargo(&tests.concat())])
            },
        },
    ]
}

/// The names of steps among the arguments: those before `--seed N`.
pub(crate) fn chosen(arguments: &[String]) -> &[String] {
    let end = arguments.iter().position(|argument| argument == SEED).unwrap_or(arguments.len());
    &arguments[..end]
}

/// The seed that the command line names. Steps have no arguments, so it is read from there.
fn seed() -> Option<String> {
    std::env::args().skip_while(|argument| argument != SEED).nth(1)
}

fn load(root: &Path) -> Work {
    let others = ["--memory", "256", "--seconds", "300"];
    released(root, "load", &["--memory", "256", "--seconds", "600"], &others)
}

fn full(root: &Path) -> Work {
    released(root, "full", &["--filling", "60"], &["--filling", "60"])
}

fn kills(root: &Path) -> Work {
    released(root, "kills", &["--kills", "200"], &["--kills", "100"])
}

fn takeovers(root: &Path) -> Work {
    released(root, "takeovers", &["--takeovers", "100"], &["--takeovers", "100"])
}

/// The tests of servers and routers, each of which is restricted to listed system calls.
fn system_calls() -> Vec<Command> {
    let tests = ["protocol", "extensions", "server", "admin", "router"].map(|name| ["--test", name]);
    let mut tests = cargo(&[&["test"], &tests.concat()[..]].concat());
    tests.env("GUIRA_TEST_SYSTEM_CALLS", "listed");
    vec![programs(), tests]
}

/// A router before servers that misbehave: which engine they have does not matter.
fn router(root: &Path) -> Work {
    Work::Commands(vec![build_released(&["guira", "guira-soak"]), program(root, "release", &["router"])])
}

/// Many seeds of regions in a simulated machine, from the given one.
fn simulation(root: &Path) -> Work {
    let seed = seed().unwrap_or_else(|| "1".to_owned());
    Work::Commands(super::simulation::commands(root, &[SEED, &seed, "--seeds", "20000"].map(str::to_owned)))
}

/// Ten minutes of random faults of the region that people look at.
fn demo(root: &Path) -> Work {
    let guira = target_folder(root).join("release/guira").to_string_lossy().into_owned();
    let seed = seed().unwrap_or_else(|| "1".to_owned());
    Work::Commands(vec![
        build_released(&["guira"]),
        command(&[&guira, "fleet", "up", "--chaos", "10m", SEED, &seed]),
    ])
}

/// A part of the soak as it is released, with the first engine and with the others.
fn released(root: &Path, part: &str, first: &[&str], others: &[&str]) -> Work {
    let program = |engine: &&str| {
        let amounts = if *engine == ENGINES[0] { first } else { others };
        program(root, "release", &[&[part, "--engine", engine], amounts].concat())
    };
    let build = build_released(&["guira", "guira-soak"]);
    Work::Commands(std::iter::once(build).chain(ENGINES.iter().map(program)).collect())
}

/// The step that writes the counts into the documents.
pub(crate) fn shared_writes_document() -> Step {
    let work = |root: &Path| Work::Commands(shared_writes(root, &["--out", "docs/results/shared-writes.md"]));
    Step { name: "shared-writes", work }
}

/// Counts the writes to cache lines that workers share, and compares them with their limits.
fn shared_writes(root: &Path, arguments: &[&str]) -> Vec<Command> {
    let lab = target_folder(root).join("release/guira-lab").to_string_lossy().into_owned();
    // The engines whose counts have limits.
    let count = command(&[&[lab.as_str(), "shared-writes", "--engines", "memc3,mica"], arguments].concat());
    vec![build_released(&["guira", "guira-lab"]), count]
}

/// The tests that are too long for every change: sixteen threads on the engine without locks in one process, how full a gibibyte of the engine
/// with partitions comes to be.
fn long_tests() -> Command {
    let packages = ["-p", "guira-fleec", "-p", "guira-mica"];
    cargo(&[&["test", "--release"], &packages[..], &["--", "--ignored", "--nocapture"]].concat())
}

/// Tests of a program that are too long for every change: a router that is killed a hundred times while its server is down, an invalidator that is as often killed at work,
/// a history of two regions. The client's tests take the seed.
fn ignored_tests(program: &str) -> Vec<Command> {
    let test = ["test", "--release", "--test", program, "--", "--ignored", "--nocapture", "--test-threads=1"];
    let mut tests = cargo(&test);
    if let Some(seed) = seed() {
        tests.env("GUIRA_CLIENT_SEED", seed);
    }
    vec![build_released(&["guira"]), tests]
}

/// Builds programs as they are released, with what all of the workspace wants of dependencies, so that one step does not compile again what another
/// one has.
pub(super) fn build_released(programs: &[&str]) -> Command {
    let programs = programs.iter().flat_map(|name| ["--bin", name]);
    cargo(&["build", "--release"].into_iter().chain(programs).collect::<Vec<_>>())
}

/// Less of everything with every engine, against the debug build, whose assertions hold as well; always with the same seed.
pub(crate) fn short(root: &Path) -> Work {
    if !programs().current_dir(root).status().is_ok_and(|status| status.success()) {
        return Work::Call(Box::new(|| Err("the programs do not compile".to_owned())));
    }
    let job = |engine: &&str| {
        let [seconds, kills, takeovers] =
            if *engine == ENGINES[0] { ["15", "4", "5"] } else { ["4", "2", "2"] };
        // Long enough that what was to live for a second has certainly expired.
        let amounts = ["--seconds", seconds, "--memory", "64", "--filling", "4"];
        let times = ["--kills", kills, "--takeovers", takeovers, SEED, "1"];
        let program = program(root, "debug", &[&["--engine", engine], &amounts[..], &times[..]].concat());
        Job::new(format!("soak-{}", engine.replace(':', "-")), vec![program])
    };
    Work::Jobs(ENGINES.iter().map(job).collect())
}

fn program(root: &Path, profile: &str, arguments: &[&str]) -> Command {
    let folder = target_folder(root).join(profile);
    let binary = folder.join("guira-soak").to_string_lossy().into_owned();
    let mut program = command(&[&[binary.as_str()], arguments].concat());
    program.arg("--guira").arg(folder.join("guira"));
    if let Some(seed) = seed() {
        program.args([SEED, &seed]);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn a_seed_is_no_step() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&words(&["load", "--seed", "7"])), words(&["load"]));
        assert_eq!(chosen(&words(&["load", "kills"])), words(&["load", "kills"]));
        assert!(chosen(&words(&["--seed", "7"])).is_empty());
    }
}
