//! Checks the licences and the sources of all crates against deny.toml, without a network.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use super::Finding;
use crate::workspace::{self, WORKSPACES};

const RULES: &str = "deny.toml";

/// What deny.toml allows.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

/// A package of a lock file.
#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Licensed>,
}

/// A package, and its licence.
#[derive(Clone, Debug, Deserialize)]
struct Licensed {
    name: String,
    version: String,
    source: Option<String>,
    license: Option<String>,
}

/// Checks all workspaces.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"));
    let text = read(RULES)?;
    let rules: Rules = toml::from_str(&text).map_err(|error| format!("{RULES}: {error}"))?;
    let (mut findings, mut licensed) = (Vec::new(), Vec::new());
    for manifest in WORKSPACES {
        let lock = manifest.replace(".toml", ".lock");
        findings.extend(check_sources(&lock, &read(&lock)?, &rules.sources.allow_registry)?);
        let all = ["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest];
        let system = ["--filter-platform", workspace::TARGET];
        let json = workspace::output(root, "cargo", &[&all[..], &system[..]].concat())?;
        let metadata: Metadata =
            serde_json::from_str(&json).map_err(|error| format!("cargo metadata of {manifest}: {error}"))?;
        licensed.extend(metadata.packages.into_iter().filter(|package| package.source.is_some()));
    }
    findings.extend(check_licenses(&text, &licensed, &rules.licenses.allow));
    Ok(findings)
}

/// All crates of others come from a registry that is allowed, with the sum of their content.
fn check_sources(file: &str, text: &str, registries: &[String]) -> Result<Vec<Finding>, String> {
    let lock: Lock = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
    let mut findings = Vec::new();
    for Locked { name, version, source, checksum } in lock.package {
        let Some(source) = source else { continue };
        let registry = source.strip_prefix("registry+");
        let is_allowed =
            registry.is_some_and(|registry| registries.iter().any(|allowed| allowed == registry));
        if !is_allowed || checksum.is_none() {
            let name_line = format!("name = \"{name}\"");
            let line = text.lines().position(|line| line == name_line).map_or(1, |index| index + 1);
            let what = format!("{name} {version} comes from {source}, or without a checksum");
            let remedy = format!("use a release on a registry that {RULES} allows");
            findings.push(Finding::new(file, line, what, remedy));
        }
    }
    Ok(findings)
}

/// The licence of each crate is allowed, and no licence is allowed in vain.
fn check_licenses(rules: &str, packages: &[Licensed], allowed: &[String]) -> Vec<Finding> {
    let line_of = |entry: &str| {
        let quoted = format!("\"{entry}\"");
        rules.lines().position(|line| line.contains(&quoted)).map_or(1, |index| index + 1)
    };
    let all: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
    let may_use = |package: &Licensed, allowed: &BTreeSet<&str>| {
        package.license.as_deref().is_some_and(|text| permits(text, allowed))
    };
    let (good, bad): (Vec<&Licensed>, Vec<&Licensed>) =
        packages.iter().partition(|package| may_use(package, &all));
    let refused = bad.iter().map(|Licensed { name, version, license, .. }| {
        let license = license.as_deref().unwrap_or("no licence in words of SPDX");
        let what = format!("{name} {version} has a licence that is not allowed: {license}");
        Finding::new(RULES, line_of("Apache-2.0"), what, "do without the crate, or allow its licence")
    });
    let in_vain = allowed.iter().filter(|entry| {
        let rest: BTreeSet<&str> = all.iter().copied().filter(|other| other != entry).collect();
        good.iter().all(|package| may_use(package, &rest))
    });
    let in_vain = in_vain.map(|entry| {
        Finding::new(RULES, line_of(entry), format!("no crate needs the licence {entry}"), "remove it")
    });
    refused.chain(in_vain).collect()
}

/// Whether an expression of SPDX can be met with these licences. An older form has `/` for OR.
fn permits(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = every(words, allowed);
    while take(words, "OR") {
        is_met |= every(words, allowed);
    }
    is_met
}

fn every(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = one(words, allowed);
    while take(words, "AND") {
        is_met &= one(words, allowed);
    }
    is_met
}

fn one(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    if take(words, "(") {
        return any(words, allowed) & take(words, ")");
    }
    let Some((name, rest)) = words.split_first() else { return false };
    *words = rest;
    if take(words, "WITH")
        && let Some((exception, rest)) = words.split_first()
    {
        *words = rest;
        return allowed.contains(format!("{name} WITH {exception}").as_str());
    }
    allowed.contains(name)
}

/// Takes a word off, if it is the first.
fn take(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_the_licences_that_are_allowed() {
        let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
        for (expression, is_met) in [
            ("MIT", true),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0-only", false),
            ("(GPL-3.0-only OR MIT) AND ISC", true),
            ("(GPL-3.0-only OR MIT) AND Zlib", false),
            ("GPL-3.0-only OR MIT AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", true),
            ("Apache-2.0", false),
            ("", false),
            ("(MIT", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(permits(expression, &allowed), is_met, "{expression}");
        }
    }

    #[test]
    fn a_licence_that_is_not_allowed_and_one_that_is_not_needed_are_found() {
        let package = |name: &str, license: Option<&str>| Licensed {
            name: name.into(),
            version: "1.0.0".into(),
            source: Some("registry".into()),
            license: license.map(Into::into),
        };
        let rules = "allow = [\n  \"MIT\",\n  \"Zlib\",\n  \"ISC\",\n]";
        let allowed = ["MIT", "Zlib", "ISC"].map(str::to_owned);
        let good =
            [package("one", Some("MIT")), package("other", Some("Zlib OR MIT")), package("i", Some("ISC"))];
        let found = check_licenses(rules, &good, &allowed);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line, found[0].what.as_str()), (3, "no crate needs the licence Zlib"));
        let bad = [package("bad", Some("GPL-3.0-only")), package("none", None)];
        let found = check_licenses(rules, &[&good[..], &bad].concat(), &allowed);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].what.contains("bad 1.0.0") && found[1].what.contains("none 1.0.0"), "{found:?}");
    }

    #[test]
    fn crates_come_from_registries_that_are_allowed_with_a_sum() {
        let text = |source: &str, sum: &str| {
            format!(
                "version = 4\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"{source}\"\n{sum}"
            )
        };
        let allowed = ["https://registry".to_owned()];
        let sum = "checksum = \"00\"\n";
        let found = |text: String| check_sources("Cargo.lock", &text, &allowed).unwrap();
        assert_eq!(found(text("registry+https://registry", sum)), []);
        for wrong in [
            text("registry+https://other", sum),
            text("git+https://registry/x?rev=1#1", sum),
            text("registry+https://registry", ""),
        ] {
            let found = found(wrong);
            assert_eq!((found.len(), found[0].line), (1, 7), "{found:?}");
        }
    }
}
