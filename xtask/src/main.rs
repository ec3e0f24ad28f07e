//! `cargo xtask`: what the repository checks about itself.
//!
//! * `cargo xtask tidy` – rules that no compiler knows: see [`tidy`].
//! * `cargo xtask check` – format, tidy, clippy, and the unit tests of changed crates: `make check` calls it.
//! * `cargo xtask ci` – every step of continuous integration, `make test` calls it: see [`ci`].
//! * `cargo xtask docs` – writes the documents that are made of tables in the code.
//! * `cargo xtask dist` – builds the binary that is shipped, and its debug information beside it.
//! * `cargo xtask chart` – renders the Helm chart and writes the manifest of its defaults.
//! * `cargo xtask wheel` – builds the Python package that is released: see `ci::python`.
//! * `cargo xtask package` – builds what is installed elsewhere, `make package` calls it: see [`package`].
//! * `cargo xtask sanitize` – the tests of the crates with `unsafe` under the sanitizers.
//! * `cargo xtask shared-writes` – counts writes to cache lines that workers share, and writes docs/results/shared-writes.md.
//! * `cargo xtask simulate` – regions in a simulated machine: see docs/develop/simulation.md.
//! * `cargo xtask soak` – what is too long for every change, `make soak` calls it.
//! * `cargo xtask arm64` – the tests of Guira for arm64, `make arm64` calls it: see `ci::arm64`.
#![forbid(unsafe_code)]

mod ci;
mod messages;
mod package;
mod tidy;
mod workspace;

use std::process::ExitCode;

use ci::Unable;

const USAGE: &str = "usage: cargo xtask tidy | check | docs | dist | shared-writes | chart | wheel | package [STEP…] [--arch arm64] | ci [STEP…] | sanitize [STEP…] | soak [STEP…] [--seed N] | arm64 [STEP…] | simulate [--scenario NAME] [--seed N] [--seeds N] [--seconds N] [--again N] [--first N] [--trace] [--plant NAME] [--without KIND,…] [--clients N] [--shrink] [--bugs]";

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let root = match workspace::root() {
        Ok(root) => root,
        Err(error) => return fail(&error),
    };
    let Some((command, rest)) = arguments.split_first() else { return fail(USAGE) };
    match command.as_str() {
        "tidy" if rest.is_empty() => match tidy::run(&root) {
            Ok(findings) => tidy::report(&findings),
            Err(error) => fail(&error),
        },
        "docs" if rest.is_empty() => ci::run(&root, vec![ci::steps::documents()], rest, Unable::Fails),
        "log-messages" if rest.is_empty() => match tidy::documents(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        "dist" if rest.is_empty() => ci::run(&root, vec![ci::dist::step()], rest, Unable::Fails),
        "chart" if rest.is_empty() => ci::run(&root, vec![package::chart::write()], rest, Unable::Fails),
        "wheel" if rest.is_empty() => ci::python::wheel(&root),
        "package" => ci::run(&root, package::steps(), package::machine::steps_of(rest), Unable::Fails),
        "image-root" if rest.is_empty() => ci::run(&root, package::image_root(), rest, Unable::Fails),
        "check" if rest.is_empty() => ci::run(&root, ci::steps::check(), rest, Unable::Skips),
        "ci" => ci::run(&root, ci::steps::ci(), rest, Unable::Skips),
        "sanitize" => ci::run(&root, ci::sanitize::steps(), rest, Unable::Skips),
        "shared-writes" if rest.is_empty() => {
            ci::run(&root, vec![ci::soak::shared_writes_document()], rest, Unable::Fails)
        }
        "simulate" => ci::simulation::run(&root, rest),
        "arm64" => ci::run(&root, ci::arm64::steps(), rest, Unable::Fails),
        "soak" => ci::run(&root, ci::soak::steps(), ci::soak::chosen(rest), Unable::Skips),
        _ => fail(USAGE),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
