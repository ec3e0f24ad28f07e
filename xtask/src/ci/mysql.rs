//! A MySQL, which Debian's stable release has not.

use std::path::Path;

use super::Work;
use super::debian::{self, PackageSet};
use super::soak::build_released;
use super::tools::{cargo, works};

const MYSQL: PackageSet = PackageSet {
    name: "MySQL",
    folder: "mysql",
    architectures: &["amd64"],
    whole: &["mysql-server-core"],
    alone: &[],
};

/// Fetches it, unless it is there, and runs the invalidator's tests with it.
pub(super) fn tests(root: &Path) -> Work {
    let runs =
        |folder: &Path| works(debian::program(folder, "usr/sbin/mysqld", &["--no-defaults", "--version"]));
    let prefix = match MYSQL.fetch(root, runs) {
        Ok(prefix) => prefix,
        Err(reason) => return Work::Skip(reason),
    };
    let words = ["test", "--release", "--test", "invalidator", "--"];
    let mut test = cargo(&[&words[..], &["mysql", "--include-ignored", "--nocapture"]].concat());
    test.env("GUIRA_MYSQL", prefix);
    Work::Commands(vec![build_released(&["guira"]), test])
}
