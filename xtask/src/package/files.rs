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
    Row("deploy/systemd/guira.sysusers.conf", "usr/lib/sysusers.d/guira.conf", 0o644),
    Row("deploy/systemd/guira.toml", "etc/guira/guira.toml", 0o644),
    Row("deploy/systemd/memcached-options", "usr/lib/guira/memcached-options", 0o755),
    Row(
        "deploy/systemd/memcached.service.d/guira.conf",
        "usr/share/doc/guira/examples/memcached.service.d/guira.conf",
        0o644,
    ),
];

/// What is read.
pub(super) const DOCUMENTS: &[Row] = &[
    Row("docs/guide/run.md", "usr/share/doc/guira/operations.md", 0o644),
    Row("docs/drop-in.md", "usr/share/doc/guira/drop-in.md", 0o644),
    Row("docs/options.md", "usr/share/doc/guira/options.md", 0o644),
    Row("docs/security.md", "usr/share/doc/guira/security.md", 0o644),
    Row("docs/runbook.md", "usr/share/doc/guira/runbook.md", 0o644),
    Row("docs/leases.md", "usr/share/doc/guira/leases.md", 0o644),
    Row("docs/client.md", "usr/share/doc/guira/client.md", 0o644),
    Row("docs/freshness.md", "usr/share/doc/guira/freshness.md", 0o644),
    Row("docs/protocol-mica.md", "usr/share/doc/guira/protocol-mica.md", 0o644),
    Row("docs/router.md", "usr/share/doc/guira/router.md", 0o644),
    Row("docs/router-config.md", "usr/share/doc/guira/router-config.md", 0o644),
    Row("docs/router-handles.md", "usr/share/doc/guira/router-handles.md", 0o644),
    Row("docs/router-hashes.md", "usr/share/doc/guira/router-hashes.md", 0o644),
    Row("docs/router-options.md", "usr/share/doc/guira/router-options.md", 0o644),
    Row("docs/membership.md", "usr/share/doc/guira/membership.md", 0o644),
    Row("docs/invalidator.md", "usr/share/doc/guira/invalidator.md", 0o644),
    Row("docs/checker.md", "usr/share/doc/guira/checker.md", 0o644),
    Row("docs/metrics.md", "usr/share/doc/guira/metrics.md", 0o644),
];

/// The services that have to be told what to do before they can start: all but that of caches.
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
}
