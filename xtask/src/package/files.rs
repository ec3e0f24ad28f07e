//! Which file of the repository goes where.

use super::kit::Kit;
use super::tree::Tree;

/// A file, where it is installed, and its permissions.
pub(super) struct Row(pub(super) &'static str, pub(super) &'static str, u32);

/// What a host needs beside the binary, from the root of its file system.
pub(super) const HOST: &[Row] = &[
    Row("deploy/systemd/guira.service", "usr/lib/systemd/system/guira.service", 0o644),
    Row("deploy/systemd/guira.socket", "usr/lib/systemd/system/guira.socket", 0o644),
    Row("deploy/systemd/guira-router.service", "usr/lib/systemd/system/guira-router.service", 0o644),
    Row("deploy/systemd/guira-member.service", "usr/lib/systemd/system/guira-member.service", 0o644),
    Row(
        "deploy/systemd/guira-invalidator.service",
        "usr/lib/systemd/system/guira-invalidator.service",
        0o644,
    ),
    Row("deploy/systemd/guira-checker.service", "usr/lib/systemd/system/guira-checker.service", 0o644),
    Row("deploy/systemd/router.json", "usr/share/doc/guira/examples/router.json", 0o644),
    Row("deploy/systemd/router.env", "usr/share/doc/guira/examples/router.env", 0o644),
    Row("deploy/systemd/member.env", "usr/share/doc/guira/examples/member.env", 0o644),
    Row("deploy/systemd/invalidator.toml", "usr/share/doc/guira/examples/invalidator.toml", 0o644),
    Row("deploy/systemd/checker.toml", "usr/share/doc/guira/examples/checker.toml", 0o644),
    Row("deploy/prometheus/guira.rules.yaml", "usr/share/doc/guira/examples/guira.rules.yaml", 0o644),
    Row("deploy/prometheus/otel-collector.yaml", "usr/share/doc/guira/examples/otel-collector.yaml", 0o644),
    Row("deploy/grafana/guira-node.json", "usr/share/doc/guira/examples/guira-node.json", 0o644),
    Row("deploy/grafana/guira-router.json", "usr/share/doc/guira/examples/guira-router.json", 0o644),
    Row(
        "deploy/grafana/guira-invalidator.json",
        "usr/share/doc/guira/examples/guira-invalidator.json",
        0o644,
    ),
    Row("deploy/systemd/guira.sysusers.conf", "usr/lib/sysusers.d/guira.conf", 0o644),
    Row("deploy/systemd/guira.toml", "etc/guira/guira.toml", 0o644),
    Row("deploy/systemd/memcached-options", "usr/lib/guira/memcached-options", 0o755),
    Row(
        "deploy/systemd/memcached.service.d/guira.conf",
        "usr/share/doc/guira/examples/memcached.service.d/guira.conf",
        0o644,
    ),
];

/// Rows of pages below `docs`, which are installed in the same folders.
macro_rules! pages {
    ($($page:literal)*) => {
        &[$(Row(concat!("docs/", $page), concat!("usr/share/doc/guira/", $page), 0o644)),*]
    };
}

/// The pages of the manual: they link to each other.
pub(super) const DOCUMENTS: &[Row] = pages! {
    "README.md"
    "guide/capacity.md"
    "guide/checker.md"
    "guide/client.md"
    "guide/demonstration.md"
    "guide/freshness.md"
    "guide/from-bitnami.md"
    "guide/from-elasticache.md"
    "guide/install.md"
    "guide/invalidator.md"
    "guide/leases.md"
    "guide/membership.md"
    "guide/python.md"
    "guide/repair.md"
    "guide/replacing-mcrouter.md"
    "guide/replacing-memcached.md"
    "guide/run.md"
    "guide/runbook.md"
    "guide/security.md"
    "guide/tune.md"
    "reference/demonstration-metrics.md"
    "reference/log-messages.md"
    "reference/metrics.md"
    "reference/options.md"
    "reference/protocol-mica.md"
    "reference/router-config.md"
    "reference/router-handles.md"
    "reference/router-hashes.md"
    "reference/router-options.md"
    "reference/system-calls.md"
};

/// The services that need a configuration before they can start: all but that of caches.
pub(super) fn other_services() -> String {
    let names = HOST.iter().filter_map(|row| row.1.strip_prefix("usr/lib/systemd/system/"));
    let others = names.filter(|name| name.ends_with(".service") && *name != "guira.service");
    others.collect::<Vec<_>>().join(" ")
}

/// Puts the files of a table into a tree, where they are installed or below a folder.
pub(super) fn put(kit: &Kit, tree: &Tree, rows: &[Row]) -> Result<(), String> {
    rows.iter().try_for_each(|Row(source, place, mode)| tree.copy(&kit.root.join(source), place, *mode))
}

/// Puts the man pages and completions of a program into a tree.
pub(super) fn put_pages(kit: &Kit, tree: &Tree, program: &str) -> Result<(), String> {
    let share = kit.share(program);
    let listed = kit.shell(&share, "find . -type f | sort")?;
    for file in listed.lines().filter_map(|line| line.strip_prefix("./")) {
        tree.copy(&share.join(file), &format!("usr/share/{file}"), 0o644)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_unit_is_installed_and_scripts_are_told_of_all_but_the_caches() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd");
        let entries = std::fs::read_dir(folder).expect("units");
        let names = entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned());
        let units: Vec<String> = names.filter(|name| name.ends_with(".service")).collect();
        assert!(units.len() > 4, "{units:?}");
        let others = other_services();
        for unit in units {
            let place = format!("usr/lib/systemd/system/{unit}");
            assert!(HOST.iter().any(|row| row.1 == place), "{unit} is in no package");
            assert_eq!(others.split(' ').any(|other| other == unit), unit != "guira.service", "{unit}");
        }
    }

    #[test]
    fn every_page_of_the_manual_is_installed_with_the_pages_that_it_links_to() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let is_shipped = |page: &Path| DOCUMENTS.iter().any(|row| Path::new(row.0) == page);
        for folder in ["docs/guide", "docs/reference"] {
            for entry in std::fs::read_dir(root.join(folder)).expect("a folder of pages") {
                let page = Path::new(folder).join(entry.expect("a page").file_name());
                assert!(is_shipped(&page), "{} is in no package", page.display());
            }
        }
        for Row(page, ..) in DOCUMENTS {
            let text = std::fs::read_to_string(root.join(page)).expect(page);
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(['#', ')']).next());
            for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
                let folder = Path::new(page).parent().expect("a folder");
                let linked = match target.strip_prefix("../") {
                    Some(rest) => folder.parent().expect("a folder").join(rest),
                    None => folder.join(target),
                };
                assert!(is_shipped(&linked), "{page} links to {target}, which is in no package");
            }
        }
    }
}
