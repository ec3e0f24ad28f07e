//! `unsafe` only where the design allows it, and every other crate forbids it.

use std::path::Path;

use super::Finding;
use super::source::Source;
use crate::workspace::{Package, Target};

/// Folders whose crates may have `unsafe`, each block with its argument.
const ALLOWED: &[&str] = &[
    "base/world/",
    "base/sync/",
    "base/memory/",
    "base/transport/",
    "engines/slab/",
    "engines/fleec/",
    "engines/mica/",
];

/// Programs that are one call of a macro, which exports a symbol: that is unsafe code.
const ONE_MACRO: &str = "fuzz/fuzz_targets/";

const FORBIDDEN: &str = "#![forbid(unsafe_code)]";

/// Checks every file, and the roots of libraries and binaries.
pub(crate) fn check(root: &Path, sources: &[Source], packages: &[Package]) -> Vec<Finding> {
    let mut findings = sources.iter().flat_map(check_source).collect::<Vec<_>>();
    for package in packages {
        for target in package.targets.iter().filter(|target| is_shipped(target)) {
            let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path).display().to_string();
            let source = sources.iter().find(|source| source.path == path);
            if let Some(source) =
                source.filter(|source| must_forbid(&source.path) && !source.code.contains(FORBIDDEN))
            {
                let what = format!("the root of {} does not forbid unsafe code", package.name);
                findings.push(Finding::new(
                    &source.path,
                    1,
                    what,
                    format!("write {FORBIDDEN} after its description"),
                ));
            }
        }
    }
    findings
}

fn check_source(source: &Source) -> Vec<Finding> {
    if is_allowed(&source.path) {
        return Vec::new();
    }
    let found = source.words("unsafe").map(|at| {
        let remedy = "move what needs it to base/sync, base/memory or base/transport behind a safe function";
        Finding::new(&source.path, source.line_at(at), "unsafe is not allowed here", remedy)
    });
    found.collect()
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|folder| path.starts_with(folder))
}

fn must_forbid(path: &str) -> bool {
    !is_allowed(path) && !path.starts_with(ONE_MACRO)
}

fn is_shipped(target: &Target) -> bool {
    target.kind.iter().any(|kind| ["lib", "bin", "proc-macro"].contains(&kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, content: &str) -> usize {
        let package = Package {
            name: "x".into(),
            manifest_path: "/r/Cargo.toml".into(),
            dependencies: Vec::new(),
            targets: vec![Target { kind: vec!["lib".into()], src_path: Path::new("/r").join(path) }],
        };
        check(Path::new("/r"), &[Source::new(path, content)], &[package]).len()
    }

    #[test]
    fn unsafe_has_its_places() {
        assert_eq!(findings("engines/slab/src/lib.rs", "unsafe { f() }"), 0);
        assert_eq!(findings("node/server/src/lib.rs", "#![forbid(unsafe_code)]\nunsafe { f() }"), 1);
        assert_eq!(findings("node/server/src/lib.rs", "#![forbid(unsafe_code)]\n// unsafe\n\"unsafe\""), 0);
    }

    #[test]
    fn other_roots_forbid_it() {
        assert_eq!(findings("node/server/src/lib.rs", "fn f() {}"), 1);
        assert_eq!(findings("node/server/src/lib.rs", "// #![forbid(unsafe_code)]"), 1);
    }
}
