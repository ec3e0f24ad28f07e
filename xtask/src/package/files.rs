//! Which file of the repository goes where.

use super::kit::Kit;
use super::tree::Tree;

/// A file, where it is installed, and its permissions.
pub(super) struct Row(pub(super) &'static str, pub(super) &'static str, u32);

/// What a host needs beside the binary, from the root of its file system.
pub(super) const HOST: &[Row] = &[
    Row("deploy/systemd/guira.service", "usr/lib/systemd/system/guira.service", 0o644),
    Row("deploy/systemd/guira.socket", "usr/lib/systemd/system/guira.socket", 0o644),
    Row(
        "deploy/systemd/guira-invalidator.service",
        "usr/lib/systemd/system/guira-invalidator.service",
        0o644,
    ),
    Row("deploy/systemd/invalidator.toml", "usr/share/doc/guira/examples/invalidator.toml", 0o644),
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
    Row("docs/operations.md", "usr/share/doc/guira/operations.md", 0o644),
    Row("docs/drop-in.md", "usr/share/doc/guira/drop-in.md", 0o644),
    Row("docs/options.md", "usr/share/doc/guira/options.md", 0o644),
    Row("docs/invalidator.md", "usr/share/doc/guira/invalidator.md", 0o644),
    Row("docs/checker.md", "usr/share/doc/guira/checker.md", 0o644),
    Row("docs/metrics.md", "usr/share/doc/guira/metrics.md", 0o644),
];

/// Puts the files of a table into a tree, where they are installed or below a folder.
pub(super) fn put(kit: &Kit, tree: &Tree, rows: &[Row]) -> Result<(), String> {
    rows.iter().try_for_each(|Row(source, place, mode)| tree.copy(&kit.root.join(source), place, *mode))
}

/// Puts man pages and completions into a tree.
pub(super) fn put_pages(kit: &Kit, tree: &Tree) -> Result<(), String> {
    let listed = kit.shell(&kit.share(), "find . -type f | sort")?;
    for file in listed.lines().filter_map(|line| line.strip_prefix("./")) {
        tree.copy(&kit.share().join(file), &format!("usr/share/{file}"), 0o644)?;
    }
    Ok(())
}
