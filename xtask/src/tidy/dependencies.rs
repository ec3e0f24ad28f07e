//! Checks the dependencies of every crate against the table of the design.

use std::path::Path;

use super::Finding;
use super::layers::{self, RUNTIME_USERS, RUNTIMES, TOP};
use crate::workspace::{Dependency, Package};

/// Checks every package of the workspace.
pub(crate) fn check(root: &Path, packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(|package| check_package(root, package)).collect()
}

fn check_package(root: &Path, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
    let file = manifest.display().to_string();
    let text = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    let Some(may_use) = layers::row(&package.name) else {
        let what = format!("{} is not in the table of who may use whom", package.name);
        return vec![Finding::new(&file, 1, what, "give it a row in xtask/src/tidy/layers.rs")];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let line = line_of(&text, &dependency.name);
        if RUNTIMES.contains(&dependency.name.as_str()) && !RUNTIME_USERS.contains(&&*package.name) {
            let what = format!("{} depends on {}", package.name, dependency.name);
            findings.push(Finding::new(&file, line, what, "do without an asynchronous runtime"));
        }
        if is_ours(&dependency.name) && !is_allowed(&package.name, may_use, dependency) {
            let what = format!("{} may not use {}", package.name, dependency.name);
            let remedy =
                "move the code to where it may be used, or change xtask/src/tidy/layers.rs and say why";
            findings.push(Finding::new(&file, line, what, remedy));
        }
    }
    findings
}

fn is_ours(name: &str) -> bool {
    name.starts_with("guira-") || TOP.contains(&name)
}

/// Whether a crate may use another, in its tests or altogether.
fn is_allowed(user: &str, may_use: layers::MayUse, dependency: &Dependency) -> bool {
    let name = dependency.name.as_str();
    let in_tests = dependency.kind.as_deref() == Some("dev");
    layers::allows(may_use, name) || (in_tests && layers::tests_may_use(user, name))
}

/// The first line that begins with the name of a dependency.
fn line_of(manifest: &str, name: &str) -> usize {
    manifest.lines().position(|line| line.trim_start().starts_with(name)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) });
        Package {
            name: name.to_owned(),
            manifest_path: "/nowhere/Cargo.toml".into(),
            dependencies: dependencies.collect(),
            targets: Vec::new(),
        }
    }

    fn findings(package: Package) -> Vec<Finding> {
        check(Path::new("/nowhere"), &[package])
    }

    #[test]
    fn the_table_is_enforced() {
        assert!(findings(package("guira-memory", &[("guira-sync", None), ("rustix", None)])).is_empty());
        let found = findings(package("guira-sync", &[("guira-memory", None)]));
        assert_eq!(found[0].what, "guira-sync may not use guira-memory");
        assert_eq!(findings(package("guira-slab", &[("guira-protocol", None)])).len(), 1);
    }

    #[test]
    fn tests_may_use_the_lab_and_what_is_listed() {
        assert!(findings(package("guira-commands", &[("guira-slab", Some("dev"))])).is_empty());
        assert_eq!(findings(package("guira-commands", &[("guira-slab", None)])).len(), 1);
        assert_eq!(findings(package("guira-commands", &[("guira-roster", Some("dev"))])).len(), 1);
        assert!(findings(package("guira-slab", &[("guira-workload", Some("dev"))])).is_empty());
        assert_eq!(findings(package("guira-slab", &[("guira-workload", None)])).len(), 1);
        assert_eq!(findings(package("guira-slab", &[("guira-server", Some("dev"))])).len(), 1);
    }

    #[test]
    fn unknown_crates_and_runtimes_are_found() {
        assert_eq!(findings(package("guira-news", &[])).len(), 1);
        assert_eq!(findings(package("guira-server", &[("tokio", None)])).len(), 1);
        assert!(findings(package("guira-discovery", &[("tokio", None)])).is_empty());
    }

    #[test]
    fn nothing_uses_the_top() {
        assert_eq!(findings(package("guira-load", &[("guira-cli", None)])).len(), 1);
        assert!(findings(package("guira-load", &[("guira-server", None)])).is_empty());
    }
}
